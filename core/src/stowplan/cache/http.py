"""One HTTP exchange with a bounded end: no redirects, no more bytes or time than allowed, errors as one kind."""

from __future__ import annotations

import base64
import http.client
import netrc
import ssl
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import TypeVar
from urllib.parse import SplitResult, urlsplit

from stowplan.errors import UsageError
from stowplan.nouns import dataclass, field

CHUNK_BYTES = 256 * 1024
Result = TypeVar("Result")


class Unreachable(Exception):
    """The server did not answer as asked, in time; the text says how, and holds no credentials."""


@dataclass(frozen=True, kw_only=True)
class Server:
    """Where to go and who we are. `authorization` never appears in texts: it is left out of the representation."""

    scheme: str
    host: str
    port: int | None
    path: str
    authorization: str = field(default="", repr=False)

    @property
    def title(self) -> str:
        return f"{self.scheme}://{self.host}{'' if self.port is None else f':{self.port}'}{self.path}"

    @classmethod
    def parse(cls, url: str, environment: Mapping[str, str]) -> Server:
        """Return the server of an address. Raises `UsageError` for one that is none or has a password in it."""
        try:
            parts = urlsplit(url)
            port = parts.port
        except ValueError:
            raise UsageError("STOWPLAN_REMOTE_CACHE: is no address; write http://HOST:PORT/PATH") from None
        if parts.username is not None or parts.password is not None:
            raise UsageError(
                "STOWPLAN_REMOTE_CACHE: holds a user name; put it into STOWPLAN_REMOTE_USER and "
                "STOWPLAN_REMOTE_PASSWORD, STOWPLAN_REMOTE_TOKEN, or a netrc file"
            )
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
            raise UsageError("STOWPLAN_REMOTE_CACHE: is no address; write http://HOST:PORT/PATH")
        return cls(
            scheme=parts.scheme,
            host=parts.hostname,
            port=port,
            path=parts.path.rstrip("/"),
            authorization=_authorization(parts, environment),
        )


def exchange(
    server: Server, method: str, path: str, deadline: float, body: bytes | None = None, most: int = 0
) -> bytes:
    """Do one request and return the answer's body of at most `most` bytes. Raises `Unreachable`, `FileNotFoundError`.

    `deadline` is a time of `time.monotonic()`; nothing takes longer, name lookup and a server that drips included.
    """
    return within(deadline, lambda: _exchange(server, method, path, deadline, body, most))


def within(deadline: float, work: Callable[[], Result]) -> Result:
    """Return what `work` gives, or raise `Unreachable` at the deadline; work that hangs is left behind."""
    outcome: list[Result] = []
    failure: list[BaseException] = []

    def run() -> None:
        try:
            outcome.append(work())
        except BaseException as err:  # it is raised again where somebody waits for it
            failure.append(err)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(max(deadline - time.monotonic(), 0))
    if failure:
        raise failure[0]
    if not outcome:
        raise Unreachable("no answer in time")
    return outcome[0]


def _exchange(server: Server, method: str, path: str, deadline: float, body: bytes | None, most: int) -> bytes:
    connection = _connection(server, deadline)
    try:
        headers = {"Authorization": server.authorization} if server.authorization else {}
        connection.request(method, server.path + path, body=body, headers={"User-Agent": "stowplan", **headers})
        with connection.getresponse() as answer:
            if answer.status == 404 and method == "GET":
                raise FileNotFoundError(path)
            if not 200 <= answer.status < 300:
                raise Unreachable(f"status {answer.status}")
            return _body(answer, connection, deadline, most)
    except (OSError, http.client.HTTPException, ValueError) as err:
        if isinstance(err, FileNotFoundError):
            raise
        raise Unreachable(_reason(err)) from None
    finally:
        with suppress(OSError):
            connection.close()


def _connection(server: Server, deadline: float) -> http.client.HTTPConnection:
    left = max(deadline - time.monotonic(), 0.01)
    if server.scheme == "https":
        return http.client.HTTPSConnection(server.host, server.port, timeout=left, context=ssl.create_default_context())
    return http.client.HTTPConnection(server.host, server.port, timeout=left)


def _body(
    answer: http.client.HTTPResponse, connection: http.client.HTTPConnection, deadline: float, most: int
) -> bytes:
    data = bytearray()
    while True:
        left = deadline - time.monotonic()
        if left <= 0:
            raise Unreachable("no complete answer in time")
        if connection.sock is not None:
            connection.sock.settimeout(left)
        chunk = answer.read1(CHUNK_BYTES)
        if not chunk:
            break
        data += chunk
        if len(data) > most and answer.status == 200 and most:
            raise Unreachable(f"more than the {most} bytes expected")
    if answer.length:
        raise Unreachable("the answer is cut off")
    return bytes(data)


def _authorization(parts: SplitResult, environment: Mapping[str, str]) -> str:
    """Return the header's value from the environment, else from netrc, else nothing."""
    token, user = environment.get("STOWPLAN_REMOTE_TOKEN", ""), environment.get("STOWPLAN_REMOTE_USER", "")
    if token:
        return f"Bearer {_one_line(token, 'STOWPLAN_REMOTE_TOKEN')}"
    password = environment.get("STOWPLAN_REMOTE_PASSWORD", "")
    if not user:
        found = _from_netrc(parts.hostname or "", environment)
        if found is None:
            return ""
        user, password = found
    pair = f"{_one_line(user, 'STOWPLAN_REMOTE_USER')}:{_one_line(password, 'STOWPLAN_REMOTE_PASSWORD')}"
    return "Basic " + base64.b64encode(pair.encode()).decode("ascii")


def _from_netrc(host: str, environment: Mapping[str, str]) -> tuple[str, str] | None:
    try:
        found = netrc.netrc(environment.get("NETRC") or None).authenticators(host)
    except (OSError, netrc.NetrcParseError, UnicodeDecodeError):
        return None
    return None if found is None else (found[0] or "", found[2] or "")


def _one_line(text: str, name: str) -> str:
    if not text.isprintable():
        raise UsageError(f"{name}: holds a line break or another control character")
    return text


def _reason(err: Exception) -> str:
    if isinstance(err, TimeoutError):
        return "no answer in time"
    text = getattr(err, "strerror", None) or str(err) or type(err).__name__
    return " ".join(str(text).split())[:200]
