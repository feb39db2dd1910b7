"""Models that keep something from one run to the next: equal to TFLite Micro run after run, at any budget."""

from __future__ import annotations

import re
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("ai_edge_litert", reason="needs the package ai-edge-litert")

import flatbuffers
from ai_edge_litert import schema_py_generated as schema

from every_other_kernel import recurrent
from oracles import open_tflm, random_inputs
from stowplan.build.pipeline import CompileRequest, compile_model
from stowplan.errors import UnsupportedError
from stowplan.flow.text import graph_lines
from stowplan.planfile.reader import read_plan
from stowplan.planfile.text import plan_lines
from stowplan_backend_c import CBackend
from tflite_builder import ModelBuilder
from tflite_import import import_bytes, shared_models

RUNS = 5


def counter(first: list[int] | None = None) -> bytes:
    """A variable to which each run adds its input, and whose value before that is the output.

    x ---+--> ADD --> ASSIGN total
    READ total --+---------------> y
    """
    model = ModelBuilder()
    x = model.input("x", (1, 4), "float32")
    handles = [model.tensor("handle", (), "resource")]
    if first is not None:
        model.operator("CALL_ONCE", [], [], init_subgraph_index=1)
    model.operator("VAR_HANDLE", [], handles, shared_name="total")
    total, y, z = (model.tensor(name, (1, 4), "float32") for name in ("total", "y", "z"))
    model.operator("READ_VARIABLE", handles, [total])
    model.operator("ADD", [total, x], [y])
    model.operator("ASSIGN_VARIABLE", [handles[0], y], [])
    model.operator("MUL", [total, total], [z])
    model.outputs(z)
    if first is not None:
        model.subgraph("init")
        inner = model.tensor("handle", (), "resource")
        value = model.constant("value", np.array([first], np.float32))
        model.operator("VAR_HANDLE", [], [inner], shared_name="total")
        model.operator("ASSIGN_VARIABLE", [inner, value], [])
    return model.build()


def compiled(model: bytes, folder: Path, *pools: tuple[str, int], compressor: str = "none") -> bytes:
    path = folder / "model.tflite"
    path.write_bytes(model)
    return compile_model(CompileRequest(model_path=path, pools=pools, compressor=compressor)).data


@pytest.mark.parametrize("first", [None, [1, 2, 3, 4]])
def test_what_a_run_assigns_the_next_one_reads(first: list[int] | None, tmp_path: Path) -> None:
    plan = compiled(counter(first), tmp_path)
    total = np.array(first or [0, 0, 0, 0], np.float32)
    with closing(CBackend().compile(plan)) as model:
        for run in range(RUNS):
            x = np.full((1, 4), run + 1, np.float32)
            (got,) = model.run([x.tobytes()])
            np.testing.assert_array_equal(np.frombuffer(got, np.float32), total * total)
            total = total + x.ravel()


def test_a_fresh_compilation_has_forgotten_everything(tmp_path: Path) -> None:
    plan = compiled(counter([2, 2, 2, 2]), tmp_path)
    x = np.ones((1, 4), np.float32).tobytes()
    with closing(CBackend().compile(plan)) as model:
        first = [model.run([x]) for _ in range(3)]
    with closing(CBackend().compile(plan, poison=0)) as model:
        assert [model.run([x]) for _ in range(3)] == first
    assert first[0] != first[1]


def test_users_see_neither_the_old_nor_the_new_value_among_inputs_and_outputs(tmp_path: Path) -> None:
    graph = import_bytes(counter())
    assert len(graph.states) == 1
    assert len(graph.entries) == len(graph.exits) == 1
    assert len(graph.inputs) == 2
    view = read_plan(compiled(counter(), tmp_path))
    assert [port.name for port in view.inputs] == ["x"]
    assert [port.name for port in view.outputs] == ["z"]
    assert len(view.records("states")) == 1


def test_a_variable_that_never_changes_is_a_constant() -> None:
    model = ModelBuilder()
    x, handle = model.input("x", (1, 4), "float32"), model.tensor("handle", (), "resource")
    value, y = model.tensor("value", (1, 4), "float32"), model.tensor("y", (1, 4), "float32")
    model.operator("VAR_HANDLE", [], [handle], shared_name="v")
    model.operator("READ_VARIABLE", [handle], [value])
    model.operator("ADD", [x, value], [y])
    assert import_bytes(model.outputs(y).build()).states == ()


def test_a_first_value_that_is_computed_is_refused_by_name() -> None:
    model = ModelBuilder()
    x, y = model.input("x", (1, 4), "float32"), model.tensor("y", (1, 4), "float32")
    model.operator("CALL_ONCE", [], [], init_subgraph_index=1)
    model.operator("RELU", [x], [y])
    model.outputs(y)
    model.subgraph("init")
    model.operator("RELU", [model.tensor("a", (1,), "float32")], [model.tensor("b", (1,), "float32")])
    with pytest.raises(UnsupportedError, match="RELU before the first run; assigning constants would be supported"):
        import_bytes(model.build())


