"""A model compiled through LiteRT: run it, ask what the accelerator took, read the profile, hand it over.

with Environment() as env, CompiledModel(env, "vww.tflite", accelerators=("gpu", "cpu")) as model:
    (scores,) = model.run([image])
"""

from __future__ import annotations

import ctypes
import threading
import time
from collections.abc import Mapping, Sequence
from functools import cache
from types import TracebackType
from typing import TYPE_CHECKING, Any, NoReturn

from stowplan.plugins.records import Acceleration, Metrics, Port
from stowplan_backend_litert import layouts
from stowplan_backend_litert.acceleration import Choice, choose
from stowplan_backend_litert.arrays import arranged, to_array, writable
from stowplan_backend_litert.calls import ask, call, destroy
from stowplan_backend_litert.environments import Environment
from stowplan_backend_litert.errors import CancelledError, ClosedError, InputError, OptionError, TimedOutError
from stowplan_backend_litert.library import library
from stowplan_backend_litert.modelfile import Source, read
from stowplan_backend_litert.options import CompileOptions
from stowplan_backend_litert.ownership import Claim, Owner
from stowplan_backend_litert.quick import WORTH_IT, quick_method
from stowplan_backend_litert.quiet import captured

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from stowplan_backend_litert.recorder import Event, NodeEntry, Recorder, SummaryEntry

Inputs = Sequence[Any] | Mapping[str, Any]
MetricValue = int | float | bool | str
_KEEP = object()


