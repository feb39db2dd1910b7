"""The team's cache: HTTP with `/ac` for what an action gave and `/cas` for files by SHA-256.

Plain servers with PUT serve it (nginx), and so does bazel-remote, which checks both. Nothing that comes back is
believed before its digest was computed here. A server that is down, slow or lying costs at most `seconds` once; then it
is left alone, by this process and for a minute by the next ones.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext, suppress
from pathlib import Path

from stowplan.cache import actions
from stowplan.cache.entry import Damaged, Entry, Record, decode, encode, record_of
from stowplan.cache.files import make_private, sha256
from stowplan.cache.http import Server, Unreachable, exchange
from stowplan.errors import UsageError

SECONDS = 1.5
"""All that waiting for a server may cost one process that gets nothing for it."""
PROMPT_SECONDS = 0.1
REST_SECONDS = 60
MOST_BYTES = 512 * 1024**2
RECORD = "stowplan-record.json"
BROKEN = "remote-down"


class Remote:
    """A layer like the others; every failure is a miss, told to `report` once."""

    name = "remote"

    def __init__(
        self,
        server: Server,
        folder: Path,
        *,
        read_only: bool = False,
        seconds: float = SECONDS,
        report: Callable[[str], None] = lambda line: None,
    ) -> None:
        self.server = server
        self.read_only = read_only
        self.report = report
        self._left = seconds
        self._seconds = seconds
        self._broken = folder / BROKEN
        self._off = self._is_resting()
        self._uploads: list[threading.Thread] = []
        self._lock = threading.Lock()

    @classmethod
    def from_environment(
        cls, environment: Mapping[str, str], folder: Path, *, report: Callable[[str], None] = lambda line: None
    ) -> Remote:
        """Return the cache that STOWPLAN_REMOTE_CACHE names. Raises `UsageError`."""
        server = Server.parse(environment["STOWPLAN_REMOTE_CACHE"], environment)
        mode = environment.get("STOWPLAN_REMOTE_MODE", "read-write")
        if mode not in ("read-write", "read-only"):
            raise UsageError(f"STOWPLAN_REMOTE_MODE={mode[:40]}: choose read-write or read-only")
        text = environment.get("STOWPLAN_REMOTE_TIMEOUT", "")
        try:
            seconds = float(text) if text else SECONDS
        except ValueError:
            seconds = 0.0
        if not 0 < seconds <= 600:
            raise UsageError(f"STOWPLAN_REMOTE_TIMEOUT={text[:40]}: write seconds, more than 0 and at most 600")
        return cls(server, folder, read_only=mode == "read-only", seconds=seconds, report=report)

    def get(self, key: str) -> Entry | None:
        """Return the entry of a key, every file checked against its digest, or None."""
        return self._tried(lambda: self._get(key), None)

    def put(self, entry: Entry) -> bool:
        """Begin to upload an entry beside whatever comes next; `finish` waits for it."""
        if self.read_only or self._off:
            return False
        thread = threading.Thread(target=self._tried, args=(lambda: self._put(entry), None), daemon=True)
        self._uploads.append(thread)
        thread.start()
        return True

    def finish(self) -> None:
        """Wait for uploads, no longer than a server may cost."""
        deadline = time.monotonic() + self._seconds
        for thread in self._uploads:
            thread.join(max(deadline - time.monotonic(), 0))
        if any(thread.is_alive() for thread in self._uploads):
            self._give_up("uploads take too long")
        self._uploads = []

    def remove(self, key: str) -> bool:
        """The protocol has no word for it; a wrong entry is overwritten by the next build."""
        return False

    def records(self) -> Iterator[tuple[str, Record]]:
        return iter(())

    def alone(self, key: str) -> AbstractContextManager[None]:
        return nullcontext()

    def note(self, what: str, key: str) -> None:
        """A server keeps its own statistics."""

    def _get(self, key: str) -> Entry | None:
        deadline = time.monotonic() + max(self._left, 0.05)
        try:
            files = actions.decode(exchange(self.server, "GET", f"/ac/{key}", deadline, most=actions.MOST_BYTES))
            if RECORD not in files:
                raise Damaged("its answer has no record")
            record = decode(self._file(*files[RECORD], deadline), key)
            data = {name: self._file(digest, size, deadline) for name, (digest, size) in record.files.items()}
        except FileNotFoundError:
            return None
        return Entry(document=record.document, files=data, meta=record.meta, layer=self.name)

    def _file(self, digest: str, size: int, deadline: float) -> bytes:
        if size > MOST_BYTES:
            raise Damaged(f"it names a file of {size} bytes")
        if digest == sha256(b""):
            return b""
        data = exchange(self.server, "GET", f"/cas/{digest}", deadline, most=max(size, 1))
        if len(data) != size or sha256(data) != digest:
            raise Damaged(f"file {digest[:12]}... came with other bytes")
        return data

    def _put(self, entry: Entry) -> None:
        record = record_of(entry)
        text = encode(record)
        files = {**{f"files/{name}": found for name, found in record.files.items()}, RECORD: (sha256(text), len(text))}
        bodies = {sha256(data): data for data in (*entry.files.values(), text)}
        # The action comes last: nobody may see it before its files.
        requests = [(f"/cas/{digest}", data) for digest, data in bodies.items()]
        for path, body in [*requests, (f"/ac/{record.key}", actions.encode(files))]:
            exchange(self.server, "PUT", path, time.monotonic() + self._seconds, body=body)

    def _tried(self, work: Callable[[], Entry | None], otherwise: Entry | None) -> Entry | None:
        """Do something with the server; what it costs without a result is taken from what it may cost."""
        if self._off:
            return otherwise
        start = time.monotonic()
        try:
            found = work()
        except Damaged as err:
            self._spend(start)
            self.report(f"the remote cache {self.server.title} gave a wrong answer ({err}); built here")
            return otherwise
        except Unreachable as err:
            self._spend(start)
            self._give_up(str(err))
            return otherwise
        if found is None:
            self._spend(start)
        return found

    def _spend(self, start: float) -> None:
        """Take what an answer without a result cost, unless it came at once: a healthy server may be asked for ever."""
        seconds = time.monotonic() - start
        if seconds < PROMPT_SECONDS:
            return
        with self._lock:
            self._left -= seconds
        if self._left <= 0:
            self._give_up("it is too slow")

    def _give_up(self, why: str) -> None:
        with self._lock:
            if self._off:
                return
            self._off = True
        self.report(f"the remote cache {self.server.title} is left alone for {REST_SECONDS} s: {why}")
        with suppress(OSError):
            make_private(self._broken.parent)
            self._broken.write_text(self.server.title)

    def _is_resting(self) -> bool:
        """Say whether some process gave this server up a moment ago."""
        try:
            age = time.time() - os.stat(self._broken).st_mtime
            return 0 <= age < REST_SECONDS and self._broken.read_text() == self.server.title
        except (OSError, UnicodeDecodeError):
            return False
