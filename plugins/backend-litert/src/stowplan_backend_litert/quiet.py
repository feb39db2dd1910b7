"""Takes what LiteRT and its accelerators print on standard error: it is noise on success and the reason on failure.

Parts of LiteRT print past every log level, so the file descriptor itself is redirected. That is the process's own
descriptor: lines that another thread prints meanwhile are passed on when the block ends.
"""

from __future__ import annotations

import os
import re
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import IO

_lock = threading.RLock()
MOST_BYTES = 1 << 20
_OURS = re.compile(
    r"(?:(?:VERBOSE|INFO|WARNING|ERROR|FATAL|Warning|Error|<Unknown severity>): |[IWEF]\d{4} |=== |third_party/|"
    r"Exception from |    at |└ |\s*$)"
)
"""How lines begin that come from LiteRT, WebGPU, Vulkan or a vendor's plugin."""


class Captured:
    """What was printed; complete when the block has ended."""

    text = ""

    def find(self, pattern: str) -> re.Match[str] | None:
        return re.search(pattern, self.text)

    def errors(self) -> list[str]:
        """Return what the lines say that report a failure, without severities and places in the source."""
        found: list[str] = []
        for line, inside in _marked(self.text):
            match = re.match(r"(?:ERROR|Error): (?:\[[^]]*\] )?(.+)|E\d{4} \S+ +\d+ [^\]]*\] (.+)|└ (.+)", line)
            if match and not line.endswith("Plugin errs:") and "Plugin errs:" not in line:
                found.append(next(part for part in match.groups() if part).strip())
            elif inside and line.strip() and not line.startswith("Exception from "):
                found.append(line.strip())  # the last lines of an exception say what it is about
        told = [line for line in found if not line.startswith("Exception ")]
        return list(dict.fromkeys(told or found))


@contextmanager
def captured() -> Iterator[Captured]:
    """Collect what is printed on descriptor 2 while the block runs; one block at a time in a process."""
    result = Captured()
    with _lock:
        with suppress(AttributeError, OSError, ValueError):
            sys.stderr.flush()
        try:
            saved = os.dup(2)
        except OSError:  # a process without standard error prints nothing
            yield result
            return
        with _scratch() as file:
            os.dup2(file.fileno(), 2)
            try:
                yield result
            finally:
                with suppress(AttributeError, OSError, ValueError):
                    sys.stderr.flush()
                os.dup2(saved, 2)
                os.close(saved)
                file.seek(0)
                result.text = file.read(MOST_BYTES).decode("utf-8", "replace")
                _pass_on(result.text)


def _scratch() -> IO[bytes]:
    """Return a file without a name; in memory where there is that, since the module for the others is slow to load."""
    in_memory = getattr(os, "memfd_create", None)
    if in_memory is not None:
        return os.fdopen(in_memory("stowplan-stderr"), "w+b")
    import tempfile

    return tempfile.TemporaryFile()


def _marked(text: str) -> Iterator[tuple[str, bool]]:
    """Yield each line, and whether it belongs to an exception that a line before it began to tell."""
    inside = False
    for line in text.splitlines():
        ours = bool(_OURS.match(line))
        if ours and line.strip() and not line.startswith("Exception from "):
            inside = "Exception" in line
            yield line, False
        else:
            yield line, inside


def _pass_on(text: str) -> None:
    foreign = [f"{line}\n" for line, inside in _marked(text) if not inside and not _OURS.match(line)]
    if foreign:
        with suppress(OSError):
            os.write(2, "".join(foreign).encode())
