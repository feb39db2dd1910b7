"""The compiled function of a model that is run often: made when it is worth it, and never in the way."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from stowplan_backend_litert import CompiledModel, Environment, quick
from stowplan_backend_litert.errors import InputError

RANDOM = np.random.default_rng(5)


def _ran_often(model: CompiledModel) -> CompiledModel:
    for _ in range(quick.WORTH_IT):
        model.run([bytes(model.inputs[0].size_bytes)])
    return model


def test_a_model_that_is_run_often_gets_one_and_answers_as_before(env: Environment, digits: Path) -> None:
    with CompiledModel(env, digits) as model, CompiledModel(env, digits) as other:
        assert _ran_often(model)._quick is not None
        for _ in range(50):
            x = RANDOM.integers(-128, 128, model.inputs[0].shape, dtype=np.int8)
            assert model.run([x]) == model.run([x.tobytes()]) == other.run((x,))


def test_a_method_bound_before_takes_the_short_way_too(env: Environment, digits: Path) -> None:
    code = (
        "import sys\n"
        "from stowplan_backend_litert import CompiledModel, Environment\n"
        "model = CompiledModel(Environment(), sys.argv[1])\n"
        "run, given, long = model.run, [bytes(64)], model._run\n"
        "before = [run(given) for _ in range(20)]\n"
        "assert type(CompiledModel.run).__name__ == 'method_descriptor', CompiledModel.run\n"
        "model._run = None\n"
        "assert run(given) == model.run(given) == before[0] == long(inputs=given)\n"
        "import inspect\n"
        "assert str(inspect.signature(model.run)) == '(inputs, outputs=None, *, timeout=None)'\n"
    )
    done = subprocess.run([sys.executable, "-c", code, str(digits)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_named_arguments_go_the_long_way(env: Environment, digits: Path) -> None:
    with CompiledModel(env, digits) as model:
        right = _ran_often(model).run([bytes(64)])
        target = bytearray(len(right[0]))
        assert model.run(inputs=[bytes(64)]) == model.run([bytes(64)], timeout=5.0) == right
        assert model.run([bytes(64)], [target]) == []
        assert bytes(target) == right[0]
        with pytest.raises(TypeError):
            model.run([bytes(64)], colour=1)  # type: ignore[call-arg]
        with pytest.raises(TypeError):
            model.run()  # type: ignore[call-arg]


def test_one_that_records_its_runs_gets_none(env: Environment, digits: Path) -> None:
    with CompiledModel(env, digits, profile=True) as model:
        assert _ran_often(model)._quick is None
        assert sum(entry.count for entry in model.summarise_profile()) > 0


def test_without_a_compiler_runs_go_on(env: Environment, digits: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quick, "_native", lambda: None)
    with CompiledModel(env, digits) as model:
        assert _ran_often(model)._quick is None
        assert len(model.run([bytes(64)])) == 1


@pytest.mark.parametrize(
    "given",
    [
        [np.zeros(64, np.uint8)], [np.zeros((1, 8, 8, 1), np.uint8)], [np.zeros((8, 8), np.int8)], [bytes(63)],
        [np.zeros((1, 8, 8, 1), np.float32)], [], [bytes(64), bytes(64)], [None], ["text"], "text", bytes(64), 7, None,
        [np.zeros((1, 8, 16, 1), np.int8)[:, :, ::3]],
    ],
)  # fmt: skip
def test_whatever_is_no_plain_input_gets_the_long_way_s_words(env: Environment, digits: Path, given: Any) -> None:
    with CompiledModel(env, digits) as fast, CompiledModel(env, digits) as slow:
        _ran_often(fast)
        with pytest.raises(InputError) as expected:
            slow.run(given)
        for _ in range(3):
            with pytest.raises(InputError) as found:
                fast.run(given)
            assert str(found.value) == str(expected.value)
        assert len(fast.run([bytes(64)])) == 1


def test_odd_inputs_that_are_right_are_taken(env: Environment, digits: Path) -> None:
    with CompiledModel(env, digits) as model:
        x = RANDOM.integers(-128, 128, model.inputs[0].shape, dtype=np.int8)
        expected = _ran_often(model).run([x])
        fortran = np.asfortranarray(x)
        for given in ([bytearray(x.tobytes())], [memoryview(x.tobytes())], [fortran], {model.inputs[0].name: x}, (x,)):
            assert model.run(given) == expected


def test_threads_on_it_are_answered_rightly_or_refused(env: Environment, digits: Path) -> None:
    with CompiledModel(env, digits) as model:
        inputs = [RANDOM.integers(-128, 128, model.inputs[0].shape, dtype=np.int8) for _ in range(4)]
        right = [model.run([x]) for x in inputs]
        _ran_often(model)
        wrong: list[int] = []

        def use(index: int) -> None:
            for _ in range(2000):
                try:
                    if model.run([inputs[index]]) != right[index]:
                        wrong.append(index)
                except Exception as err:
                    if "in use by another caller" not in str(err):
                        wrong.append(index)

        threads = [threading.Thread(target=use, args=(index,)) for index in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert wrong == []


def test_nothing_is_leaked(env: Environment, digits: Path) -> None:
    with CompiledModel(env, digits) as model:
        x = np.zeros(model.inputs[0].shape, np.int8)
        given = [x]
        _ran_often(model)
        before = sys.getrefcount(x), sys.getrefcount(None), sys.getrefcount(bytes)
        for _ in range(1000):
            model.run(given)
        after = sys.getrefcount(x), sys.getrefcount(None), sys.getrefcount(bytes)
    assert all(abs(b - a) < 50 for a, b in zip(before, after, strict=True))
