"""One model compiled by LiteRT for one set of accelerators: the handles, the buffers, and a run."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from functools import partial

from stowplan.nouns import dataclass
from stowplan_backend_litert import layouts
from stowplan_backend_litert.calls import ask, c_library, call, destroy, failure, take_text
from stowplan_backend_litert.environments import set_log_level, silence
from stowplan_backend_litert.errors import CancelledError, CompileFailedError, LiteRtError, RunFailedError
from stowplan_backend_litert.library import library
from stowplan_backend_litert.modelfile import ModelFile, Signature
from stowplan_backend_litert.options import CompileOptions, native_options
from stowplan_backend_litert.ownership import Claim
from stowplan_backend_litert.ports import Slot, handles, make_slots
from stowplan_backend_litert.quick import quick_capsule
from stowplan_backend_litert.quiet import Captured, captured


@dataclass(frozen=True)
class Job:
    """What is to be compiled, whatever the accelerators."""

    env: int
    file: ModelFile
    signature: Signature
    options: CompileOptions


class Engine:
    """A compiled model for the accelerators in `kinds`. Raises `CompileFailedError` with LiteRT's reason."""

    def __init__(self, job: Job, kinds: Sequence[str], profile: bool) -> None:
        self.kinds = tuple(kinds)
        self.signature = job.signature
        self.inputs: list[Slot] = []
        self.outputs: list[Slot] = []
        self.handle: int | None = None
        self._options: int | None = native_options(job.options, kinds, profile, job.signature.key)
        self._stop: ctypes.Array[ctypes.c_char] = ctypes.create_string_buffer(2)
        self._ran = False
        try:
            self.handle, self.log = _compile(job, self._options, self.kinds)
            self._prepare(job)
            self._listen_for_cancellation()
        except CompileFailedError:
            self.close()
            raise
        except LiteRtError as err:
            problem = self._unprepared(job, err)
            self.close()
            raise problem from err
        except BaseException:
            self.close()
            raise

    def run(self) -> None:
        """Run once on what the inputs hold. Raises `RunFailedError` or `CancelledError`."""
        self._stop[0] = b"\0"
        status = self._invoke() if self._ran else self._first_run()
        if status != 0:
            raise self.failed(status)

    def quick(self, claim: Claim) -> object | None:
        """Return what the compiled method has to know to run this; None where there is none."""
        return quick_capsule(self, self._takes, self._gives, self._stop, claim)

    def failed(self, status: int) -> LiteRtError:
        """Return the error for a run that ended with this status: `RunFailedError` or `CancelledError`."""
        if self._stop[0] != b"\0":
            return CancelledError("the run was cancelled", status=status)
        text = self.messages()
        self.clear_messages()
        return failure("RunCompiledModel", status, RunFailedError, "the run failed", text)

    def cancel(self) -> None:
        """Make the run under way stop before its next operator."""
        self._stop[0] = b"\1"

    def watch(self, stop: ctypes.Array[ctypes.c_char]) -> None:
        """Take another two bytes as the sign to stop, in memory that another process sees, say."""
        self._stop = stop
        self._listen_for_cancellation()

    def messages(self) -> str:
        """Return what LiteRT noted about compiling and running, in one line."""
        return " ".join(take_text("CompiledModelGetErrorMessages", self.handle).split())

    def notes(self) -> str:
        """Return the same, line by line."""
        return take_text("CompiledModelGetErrorMessages", self.handle)

    def clear_messages(self) -> None:
        call("CompiledModelClearErrors", self.handle)

    @property
    def fully_accelerated(self) -> bool:
        """What LiteRT calls so: the CPU's own delegate counts."""
        return bool(ask("CompiledModelIsFullyAccelerated", self.handle, kind=ctypes.c_bool))

    @property
    def non_cpu_fully_accelerated(self) -> bool:
        return bool(ask("CompiledModelIsNonCpuFullyAccelerated", self.handle, kind=ctypes.c_bool))

    def resize(self, job: Job, index: int, shape: Sequence[int]) -> None:
        """Give an input another shape, as far as the model leaves it open."""
        dims = (ctypes.c_int32 * max(len(shape), 1))(*shape)
        place = (self.handle, job.signature.index, index, dims, len(shape))
        call("CompiledModelResizeInputTensor", *place, what=f"input {index} cannot be resized to {tuple(shape)}")
        self._release_slots()
        self._prepare(job)

    def close(self) -> None:
        self._release_slots()
        destroy("CompiledModel", self.handle)
        destroy("Options", self._options)
        self.handle = self._options = None

    def _unprepared(self, job: Job, err: LiteRtError) -> CompileFailedError:
        """Return the error for a model that compiles and whose tensors cannot be made: an unknown operator, say."""
        text = (self.messages() if self.handle else "") or str(err)
        return CompileFailedError(f"{job.file.name}: it cannot be prepared: {text}", status=err.status, text=text)

    def _first_run(self) -> int:
        self._ran = True
        if self.kinds == ("cpu",):
            return self._invoke()
        with captured():  # accelerators load more libraries only now, and say so
            return self._invoke()

    def _prepare(self, job: Job) -> None:
        assert self.handle is not None
        # Other accelerators want buffers of their own kind; the CPU reads and writes plain memory of ours.
        host_memory = self.kinds == ("cpu",)
        with captured():
            self.inputs, self.outputs = make_slots(job.env, self.handle, self.signature, host_memory)
        self._takes, self._gives = handles(self.inputs), handles(self.outputs)
        self._invoke = _bound_run(self, self._takes, self._gives)

    def _listen_for_cancellation(self) -> None:
        # LiteRT asks before each operator: a function that gets a pointer and returns true to stop. The C library's
        # strlen is such a function: 0 for "", 1 for "\1". Python is not entered and the GIL not taken.
        function = ctypes.cast(c_library().strlen, ctypes.c_void_p)
        call("SetCompiledModelCancellationFunction", self.handle, ctypes.addressof(self._stop), function)

    def _release_slots(self) -> None:
        for slot in (*self.inputs, *self.outputs):
            slot.close()
        self.inputs, self.outputs = [], []


def _bound_run(
    engine: Engine, takes: ctypes.Array[ctypes.c_void_p], gives: ctypes.Array[ctypes.c_void_p]
) -> Callable[[], int]:
    # A function object of its own without declared arguments: converting them anew costs a microsecond a run.
    function = library()["LiteRtRunCompiledModel"]
    function.restype = ctypes.c_int
    counts = ctypes.c_size_t(len(engine.inputs)), ctypes.c_size_t(len(engine.outputs))
    model, signature = ctypes.c_void_p(engine.handle), ctypes.c_size_t(engine.signature.index)
    return partial(function, model, signature, counts[0], takes, counts[1], gives)


def _compile(job: Job, options: int, kinds: tuple[str, ...]) -> tuple[int, Captured]:
    loud = kinds != ("cpu",)  # why an accelerator took what it took is told in the log only
    with captured() as output:
        if loud:
            set_log_level(layouts.LOG_INFO)
        try:
            handle: int = ask("CreateCompiledModel", job.env, job.file.handle, options)
            return handle, output
        except LiteRtError as err:
            problem = err
        finally:
            if loud:
                silence()
    where = f"{job.file.name}: {'+'.join(kinds)} cannot compile it"
    text = "; ".join(output.errors()[:3])
    raise failure("CreateCompiledModel", problem.status, CompileFailedError, where, text) from problem
