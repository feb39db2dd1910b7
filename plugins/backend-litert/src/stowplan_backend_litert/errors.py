"""What can go wrong with LiteRT, as types: what was asked, LiteRT's status, and its own text where it gives one."""

from __future__ import annotations

from collections.abc import Mapping

from stowplan.errors import ModelError, RuntimeFailure, UsageError

STATUS = {
    1: "invalid argument", 2: "out of memory", 3: "runtime failure", 4: "missing input tensor", 5: "unsupported",
    6: "not found", 7: "time-out", 8: "wrong version", 9: "unknown error", 10: "already exists", 100: "cancelled",
    500: "file error", 501: "invalid flatbuffer", 502: "a library cannot be loaded", 503: "serialization error",
    504: "compilation error", 1000: "index out of bounds", 1001: "invalid type", 1002: "invalid graph",
    1003: "graph modification error", 1500: "invalid tool configuration", 2000: "no legalization",
    2001: "invalid legalization", 4000: "unsupported runtime version", 4001: "unsupported compiler version",
    4002: "incompatible byte code", 5000: "no shape inference for an operator", 5001: "shape inference failed",
}  # fmt: skip
"""LiteRtGetStatusString is not among the symbols of the shipped library, so the table is here."""


class LiteRtError(RuntimeFailure):
    """Base of everything this package raises about a model or its runs; `status` is LiteRT's number, 0 for our own."""

    code = "litert"

    def __init__(self, message: str, *, status: int = 0, text: str = "") -> None:
        super().__init__(message)
        self.status = status
        self.text = text

    def details(self) -> Mapping[str, object]:
        return {"status": self.status, "status_name": STATUS.get(self.status, ""), "litert": self.text}


class LibraryUnavailableError(LiteRtError):
    """LiteRT's shared library is missing, cannot be loaded, or is not a version whose layouts are known."""

    code = "litert-missing"


class ModelRefusedError(LiteRtError, ModelError):
    """The model file is missing, too large, damaged, or fails LiteRT's verifier."""

    code = "bad-model"


class CompileFailedError(LiteRtError):
    """No accelerator that was asked for compiles the model."""

    code = "litert-compile"


class RunFailedError(LiteRtError):
    """A run failed inside LiteRT."""

    code = "litert-run"


class CancelledError(LiteRtError):
    """A run was cancelled between two operators."""

    code = "cancelled"


class TimedOutError(LiteRtError):
    """A run, or the wait for its turn, took longer than allowed."""

    code = "timed-out"


class InputError(LiteRtError):
    """An input or output has the wrong number, size, type or shape, or a name that is none."""

    code = "bad-input"


class InUseError(LiteRtError):
    """Another thread is in the model at this moment. A normal answer: share a model through `Server`."""

    code = "in-use"


class NotOwnerError(LiteRtError):
    """The model belongs to another thread or process."""

    code = "not-owner"


class ClosedError(LiteRtError):
    """The model, environment or server was closed."""

    code = "closed"


class QueueFullError(LiteRtError):
    """As many requests wait as the server allows."""

    code = "queue-full"


class WorkerDiedError(LiteRtError):
    """The process that held the model ended in the middle of this request."""

    code = "worker-died"


class OptionError(LiteRtError, UsageError):
    """An option has a value that means nothing: an unknown accelerator, precision or signature."""

    exit_code = UsageError.exit_code
    code = "usage"


BY_CODE: dict[str, type[LiteRtError]] = {
    kind.code: kind
    for kind in (
        LiteRtError, LibraryUnavailableError, ModelRefusedError, CompileFailedError, RunFailedError, CancelledError,
        TimedOutError, InputError, InUseError, NotOwnerError, ClosedError, QueueFullError, WorkerDiedError, OptionError,
    )
}  # fmt: skip
"""For errors that arrive from another process by their code."""
