"""Running: equal to the classic interpreter, exact about what it is given, stoppable, and closed for good."""

from __future__ import annotations

import array
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import litert_models
from litert_models import interpreter_outputs
from stowplan_backend_litert import CompiledModel, Environment
from stowplan_backend_litert.errors import (
    CancelledError,
    ClosedError,
    InputError,
    LiteRtError,
    OptionError,
    TimedOutError,
)

pytestmark = pytest.mark.usefixtures("way")
RANDOM = np.random.default_rng(3)


def test_outputs_equal_the_interpreter_s_byte_for_byte(env: Environment, digits: Path) -> None:
    with CompiledModel(env, digits) as model:
        for _ in range(20):
            x = RANDOM.integers(-128, 128, model.inputs[0].shape, dtype=np.int8)
            expected = interpreter_outputs(digits.read_bytes(), [x])
            assert model.run([x]) == [y.tobytes() for y in expected]


@pytest.mark.parametrize(
    ("source", "target"),
    [("int64", "float32"), ("int16", "int32"), ("float32", "int64"), ("uint8", "float32"), ("bool", "float32")],
)
def test_every_width_goes_in_and_out(env: Environment, source: str, target: str) -> None:
    x = np.array([0, 1, 1, 0], source)
    with CompiledModel(env, litert_models.cast(source, target)) as model:
        (y,) = model.run_arrays([x])
    assert (y.dtype, y.tolist()) == (np.dtype(target), [0, 1, 1, 0])


def test_sizes_and_ports_are_known(env: Environment, digits: Path) -> None:
    with CompiledModel(env, digits) as model:
        assert model.io_sizes() == ([64], [10])
        (port,) = model.inputs
        assert (port.dtype, port.size_bytes) == ("int8", 64)
        assert port.scale is not None and port.scale > 0


def test_bytes_buffers_arrays_dlpack_and_names_are_the_same_input(env: Environment) -> None:
    x, y = np.arange(4, dtype=np.float32)[None], np.full((1, 4), 2, np.float32)
    ways: list[Any] = [
        [x, y],
        [x.tobytes(), bytearray(y.tobytes())],
        [memoryview(x.tobytes()), memoryview(y)],
        [array.array("f", x.ravel()), y.ravel()],
        {"y": y, "x": x},
        [OnlyDlpack(x), OnlyDlpack(y)],
        [np.asfortranarray(x), y[:, ::-1]],
    ]
    with CompiledModel(env, litert_models.two_signatures(), signature="mul") as model:
        for given in ways:
            assert model.run_arrays(given)[0].tolist() == [[0, 2, 4, 6]]


def test_outputs_are_dlpack_tensors_and_can_go_into_the_caller_s_buffers(env: Environment) -> None:
    inputs = [np.ones((1, 4), np.float32)] * 2
    with CompiledModel(env, litert_models.two_signatures()) as model:
        assert np.from_dlpack(model.run_arrays(inputs)[0]).tolist() == [[2, 2, 2, 2]]
        for target in (bytearray(16), np.zeros((1, 4), np.float32), array.array("f", [0] * 4)):
            assert model.run(inputs, [target]) == []
            assert bytes(memoryview(target).cast("B")) == np.full(4, 2, np.float32).tobytes()


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ([], "0 inputs given, the model has 2"),
        ([bytes(16)] * 3, "3 inputs given"),
        ([bytes(15), bytes(16)], "input x: 15 bytes given, 1x4 float32 takes 16"),
        ([bytes(17), bytes(16)], "input x: 17 bytes given"),
        ([np.zeros((1, 4), np.int32), bytes(16)], "input x: holds int32, the model has float32; convert it first"),
        ([bytes(16), np.zeros((4, 1), np.float32)], "input y: has shape 4x1, the model 1x4; reshape it first"),
        ([np.zeros((1, 4), np.float64), bytes(16)], "input x: 32 bytes given|holds float64"),
        ([np.zeros(16, np.uint8), bytes(16)], "input x: holds uint8"),
        ([None, bytes(16)], "input x: NoneType is neither bytes nor an array"),
        (["text", bytes(16)], "input x: str is neither bytes nor an array"),
        (bytes(32), "inputs are bytes: give a list with one item per input"),
        (7, "inputs are int"),
        ({"x": bytes(16)}, "input y is missing"),
        ({"x": bytes(16), "y": bytes(16), "z": b""}, "no input 'z'; the model has x, y"),
    ],
)
def test_wrong_inputs_are_refused_by_name(env: Environment, given: Any, words: str) -> None:
    with CompiledModel(env, litert_models.two_signatures()) as model, pytest.raises(InputError, match=words):
        model.run(given)


