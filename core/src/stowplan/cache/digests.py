"""SHA-256 of files, remembered by size, times and inode: a file that did not move is not read again."""

from __future__ import annotations

import hashlib
import json
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from stowplan.cache.files import identity, is_settled, write_durably

ABSENT = "absent"
MOST_KNOWN = 200_000


class Digests:
    """Believes what it knows only while nothing about a file moved, and never of a file that was too new to tell."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._changed = False
        self._known: dict[str, list[Any]] = {}
        with suppress(OSError, ValueError, RecursionError):
            known = json.loads(path.read_bytes())
            if isinstance(known, dict):
                self._known = known

    def of(self, file: Path) -> str:
        """Return a file's SHA-256, "absent" when it cannot be read."""
        now, found, name = time.time_ns(), identity(file), str(file)
        if found is None:
            return ABSENT
        known = self._known.get(name)
        if isinstance(known, list) and len(known) == 5 and known[:4] == list(found) and isinstance(known[4], str):
            return known[4]
        digest = file_digest(file)
        # Looked at again: what changed while it was read has a digest that belongs to neither version.
        if is_settled(found, now) and identity(file) == found:
            self._known[name] = [*found, digest]
            self._changed = True
        return digest

    def save(self) -> None:
        """Remember for the next process; a cache that cannot be written to remembers nothing."""
        if self._changed and len(self._known) <= MOST_KNOWN:
            with suppress(OSError):
                write_durably(self._path, json.dumps(self._known).encode())
        self._changed = False


def file_digest(path: Path) -> str:
    """Return a file's SHA-256 whatever is remembered, "absent" when it cannot be read."""
    digest = hashlib.sha256()
    try:
        with path.open("rb") as file:
            while chunk := file.read(1024 * 1024):
                digest.update(chunk)
    except OSError:
        return ABSENT
    return digest.hexdigest()
