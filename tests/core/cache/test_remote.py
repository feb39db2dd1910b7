"""The team's cache: served by nginx and by a server of our own that can be slow, cut off or lying; never believed."""

from __future__ import annotations

import base64
import http.server
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from cache_entries import entry
from cache_servers import nginx_server
from stowplan.cache import actions
from stowplan.cache.entry import Damaged
from stowplan.cache.files import sha256
from stowplan.cache.http import Server
from stowplan.cache.layers import Layered
from stowplan.cache.remote import Remote
from stowplan.cache.store import Store
from stowplan.errors import UsageError


class Handler(http.server.BaseHTTPRequestHandler):
    """GET and PUT into a dictionary; `server.mode` is what is wrong with it."""

    protocol_version = "HTTP/1.1"
    timeout = 1  # an idle connection must not keep the server from closing

    def do_GET(self) -> None:
        self.server.seen.append(("GET", self.path, dict(self.headers)))  # type: ignore[attr-defined]
        data, mode = self.server.data.get(self.path), self.server.mode  # type: ignore[attr-defined]
        if mode == "slow":
            self.server.wake.wait(30)  # type: ignore[attr-defined]
        if mode == "error":
            return self._answer(500, b"no")
        if mode == "redirect":
            self.send_response(302)
            self.send_header("Location", "http://127.0.0.1:1/elsewhere")
            self.end_headers()
            return None
        if data is None:
            return self._answer(404, b"")
        if mode == "lying" and self.path.startswith("/cas/"):
            data = data[:-1] + bytes([data[-1] ^ 1])
        if mode == "other" and self.path.startswith("/ac/"):
            data = self.server.other  # type: ignore[attr-defined]
        if mode in ("cut", "drip"):
            return self._cut(data, mode == "drip")
        return self._answer(200, data)

    def do_PUT(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.seen.append(("PUT", self.path, dict(self.headers)))  # type: ignore[attr-defined]
        if self.server.mode == "refuse":  # type: ignore[attr-defined]
            return self._answer(403, b"")
        self.server.data[self.path] = body  # type: ignore[attr-defined]
        return self._answer(200, b"")

    def _answer(self, status: int, data: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def _cut(self, data: bytes, drip: bool) -> None:
        self.send_response(200)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        try:
            for index in range(len(data) // 2):
                self.wfile.write(data[index : index + 1])
                self.wfile.flush()
                time.sleep(0.05 if drip else 0)
        except OSError:
            pass
        self.close_connection = True

    def log_message(self, *_: object) -> None:
        pass


class Peer:
    """A running server and what it was asked."""

    def __init__(self, server: http.server.ThreadingHTTPServer) -> None:
        self.server = server
        self.url = f"http://127.0.0.1:{server.server_address[1]}"


@pytest.fixture
def peer() -> Iterator[Peer]:
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = False  # closing waits for them, so that no socket is left to the collector
    server.data, server.seen, server.mode, server.other = {}, [], "", b""  # type: ignore[attr-defined]
    server.wake = threading.Event()  # type: ignore[attr-defined]
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield Peer(server)
    server.wake.set()  # type: ignore[attr-defined]
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture
def nginx(tmp_path: Path) -> Iterator[str]:
    with nginx_server(tmp_path / "nginx") as url:
        yield url


def remote(url: str, folder: Path, said: list[str] | None = None, **environment: str) -> Remote:
    lines = [] if said is None else said
    return Remote.from_environment({"STOWPLAN_REMOTE_CACHE": url, **environment}, folder, report=lines.append)


def test_what_one_machine_stored_another_one_gets_through_nginx(nginx: str, tmp_path: Path) -> None:
    said: list[str] = []
    patient = {"STOWPLAN_REMOTE_TIMEOUT": "30"}  # this test is about bytes, on a machine that may be busy
    first = remote(nginx, tmp_path / "a", said, **patient)
    assert first.get(entry(1).key) is None
    for number in range(5):
        assert first.put(entry(number, 50_000))
    first.finish()
    second = Layered([Store(tmp_path / "b"), remote(nginx, tmp_path / "b", said, **patient)])
    for number in range(5):
        found = second.get(entry(number, 50_000).key)
        assert found is not None
        assert (found.layer, found.files, found.meta) == ("remote", entry(number, 50_000).files, entry(number).meta)
        nearer = second.get(entry(number, 50_000).key)
        assert nearer is not None and nearer.layer == "disk", "what came from afar is kept near"
    assert said == []


def test_an_actions_files_are_stored_before_the_action_names_them(peer: Peer, tmp_path: Path) -> None:
    cache = remote(peer.url, tmp_path)
    cache.put(entry(1))
    cache.finish()
    paths = [path for method, path, _ in peer.server.seen if method == "PUT"]  # type: ignore[attr-defined]
    assert [path.split("/")[1] for path in paths] == ["cas", "cas", "cas", "ac"]
    for path, data in peer.server.data.items():  # type: ignore[attr-defined]
        assert path.startswith("/ac/") or path == f"/cas/{sha256(data)}"
    named = actions.decode(peer.server.data[f"/ac/{entry(1).key}"])  # type: ignore[attr-defined]
    assert {f"/cas/{digest}" for digest, _ in named.values()} == set(paths[:3])


def test_action_results_are_the_protobuf_messages_of_the_protocol() -> None:
    """Bytes written down by hand from the message's definition: output_files { path, digest { hash, size_bytes } }."""
    digest = "ab" * 32
    inner = b"\x0a\x40" + digest.encode() + b"\x10\xac\x02"
    file = b"\x0a\x01x" + b"\x12" + bytes([len(inner)]) + inner
    assert actions.encode({"x": (digest, 300)}) == b"\x12" + bytes([len(file)]) + file
    more = b"\x2a\x02\x08\x01" + b"\x20\x07" + actions.encode({"x": (digest, 300)})
    assert actions.decode(more) == {"x": (digest, 300)}, "fields we do not know are passed over"


@pytest.mark.parametrize("data", [b"", b"\x12", b"\x12\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", b"\x12\x05ab",
                                  b"<html>", b"\x12\x02\x0a\x00", b"\xff" * 40, b"\x0b"])  # fmt: skip
def test_an_answer_that_is_no_action_result_is_damage(data: bytes) -> None:
    with pytest.raises(Damaged):
        actions.decode(data)


@pytest.mark.parametrize("mode", ["lying", "other", "cut", "drip", "slow", "error", "redirect"])
def test_a_server_that_lies_or_stalls_is_a_miss_within_two_seconds_and_then_left_alone(
    peer, tmp_path, mode: str
) -> None:
    said: list[str] = []
    cache = remote(peer.url, tmp_path / "a")
    cache.put(entry(1))
    cache.put(entry(2))
    cache.finish()
    peer.server.other = peer.server.data[f"/ac/{entry(2).key}"]
    peer.server.mode = mode
    reader = remote(peer.url, tmp_path / "b", said)
    start = time.monotonic()
    for _ in range(20):
        assert reader.get(entry(1).key) is None
        assert time.monotonic() - start < 2.5
    assert said
    assert all(peer.url in line for line in said)
    if mode in ("cut", "drip", "slow", "error", "redirect"):
        assert len(said) == 1 and "is left alone for 60 s" in said[0]
        start = time.monotonic()
        assert remote(peer.url, tmp_path / "b").get(entry(1).key) is None
        assert time.monotonic() - start < 0.2, "the next process does not wait again"
    else:
        assert "gave a wrong answer" in said[0]


def test_a_server_that_is_not_there_costs_next_to_nothing(tmp_path: Path) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    said: list[str] = []
    cache = remote(f"http://127.0.0.1:{port}/x", tmp_path, said)
    start = time.monotonic()
    assert cache.get(entry(1).key) is None
    assert not cache.put(entry(1))
    cache.finish()
    assert time.monotonic() - start < 2
    assert said == [f"the remote cache http://127.0.0.1:{port}/x is left alone for 60 s: Connection refused"]


def test_a_prompt_server_may_be_asked_any_number_of_times(peer: Peer, tmp_path: Path) -> None:
    said: list[str] = []
    cache = remote(peer.url, tmp_path, said, STOWPLAN_REMOTE_TIMEOUT="0.5")
    start = time.monotonic()
    while time.monotonic() - start < 1.5:
        assert cache.get(entry(1).key) is None
    assert said == []


def test_uploads_do_not_hold_up_the_end(peer: Peer, tmp_path: Path) -> None:
    said: list[str] = []
    with socket.socket() as deaf:  # accepts and never answers
        deaf.bind(("127.0.0.1", 0))
        deaf.listen(8)
        cache = remote(f"http://127.0.0.1:{deaf.getsockname()[1]}", tmp_path, said)
        start = time.monotonic()
        cache.put(entry(1))
        assert time.monotonic() - start < 0.3
        cache.finish()
        assert time.monotonic() - start < 2.2
    assert len(said) == 1


def test_a_read_only_remote_is_never_written_to(peer: Peer, tmp_path: Path) -> None:
    cache = remote(peer.url, tmp_path, STOWPLAN_REMOTE_MODE="read-only")
    assert not cache.put(entry(1))
    cache.finish()
    assert peer.server.seen == []  # type: ignore[attr-defined]


@pytest.mark.parametrize("way", ["token", "user", "netrc"])
def test_credentials_come_from_the_environment_or_netrc_and_are_shown_nowhere(peer, tmp_path, way: str) -> None:
    said: list[str] = []
    (tmp_path / "netrc").write_text("machine 127.0.0.1 login ann password s3cret\n")
    (tmp_path / "netrc").chmod(0o600)
    environment = {
        "token": {"STOWPLAN_REMOTE_TOKEN": "s3cret"},
        "user": {"STOWPLAN_REMOTE_USER": "ann", "STOWPLAN_REMOTE_PASSWORD": "s3cret"},
        "netrc": {"NETRC": str(tmp_path / "netrc")},
    }[way]
    cache = remote(peer.url, tmp_path, said, **environment)
    cache.put(entry(1))
    cache.finish()
    cache.get(entry(1).key)
    wanted = "Bearer s3cret" if way == "token" else "Basic " + base64.b64encode(b"ann:s3cret").decode()
    assert {headers["Authorization"] for _, _, headers in peer.server.seen} == {wanted}
    peer.server.mode = "error"
    cache.get(entry(2).key)
    assert said and "s3cret" not in repr(said) + repr(cache.server) + cache.server.title
    assert wanted.split()[1] not in repr(said) + repr(vars(cache))


@pytest.mark.parametrize(
    ("environment", "message"),
    [
        ({"STOWPLAN_REMOTE_CACHE": "http://ann:s3cret@host/x"}, "holds a user name"),
        ({"STOWPLAN_REMOTE_CACHE": "ftp://host/x"}, "is no address; write http://HOST:PORT/PATH"),
        ({"STOWPLAN_REMOTE_CACHE": "http://host:port/x"}, "is no address"),
        ({"STOWPLAN_REMOTE_CACHE": "host/x"}, "is no address"),
        ({"STOWPLAN_REMOTE_CACHE": "http://h", "STOWPLAN_REMOTE_MODE": "write"}, "choose read-write or read-only"),
        ({"STOWPLAN_REMOTE_CACHE": "http://h", "STOWPLAN_REMOTE_TIMEOUT": "soon"}, "write seconds"),
        ({"STOWPLAN_REMOTE_CACHE": "http://h", "STOWPLAN_REMOTE_TOKEN": "a\r\nX: y"}, "holds a line break"),
    ],
)
def test_wrong_settings_are_one_line_without_the_secret(tmp_path: Path, environment, message: str) -> None:
    with pytest.raises(UsageError, match=message) as caught:
        Remote.from_environment(environment, tmp_path)
    assert "s3cret" not in str(caught.value) and "\n" not in str(caught.value)


def test_a_name_is_part_of_no_request_path(peer: Peer, tmp_path: Path) -> None:
    assert Server.parse(f"{peer.url}/a/b/", {}).path == "/a/b"
    cache = remote(f"{peer.url}/team", tmp_path)
    cache.put(entry(1))
    cache.finish()
    assert all(path.startswith("/team/") for path in peer.server.data)  # type: ignore[attr-defined]