class CompiledModel:
    """A model ready to run on the first of `accelerators` that takes any of it, in the caller's order.

    Options: `accelerators` ("npu", "gpu", "cpu"; default the CPU alone), `precision` ("default", "fp16", "fp32",
    "fp16_with_fp32_accum"), `profile` (costs 68 MB at once), `signature` (key or index), `max_model_bytes`, `threads`,
    `npu_device`, `only_this_signature`. One caller at a time: a second is refused with `InUseError`, never answered
    wrongly; `Server` is the way to share. Raises `ModelRefusedError` and `CompileFailedError`.
    """

    def __init__(self, env: Environment, source: Source, **options: Any) -> None:
        self._closed = True
        self.options = _options(options)
        self._env = env
        self._claim = Claim()
        self._timed_out = False
        name, data = read(source, self.options.max_model_bytes)
        self._choice: Choice = choose(env, name, data, self.options)
        self._closed = False
        self._engine = self._choice.engine
        try:
            self._recorder: Recorder | None = self._new_recorder()
        except BaseException:
            self.close()
            raise
        self._refresh()

    # What it is

    @property
    def acceleration(self) -> Acceleration:
        """What was asked for, what was there, and what each accelerator took."""
        return self._choice.acceleration

    @property
    def fully_accelerated(self) -> bool:
        """Whether an accelerator other than the CPU took every operator."""
        return self.acceleration.fully

    @property
    def cpu_delegated(self) -> bool:
        """What LiteRT itself calls fully accelerated: its CPU delegate counts as an accelerator there."""
        self._check_open()
        return self._engine.fully_accelerated

    @property
    def signature(self) -> str:
        return self._engine.signature.key

    def signatures(self) -> list[str]:
        """Return the keys of the model's signatures, this one's among them."""
        return list(self._choice.signatures)

    def io_sizes(self) -> tuple[list[int], list[int]]:
        """Return the bytes of each input and of each output."""
        return [port.size_bytes for port in self.inputs], [port.size_bytes for port in self.outputs]

    # Running it

    def run(self, inputs: Inputs, outputs: Sequence[Any] | None = None, *, timeout: float | None = None) -> list[bytes]:
        """Run once and return the outputs' bytes, or fill the buffers in `outputs` and return nothing.

        Inputs are bytes, buffers, numpy arrays or DLPack tensors, in order or by name; size, type and shape are exact.
        `timeout` is in seconds and takes effect between operators. Raises `InputError`, `InUseError`, `NotOwnerError`,
        `RunFailedError`, `CancelledError` and `TimedOutError`.
        """
        if self._quick is not None and outputs is None and timeout is None:  # bound before the compiled one was there
            return CompiledModel.run(self, inputs)
        return self._run(inputs, outputs, timeout=timeout)

    def _run(
        self, inputs: Inputs, outputs: Sequence[Any] | None = None, *, timeout: float | None = None
    ) -> list[bytes]:
        """Run piece by piece; a compiled method takes the place of `run` when some model is run often."""
        claim = self._claim
        claim.enter()
        try:
            self._write(inputs)
            targets = None if outputs is None else self._targets(outputs)
            results = self._execute(timeout)
            if targets is None:
                return results
            for target, result in zip(targets, results, strict=True):
                target[:] = result
            return []
        finally:
            claim.leave()

    def run_arrays(self, inputs: Inputs, *, timeout: float | None = None) -> list[NDArray[Any]]:
        """Run once and return numpy arrays of the outputs' shapes and types; they are DLPack tensors as well."""
        results = self.run(inputs, timeout=timeout)
        return [to_array(data, port) for data, port in zip(results, self.outputs, strict=True)]

    def run_with_metrics(self, inputs: Inputs, detail_level: int = 0) -> tuple[list[bytes], Metrics]:
        """Run once; `Metrics.counters` has what the accelerator reports, which for most is nothing.

        The duration goes from the inputs' bytes to the outputs': a GPU's run is over when its outputs are here.
        """
        if type(detail_level) is not int or not 0 <= detail_level < 2**31:
            raise OptionError(f"detail_level is {detail_level!r}: give a whole number of at least 0")
        with self._claim:
            self._check_open()
            metrics = ask("CreateMetrics")
            try:
                # An accelerator without counters refuses to start them; the run is no less valid for that.
                model = self._engine.handle
                started = self._starts_metrics(detail_level)
                start = time.perf_counter_ns()
                try:
                    self._write(inputs)
                    results = self._execute(None)
                finally:
                    duration = time.perf_counter_ns() - start
                    if started:
                        call("CompiledModelStopMetricsCollection", model, metrics)
                counters = _counters(metrics) if started else {}
                return results, Metrics(duration_ns=duration, counters=counters)
            finally:
                destroy("Metrics", metrics)

    def cancel(self) -> bool:
        """Make the run under way stop before its next operator; callable from any thread. Say whether one was."""
        running = self._claim.busy and not self._closed
        if running:
            self._engine.cancel()
        return running

    def watch(self, stop: ctypes.Array[ctypes.c_char]) -> None:
        """Let a byte that another process can set stop a run, as `cancel` does."""
        with self._claim:
            self._check_open()
            self._engine.watch(stop)
            self._forget_quick()

    def resize(self, name: str | int, shape: Sequence[int]) -> None:
        """Give an input another shape, as far as the model leaves it open; ports and buffers are made anew."""
        with self._claim:
            self._check_open()
            index = self._input_index(name)
            dims = tuple(shape)
            if any(type(dim) is not int or not 0 < dim < 2**31 for dim in dims) or len(dims) > 8:
                raise InputError(f"input {name}: {dims} is no shape; each of at most 8 dimensions is at least 1")
            self._forget_quick()
            self._engine.resize(self._choice.job, index, dims)
            self._refresh()

    # Whose it is

    def controlling_process(self, owner: Any = _KEEP) -> Owner | None:
        """Return the owner; with `owner` (a thread, a process or its number, None for nobody) hand the model to it.

        After that no other thread or process may use it. The claim ends when the owner does.
        """
        if owner is not _KEEP:
            self._claim.give(owner)
        return self._claim.owner()

    # What its runs did

    @property
    def profile_note(self) -> str:
        """Why the profile holds whole runs and no operators; "" where it has them or none was asked for."""
        return self._choice.note

    def pending_events(self) -> int:
        """Return how many events `profile` would return, without reading them; 0 without `profile=True`."""
        with self._claim:
            self._check_open()
            return 0 if self._recorder is None else self._recorder.pending()

    def profile(self, limit: int = 0) -> list[Event]:
        """Return the events since the last reset, oldest first; with `limit` the most recent ones only.

        At most 16,384 are kept; the summary counts the ones before them as well.
        """
        if type(limit) is not int or limit < 0:
            raise OptionError(f"limit is {limit!r}: give a whole number, 0 for all events")
        with self._claim:
            self._check_open()
            return [] if self._recorder is None else self._recorder.events(limit)

    def summarise_profile(self) -> list[SummaryEntry]:
        """Return totals per kind of operator over every run since the last reset, slowest first."""
        with self._claim:
            self._check_open()
            return [] if self._recorder is None else self._recorder.summary()

    def profile_nodes(self) -> list[NodeEntry]:
        """Return totals per operator in the order of a run."""
        with self._claim:
            self._check_open()
            return [] if self._recorder is None else self._recorder.nodes()

    def reset_profile(self) -> None:
        """Forget what was recorded and keep recording. Raises `OptionError` without `profile=True`."""
        with self._claim:
            self._recording().reset()

    def pause_profile(self) -> None:
        """Run at full speed and record nothing until `resume_profile`."""
        with self._claim:
            self._recording().pause()

    def resume_profile(self) -> None:
        with self._claim:
            self._recording().resume()

    # Its end

    def close(self) -> None:
        """Free everything; a second call does nothing. Raises `InUseError` while another thread runs it."""
        if self._closed:
            return
        with self._claim:
            self._closed = True
            self._forget_quick()
            self._engine.close()
            self._choice.job.file.close()
            self._env.release()

    def __enter__(self) -> CompiledModel:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __del__(self) -> None:
        if not getattr(self, "_closed", True):
            self._claim = Claim()  # nobody can be in it any more, and its owner may be gone
            self.close()

    def _new_recorder(self) -> Recorder | None:
        if not self.options.profile:
            return None
        from stowplan_backend_litert.recorder import OperatorRecorder, RunRecorder

        if self._choice.note:
            return RunRecorder(self._choice.note)
        assert self._engine.handle is not None
        return OperatorRecorder(self._engine.handle)

    def _fail(self, status: int) -> NoReturn:
        try:
            raise self._engine.failed(status)
        finally:
            self._claim.leave()

    def _forget_quick(self) -> None:
        """Go the long way again: what the compiled function stands on is about to be another."""
        self._runs = 0
        self._quick: object | None = None

    def _hasten(self) -> None:
        """Count a run that went the long way; after some of them there is a short one, where nothing is recorded."""
        self._runs += 1
        if self._runs == WORTH_IT and self._recorder is None:
            self._quick = self._engine.quick(self._claim)
            if self._quick is not None:
                _compile_run()

    def _refresh(self) -> None:
        self._forget_quick()
        self.inputs: tuple[Port, ...] = tuple(slot.port for slot in self._engine.inputs)
        self.outputs: tuple[Port, ...] = tuple(slot.port for slot in self._engine.outputs)

    def _write(self, inputs: Inputs) -> None:
        self._check_open()
        slots = self._engine.inputs
        if type(inputs) is not list or len(inputs) != len(slots):
            inputs = arranged(inputs, self.inputs)
        for slot, item in zip(slots, inputs, strict=True):
            slot.take(item)

    def _starts_metrics(self, detail_level: int) -> bool:
        function = library().LiteRtCompiledModelStartMetricsCollection
        if self._engine.kinds == ("cpu",):
            return bool(function(self._engine.handle, detail_level) == 0)
        with captured():  # a refusal is printed, too
            return bool(function(self._engine.handle, detail_level) == 0)

    def _targets(self, outputs: Sequence[Any]) -> list[memoryview]:
        if len(outputs) != len(self.outputs):
            raise InputError(f"{len(outputs)} output buffers given, the model has {len(self.outputs)} outputs")
        return [writable(target, port) for target, port in zip(outputs, self.outputs, strict=True)]

    def _execute(self, timeout: float | None) -> list[bytes]:
        """Run on what the inputs hold and return the outputs; reading them is what waits for a GPU."""
        if timeout is not None:
            return self._execute_in_time(timeout)
        engine = self._engine
        if self._recorder is None:
            self._hasten()
            engine.run()
            return [slot.read() for slot in engine.outputs]
        self._recorder.before_run()
        start = time.perf_counter_ns()
        engine.run()
        results = [slot.read() for slot in engine.outputs]
        self._recorder.after_run(time.perf_counter_ns() - start)
        return results

    def _execute_in_time(self, timeout: float) -> list[bytes]:
        if not isinstance(timeout, (int, float)) or not 0 < timeout < 2**31:
            raise OptionError(f"timeout is {timeout!r}: give seconds, more than 0")
        self._timed_out = False
        timer = threading.Timer(timeout, self._expire)
        timer.daemon = True
        timer.start()
        try:
            return self._execute(None)
        except CancelledError as err:
            if self._timed_out:
                raise TimedOutError(f"the run took longer than {timeout:g} s and was stopped", status=7) from err
            raise
        finally:
            timer.cancel()
            timer.join()  # a late one would stop the next run

    def _expire(self) -> None:
        self._timed_out = True
        self._engine.cancel()

    def _recording(self) -> Recorder:
        self._check_open()
        if self._recorder is None:
            raise OptionError("this model was compiled without profile=True; it records nothing")
        return self._recorder

    def _input_index(self, name: str | int) -> int:
        for index, port in enumerate(self.inputs):
            if name == port.name or (type(name) is int and name == index):
                return index
        raise InputError(f"no input {name!r}; the model has {', '.join(port.name for port in self.inputs)}")

    def _check_open(self) -> None:
        if self._closed:
            raise ClosedError("this compiled model was closed")


