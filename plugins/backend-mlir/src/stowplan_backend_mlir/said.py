"""What MLIR and the converter say, as one line without places in files that nobody has."""

from __future__ import annotations

import os
import re

_PLACE = re.compile(r'^(?:error|note|warning): (?:unknown|loc\(.*?\)|"[^"]*":\d+:\d+|[^\s:]*:\d+:\d+): ')
_LOCATION = re.compile(r"^.*?: error: |^Diagnostic message at loc\(.*?\): ")
MOST = 300


def line(text: object) -> str:
    """Return the first error in a text, or else its first line."""
    lines = [part.strip() for part in str(text).splitlines() if part.strip()]
    errors = [
        part for part in lines if part.startswith(("error:", "loc(", "Diagnostic message")) or ": error: " in part
    ]
    found = errors[0] if errors else lines[0] if lines else "it says nothing"
    found = _LOCATION.sub("", _PLACE.sub("", found)).removeprefix("error: ")
    found = "".join(c if c.isprintable() else " " for c in found)
    return found if len(found) <= MOST else found[: MOST - 3] + "..."


def so_far() -> int:
    """Return how much was said: standard error is a file in the worker."""
    return os.fstat(2).st_size


def since(before: int, word: str) -> str:
    """Return the lines with a word that were said since then."""
    text = os.pread(2, 1 << 16, before).decode("utf-8", "replace")
    return "\n".join(part for part in text.splitlines() if word in part)
