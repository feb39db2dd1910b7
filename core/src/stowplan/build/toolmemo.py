"""Remembers the toolchain section of a key by the files it was made from: to find it out anew takes 0.1 s.

A memo holds as long as every file and folder that was looked at has the size, times and inode it had, and nothing
around the command is another. Where one of them changed a moment ago none is left: its next version could look the
same.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

from stowplan.cache.directory import cache_directory
from stowplan.cache.files import Identity, begin_anew, identity, is_settled, write_durably
from stowplan.cache.surroundings import surroundings
from stowplan.plugins.discovery import search_path

FOLDER = "toolchains"
MOST_MEMOS = 200


def recall(question: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Identity | None]] | None:
    """Return the section that answers a question, and the files it stands on; None when one is not what it was."""
    try:
        head, _, body = _file(question).read_bytes().partition(b"\n")
        if head != sha256(body).hexdigest().encode():
            return None
        memo = json.loads(body)
    except (OSError, ValueError):
        return None
    watched = _unmoved(memo["watched"])
    if watched is None or _unmoved(memo["folders"]) is None:
        return None
    return memo["section"], watched


def remember(question: Mapping[str, Any], section: Mapping[str, Any], watched: Mapping[str, Identity | None]) -> None:
    """Leave a memo, unless something it stands on is too new to be told from its next version. Never raises."""
    now = time.time_ns()
    named = filter(None, [*search_path(), *os.environ.get("PATH", "").split(os.pathsep)])
    folders = {path: identity(path) for path in named}  # where another tool could come to stand first
    if any(found is not None and not is_settled(found, now) for found in (*folders.values(), *watched.values())):
        return
    memo = {"section": section, "watched": _rows(watched), "folders": _rows(folders)}
    try:
        body = json.dumps(memo).encode()
        path = _file(question)
        begin_anew(path.parent, MOST_MEMOS)
        write_durably(path, sha256(body).hexdigest().encode() + b"\n" + body)
    except (OSError, ValueError):
        return


def _rows(found: Mapping[str, Identity | None]) -> list[list[str | int]]:
    return [[path, *(known or ())] for path, known in found.items()]


def _unmoved(rows: Sequence[Sequence[Any]]) -> dict[str, Identity | None] | None:
    """Return files and folders as they are, None when one is not what it was."""
    found: dict[str, Identity | None] = {}
    for path, *known in rows:
        found[path] = identity(path)
        if found[path] != (tuple(known) or None):
            return None
    return found


def _file(question: Mapping[str, Any]) -> Path:
    words = [*surroundings([os.getcwd(), *sys.path]), "", json.dumps(question, sort_keys=True)]
    return cache_directory() / FOLDER / sha256("\0".join(words).encode("utf-8", "surrogatepass")).hexdigest()