@pytest.mark.parametrize(
    ("targets", "words"),
    [
        ([], "0 output buffers given, the model has 1 outputs"),
        ([bytes(16)], "output result: the buffer is read-only"),
        ([bytearray(15)], "output result: the buffer has 15 bytes, 1x4 float32 takes 16"),
        ([np.zeros((1, 4), np.int32)], "output result: holds int32"),
        ([np.zeros((4, 2), np.float32)[:, 0]], "output result: the buffer has gaps"),
        ([7], "output result: int is no buffer"),
    ],
)
def test_wrong_output_buffers_are_refused_by_name(env: Environment, targets: Any, words: str) -> None:
    with CompiledModel(env, litert_models.two_signatures()) as model, pytest.raises(InputError, match=words):
        model.run([bytes(16)] * 2, targets)


def test_a_dlpack_tensor_that_cannot_be_read_is_refused(env: Environment) -> None:
    with CompiledModel(env, litert_models.two_signatures()) as model, pytest.raises(InputError, match="DLPack"):
        model.run([OnlyDlpack(None), bytes(16)])


def test_metrics_come_with_the_same_outputs(env: Environment, digits: Path) -> None:
    with CompiledModel(env, digits) as model:
        outputs, metrics = model.run_with_metrics([bytes(64)], 2)
        assert outputs == model.run([bytes(64)])
        assert metrics.duration_ns > 0
        assert metrics.counters == {}  # the CPU reports none
        with pytest.raises(OptionError, match="detail_level is -1"):
            model.run_with_metrics([bytes(64)], -1)


def test_an_input_is_resized_where_the_model_leaves_it_open(env: Environment) -> None:
    with CompiledModel(env, litert_models.two_signatures()) as model:
        model.resize("x", (3, 4))
        model.resize(1, (3, 4))
        assert model.io_sizes() == ([48, 48], [48])
        assert model.run_arrays([np.ones((3, 4), np.float32)] * 2)[0].tolist() == [[2] * 4] * 3
        for name, shape, words in (("x", (3, 5), "cannot be resized to"), ("z", (3, 4), "no input 'z'"),
                                   ("x", (0, 4), "is no shape"), ("x", (1,) * 9, "is no shape")):  # fmt: skip
            with pytest.raises(LiteRtError, match=words):
                model.resize(name, shape)
        assert len(model.run([bytes(48)] * 2)) == 1


def test_a_run_stops_when_another_thread_cancels_it(env: Environment) -> None:
    with CompiledModel(env, litert_models.slow()) as model:
        inputs = [bytes(model.io_sizes()[0][0])]
        before = model.run(inputs)
        assert not model.cancel()
        timer = threading.Timer(0.005, model.cancel)
        timer.start()
        with pytest.raises(CancelledError, match="the run was cancelled"):
            model.run(inputs)
        timer.join()
        assert model.run(inputs) == before


def test_a_run_that_takes_too_long_is_stopped(env: Environment) -> None:
    with CompiledModel(env, litert_models.slow(count=400_000)) as model:
        inputs = [bytes(model.io_sizes()[0][0])]
        with pytest.raises(TimedOutError, match=r"took longer than 0\.005 s and was stopped"):
            model.run(inputs, timeout=0.005)
        assert len(model.run(inputs, timeout=60)) == 1
        with pytest.raises(OptionError, match="timeout is 0"):
            model.run(inputs, timeout=0)


def test_other_threads_run_while_a_model_runs(env: Environment) -> None:
    with CompiledModel(env, litert_models.slow()) as model:
        inputs = [bytes(model.io_sizes()[0][0])]
        done = threading.Event()
        ticks = 0

        def run() -> None:
            model.run(inputs)
            done.set()

        thread = threading.Thread(target=run)
        thread.start()
        while not done.is_set():
            ticks += 1
            time.sleep(0.0005)
        thread.join()
        assert ticks > 5


def test_a_closed_model_answers_nothing(env: Environment, digits: Path) -> None:
    model = CompiledModel(env, digits, profile=True)
    model.close()
    model.close()
    for ask in (
        lambda: model.run([bytes(64)]), model.profile, model.summarise_profile, model.pending_events,
        model.reset_profile, lambda: model.run_with_metrics([bytes(64)]), lambda: model.cpu_delegated,
    ):  # fmt: skip
        with pytest.raises(ClosedError, match="this compiled model was closed"):
            ask()
    assert not model.cancel()


class OnlyDlpack:
    """An array that is no buffer, like those of other frameworks."""

    def __init__(self, array: Any) -> None:
        self._array = array

    def __dlpack__(self, **options: Any) -> Any:
        if self._array is None:
            raise BufferError("on another device")
        return self._array.__dlpack__(**options)

    def __dlpack_device__(self) -> Any:
        return (1, 0)