def test_a_state_as_large_as_a_file_may_declare_is_refused_before_it_is_made() -> None:
    model = ModelBuilder()
    handle = model.tensor("handle", (), "resource")
    value, y = model.tensor("value", (2**20, 2**8), "float32"), model.tensor("y", (2**20, 2**8), "float32")
    model.operator("VAR_HANDLE", [], [handle], shared_name="total")
    model.operator("READ_VARIABLE", [handle], [value])
    model.operator("ABS", [value], [y])
    with pytest.raises(UnsupportedError, match='"total" keeps 1073741824 bytes between runs; up to 268435456 would be'):
        import_bytes(model.outputs(y).build())


def test_an_lstm_whose_states_do_not_go_together_is_refused() -> None:
    data = schema.ModelT.InitFromPackedBuf(recurrent(), 0)
    graph = data.subgraphs[0]
    for tensor in graph.tensors:
        if tensor.name == b"cell_int8":
            tensor.shape = [1, 6]
    builder = flatbuffers.Builder(1024)
    builder.Finish(data.Pack(builder), b"TFL3")
    with pytest.raises(UnsupportedError, match="states of shapes 1x5 and 1x6 for 1 sequences"):
        import_bytes(bytes(builder.Output()))


@pytest.mark.parametrize(("pools", "compressor"), [
    ((), "none"), ((("fast", 1 << 20),), "lz4"), ((("fast", 700), ("slow", 1 << 16)), "none"),
])  # fmt: skip
def test_svdf_and_lstm_equal_tflite_micro_run_after_run(
    pools: tuple[tuple[str, int], ...], compressor: str, tmp_path: Path
) -> None:
    model = recurrent()
    plan = compiled(model, tmp_path, *pools, compressor=compressor)
    truth = open_tflm(model)
    with closing(CBackend().compile(plan)) as mine:
        for run in range(RUNS):
            inputs = random_inputs(model, run)
            got = mine.run([array.tobytes() for array in inputs])
            for data, want in zip(got, truth(inputs), strict=True):
                found = np.frombuffer(data, want.dtype).reshape(want.shape)
                if want.dtype.kind == "f":
                    np.testing.assert_allclose(found, want, rtol=1e-5, atol=1e-6)
                else:
                    np.testing.assert_array_equal(found, want)


@pytest.mark.parametrize(("name", "fast"), [
    ("esphome_v2_vad", 2500), ("esphome_v2_vad", 1 << 20), ("esphome_v2_okay_nabu", 2500),
    ("esphome_v2_okay_nabu", 6000), ("esphome_v1_alexa", 7500), ("esphome_v1_alexa", 1 << 20),
])  # fmt: skip
def test_wake_words_equal_tflite_micro_run_after_run(name: str, fast: int, tmp_path: Path) -> None:
    paths = shared_models(f"wakeword/{name}.tflite")
    if not paths:
        pytest.skip(f"{name} is absent")
    model = paths[0].read_bytes()
    plan = compiled(model, tmp_path, ("fast", fast), ("slow", 1 << 20))
    truth = open_tflm(model)
    with closing(CBackend().compile(plan)) as mine:
        for run in range(RUNS):
            inputs = random_inputs(model, run)
            got = mine.run([array.tobytes() for array in inputs])
            assert got == [np.ascontiguousarray(array).tobytes() for array in truth(inputs)], run


def test_text_forms_show_what_is_kept(tmp_path: Path) -> None:
    graph = import_bytes(counter([1, 2, 3, 4]))
    (line,) = [line for line in graph_lines(graph) if line.startswith("state ")]
    state = graph.states[0]
    assert line == f"state %{state.before} from %{state.after} first {state.initial[:16]} 'total'"
    lines = list(plan_lines(read_plan(compiled(counter([1, 2, 3, 4]), tmp_path))))
    assert "flags proven state" in lines
    (line,) = [line for line in lines if line.startswith("state ")]
    assert re.fullmatch(r"state 0 buffer \d+ from buffer \d+, first constant \d+", line)


def test_inspect_says_that_a_plan_has_state_and_how_its_weights_are_packed(tmp_path: Path) -> None:
    plan = tmp_path / "kept.stow"
    plan.write_bytes(compiled(recurrent(), tmp_path, ("fast", 1 << 20), compressor="range"))
    command = [sys.executable, "-m", "stowplan", "inspect", str(plan)]
    out = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert ", compressed, by the range coder, with state" in out.splitlines()[0]