@cache
def _compile_run() -> None:
    """Put the compiled method in the place of `run`."""
    CompiledModel.run = quick_method(CompiledModel)  # type: ignore[method-assign]


def _options(given: Mapping[str, Any]) -> CompileOptions:
    try:
        return CompileOptions(**given)
    except TypeError as err:
        unknown = [name for name in given if name not in CompileOptions.__dataclass_fields__]
        known = ", ".join(CompileOptions.__dataclass_fields__)
        raise OptionError(f"no option {', '.join(unknown) or err}; options are {known}") from err


def _counters(metrics: int) -> dict[str, MetricValue]:
    found: dict[str, MetricValue] = {}
    for index in range(ask("GetNumMetrics", metrics, kind=ctypes.c_int)):
        metric = layouts.Metric()
        call("GetMetric", metrics, index, ctypes.byref(metric))
        found[(metric.name or b"").decode("utf-8", "replace")] = _metric_value(metric.value)
    return found


def _metric_value(value: layouts.Any) -> MetricValue:
    payload = value.value
    if value.type == layouts.BOOL:
        return bool(payload.truth)
    if value.type == layouts.INTEGER:
        return int(payload.integer)
    if value.type == layouts.REAL:
        return float(payload.real)
    if value.type == layouts.TEXT:
        return (payload.text or b"").decode("utf-8", "replace")
    return "unsupported"
