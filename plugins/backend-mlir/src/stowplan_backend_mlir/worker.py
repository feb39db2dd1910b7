"""The process that has MLIR loaded, for `Context`: it answers one request after the other until nobody is there."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import IO, Any

from stowplan.errors import RuntimeFailure, StowplanError, UnsupportedError, UsageError
from stowplan_backend_mlir import importing, running, transforming, wire

Answer = tuple[dict[str, Any], Sequence[bytes]]
CALLS: dict[str, Callable[..., Answer]] = {
    "parse": importing.parse, "transform": transforming.transform, "load": running.load, "run": running.run,
    "unload": running.unload, "emit": running.emit,
}  # fmt: skip
_OF_MEMORY = 3 / 4
"""How much of the machine's memory MLIR may take: a small file may describe tensors of any size."""


def main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C in a terminal is for the parent, which ends this process
    requests, answers = _own_streams()
    _bound_memory()
    while True:
        try:
            facts, blocks = wire.receive(requests)
        except EOFError:
            os._exit(0)
        try:
            answer, results = CALLS[facts.pop("name")](blocks, **facts)
        except StowplanError as err:
            answer, results = {"error": _described(err)}, ()
        except MemoryError:
            answer, results = {"error": _described(RuntimeFailure("takes more memory than this machine has"))}, ()
        wire.send(answers, answer, results)


def _own_streams() -> tuple[IO[bytes], IO[bytes]]:
    """Take standard input and output for messages; what libraries print goes where errors go."""
    requests, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    with open(os.devnull, "rb") as nothing:
        os.dup2(nothing.fileno(), 0)
    os.dup2(2, 1)
    return requests, answers


def _bound_memory() -> None:
    with suppress(ImportError, OSError, ValueError, AttributeError):
        import resource

        most = int(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") * _OF_MEMORY)
        hard = resource.getrlimit(resource.RLIMIT_AS)[1]
        resource.setrlimit(resource.RLIMIT_AS, (most if hard == resource.RLIM_INFINITY else min(most, hard), hard))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _described(err: StowplanError) -> dict[str, Any]:
    reasons = list(err.reasons) if isinstance(err, UnsupportedError) else []
    code = "usage" if isinstance(err, UsageError) else err.code
    return {"code": code, "message": str(err), "reasons": reasons}


if __name__ == "__main__":
    sys.path[:] = [place for place in sys.path if place]
    main()
