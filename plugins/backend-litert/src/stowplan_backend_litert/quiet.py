"""Takes what LiteRT and its accelerators print: it is noise on success and the reason on failure.

Parts of LiteRT print past every log level, so the file descriptors themselves are redirected. They are the process's
own: lines that another thread prints meanwhile are passed on when the block ends.
"""

from __future__ import annotations

import os
import re
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import IO

from stowplan_backend_litert.calls import c_library

_lock = threading.RLock()
MOST_BYTES = 1 << 20
_OURS = re.compile(
    r"(?:(?:VERBOSE|INFO|WARNING|ERROR|FATAL|Warning|Error|<Unknown severity>): |[IWEF]\d{4} |=== |third_party/|"
    r"Exception from |    at |└ |\s*$)"
)
"""How lines begin that come from LiteRT, WebGPU, Vulkan or a vendor's plugin."""
_OURS_ON_STDOUT = re.compile(r"INFO: (?:Failed to load|Loaded|Successfully loaded) OpenCL")


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
    """Collect what is printed while the block runs, one block at a time; some lines go to standard output."""
    result = Captured()
    with _lock, ExitStack() as redirected:
        texts = [redirected.enter_context(_redirected(descriptor)) for descriptor in (1, 2)]
        try:
            yield result
        finally:
            redirected.close()
            for descriptor, text in zip((1, 2), texts, strict=True):
                _pass_on("".join(text), descriptor)
            result.text = "".join(text[0] for text in texts if text)


@contextmanager
def _redirected(descriptor: int) -> Iterator[list[str]]:
    """Send a descriptor to a file for the block; the list has its text afterwards."""
    text: list[str] = []
    _flush()
    try:
        saved = os.dup(descriptor)
    except OSError:  # a process without it prints nothing there
        yield text
        return
    with _scratch() as file:
        os.dup2(file.fileno(), descriptor)
        try:
            yield text
        finally:
            _flush()
            os.dup2(saved, descriptor)
            os.close(saved)
            file.seek(0)
            text.append(file.read(MOST_BYTES).decode("utf-8", "replace"))


def _flush() -> None:
    """Empty Python's buffers and the C library's: what waits there belongs to the time before."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(AttributeError, OSError, ValueError):
            stream.flush()
    c_library().fflush(None)


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


def _pass_on(text: str, descriptor: int) -> None:
    if descriptor == 1:  # other people's place for results: only what is known to come from LiteRT stays away
        foreign = [f"{line}\n" for line in text.splitlines() if not _OURS_ON_STDOUT.match(line)]
    else:
        foreign = [f"{line}\n" for line, inside in _marked(text) if not inside and not _OURS.match(line)]
    if foreign:
        with suppress(OSError):
            os.write(descriptor, "".join(foreign).encode())
