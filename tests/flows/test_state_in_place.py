"""What a run leaves to the next, made in the place of what it found: never a wrong value, whoever else reads either."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("ai_edge_litert", reason="needs the package ai-edge-litert")

from oracles import Array, open_tflm, random_inputs
from state_models import Program, shift_register, svdf
from stowplan.build.least import Asker
from stowplan.build.pipeline import CompileRequest, Session, compile_model
from stowplan.build.verify import ScheduleFault, verify
from stowplan.errors import DoesNotFit
from stowplan.flow.plan import Plan
from stowplan.flow.schedule import Schedule
from stowplan.nouns import replace
from stowplan.planfile.reader import read_plan
from stowplan.planfile.writer import write_plan
from stowplan_backend_c import CBackend
from stowplan_backend_c.binding import runtime
from stowplan_backend_c.host import MORE, HostCompiled
from tflite_import import shared_models

RUNS = 4

NUMBER = st.integers(0, 15)
STEPS: list[st.SearchStrategy[tuple[Callable[..., None], tuple[int, ...]]]] = [
    st.tuples(st.just(Program.add), st.tuples(NUMBER, NUMBER)),
    st.tuples(st.just(Program.relu), st.tuples(NUMBER)),
    st.tuples(st.just(Program.pool), st.tuples(NUMBER)),
    st.tuples(st.just(Program.shift), st.tuples(NUMBER, st.booleans())),
    st.tuples(st.just(Program.assign), st.tuples(NUMBER, NUMBER)),
    st.tuples(st.just(Program.read), st.tuples(NUMBER)),
]


@st.composite
def programs(draw: st.DrawFn) -> bytes:
    program = Program(draw(st.integers(1, 3)))
    for step, arguments in draw(st.lists(st.one_of(STEPS), min_size=2, max_size=8)):
        step(program, *arguments)
    for variable in range(len(program.handles)):
        program.assign(variable, draw(NUMBER))
    return program.finish(draw(NUMBER))


@st.composite
def requests(draw: st.DrawFn) -> dict[str, Any]:
    """Ways to ask for a plan that all have to give the same bytes, at a budget yet to be drawn."""
    streamed = draw(st.sampled_from([(), ("x",), ("row",), ("row", "x")]))
    if not streamed and draw(st.integers(0, 3)) == 0:
        return {"scheduler": "greedy"}
    return {"stream_inputs": streamed, "recompute": draw(st.sampled_from([1.0, 1.5, 2.0]))}


def session_of(model: bytes, folder: Path) -> Session:
    path = folder / "model.tflite"
    path.write_bytes(model)
    return Session(CompileRequest(model_path=path))


def plans(session: Session) -> list[Plan]:
    asker = Asker(session)
    return [asker.plan(1 << 20), asker.least(slow=False), asker.least(slow=True)]


def in_place(plan: bytes) -> int:
    """Return how many states of a plan have one place."""
    view = read_plan(plan)
    places = [
        [view.records("buffers")[s[side]]["base"] for side in ("before", "after")] for s in view.records("states")
    ]
    return sum(before == after for before, after in places)


@settings(deadline=None, max_examples=40)
@given(model=programs())
def test_any_program_equals_tflite_micro_run_after_run(model: bytes, tmp_path_factory: pytest.TempPathFactory) -> None:
    session = session_of(model, tmp_path_factory.mktemp("program"))
    given_inputs = [random_inputs(model, run) for run in range(RUNS)]
    truth = open_tflm(model)
    wanted = [truth(inputs) for inputs in given_inputs]
    for plan in plans(session):
        with closing(CBackend().compile(write_plan(plan))) as compiled:
            for inputs, want in zip(given_inputs, wanted, strict=True):
                got = compiled.run([array.tobytes() for array in inputs])
                assert got == [np.ascontiguousarray(array).tobytes() for array in want]


@settings(deadline=None, max_examples=25)
@given(model=programs(), how=requests(), share=st.integers(0, 100), slow=st.booleans())
def test_any_budget_streamed_or_computed_twice_equals_tflite_micro_also_after_a_reset(
    model: bytes, how: dict[str, Any], share: int, slow: bool, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("asked") / "model.tflite"
    path.write_bytes(model)
    asker = Asker(Session(CompileRequest(model_path=path, **how)))
    most = asker.plan(1 << 20).schedule.pool_bytes[0]
    least = asker.least(slow=slow).schedule.pool_bytes[0]
    fast = ("fast", least + max(0, most - least) * share // 100)
    pools = (fast, ("slow", 1 << 20)) if slow else (fast,)
    try:
        plan = compile_model(CompileRequest(model_path=path, pools=pools, **how)).data
    except DoesNotFit:
        assert fast[1] < most, "without slow memory the least may need a longer search"
        return
    given_inputs = [random_inputs(model, run) for run in range(RUNS)]
    truth = open_tflm(model)
    wanted = [[np.ascontiguousarray(array).tobytes() for array in truth(inputs)] for inputs in given_inputs]
    with closing(HostCompiled(plan)) as compiled:
        for _ in range(2):
            got = [compiled.run([array.tobytes() for array in inputs]) for inputs in given_inputs]
            assert got == wanted
            runtime().library.stow_reset(compiled._context)


@pytest.mark.parametrize("model", [shift_register(), svdf((1, 8, 4, 2, 7)), svdf((2, 3, 2, 3, 2))])
def test_a_state_takes_its_bytes_once(model: bytes, tmp_path: Path) -> None:
    session = session_of(model, tmp_path)
    plan = Asker(session).least(slow=False)
    assert in_place(write_plan(plan)) == 1


def test_a_state_that_others_still_read_keeps_its_place(tmp_path: Path) -> None:
    """A pool's row needs three rows of the old value: the new one cannot be made over them."""
    program = Program(1)
    program.pool(1)
    program.assign(0, 2)
    session = session_of(program.finish(2), tmp_path)
    assert in_place(write_plan(Asker(session).plan(1 << 20))) == 0


@pytest.mark.parametrize("name", ["tflm_keyword_scrambled", "tflm_keyword_scrambled_8bit"])
def test_keyword_models_need_no_more_than_their_states_and_the_head_of_tflite_micro(name: str, tmp_path: Path) -> None:
    paths = shared_models(f"kws/{name}.tflite")
    if not paths:
        pytest.skip(f"{name} is absent")
    model = paths[0].read_bytes()
    session = session_of(model, tmp_path)
    kept = sum(session.graph.tensors[state.before].size_bytes for state in session.graph.states)
    least = Asker(session).least(slow=False)
    assert least.schedule.pool_bytes[0] <= kept + 672
    assert Asker(session).least(slow=True).schedule.pool_bytes[0] < kept // 4
    truth = open_tflm(model)
    with closing(CBackend().compile(write_plan(least))) as compiled:
        for run in range(2 * RUNS):
            inputs = random_inputs(model, run)
            assert compiled.run([a.tobytes() for a in inputs]) == [a.tobytes() for a in truth(inputs)], run


def test_a_run_that_was_left_has_to_be_reset_before_the_next(tmp_path: Path) -> None:
    """It may have changed the state already: to start over as if it had not would give a wrong answer."""
    model = shift_register()
    path = tmp_path / "model.tflite"
    path.write_bytes(model)
    request = CompileRequest(model_path=path, stream_inputs=("x",))
    plan = compile_model(request).data
    assert in_place(plan) == 1
    inputs = [array.tobytes() for array in random_inputs(model, 0)]
    with closing(HostCompiled(plan)) as compiled:
        library, context = runtime().library, compiled._context
        wanted = [compiled.run(inputs) for _ in range(2)]
        ctypes.memmove(library.stow_input(context, 0), inputs[0], len(inputs[0]))
        library.stow_reset(context)
        assert library.stow_begin(context) == MORE
        assert runtime().text(library.stow_begin(context)).endswith("changed what the model keeps; reset it")
        library.stow_reset(context)
        assert [compiled.run(inputs) for _ in range(2)] == wanted


# The checker, which knows nothing of how the scheduler decides.


def scheduled(program: Program, folder: Path) -> tuple[Session, Schedule, int]:
    """Return the least schedule of a program with one variable, and the buffer of its next value."""
    session = session_of(program.finish(-1), folder)
    schedule = Asker(session).least(slow=False).schedule
    verify(session.graph, schedule)
    return session, schedule, dict(schedule.interface)[session.graph.states[0].after]


def in_place_of(session: Session, schedule: Schedule) -> bool:
    homes, state = dict(schedule.interface), session.graph.states[0]
    before, after = (schedule.buffers[homes[tensor]].offsets for tensor in (state.before, state.after))
    return before == after


def moved(schedule: Schedule, buffer: int, offsets: tuple[int, ...]) -> Schedule:
    buffers = list(schedule.buffers)
    buffers[buffer] = replace(buffers[buffer], offsets=offsets)
    end = offsets[-1] + buffers[buffer].row_bytes
    return replace(schedule, buffers=tuple(buffers), pool_bytes=(max(schedule.pool_bytes[0], end),))


def test_a_new_value_partly_over_the_old_one_is_refused(tmp_path: Path) -> None:
    program = Program(1)
    program.relu(0)
    program.assign(0, -1)
    session, schedule, after = scheduled(program, tmp_path)
    buffer = schedule.buffers[after]
    wrong = moved(schedule, after, tuple(offset + buffer.row_bytes for offset in buffer.offsets))
    with pytest.raises(ScheduleFault, match=r"overlap|too-late"):
        verify(session.graph, wrong)


def test_a_row_that_is_read_after_its_successor_took_its_place_is_refused(tmp_path: Path) -> None:
    program = Program(1)
    program.relu(1)
    program.relu(0)
    program.assign(0, -1)
    del program.made[1]  # nobody else reads the old value
    session, schedule, after = scheduled(program, tmp_path)
    writes = [f for f in schedule.firings if schedule.nodes[f.node].output == after]
    assert in_place_of(session, schedule)
    early = (*writes, *(f for f in schedule.firings if f not in writes))
    with pytest.raises(ScheduleFault, match="too-late"):
        verify(session.graph, replace(schedule, firings=early))


def test_only_operators_that_read_ahead_may_write_over_what_they_read(tmp_path: Path) -> None:
    program = Program(1)
    program.add(0, 1)
    program.assign(0, -1)
    session, schedule, after = scheduled(program, tmp_path)
    before = dict(schedule.interface)[session.graph.states[0].before]
    with pytest.raises(ScheduleFault, match="overlap"):
        verify(session.graph, moved(schedule, after, schedule.buffers[before].offsets))


def test_runs_of_a_state_without_a_reader_begin_from_its_first_value(tmp_path: Path) -> None:
    """A variable that is written and read again later: what is shown is the new value, not the old one."""
    program = Program(1)
    program.relu(0)
    program.assign(0, 2)
    program.read(0)
    model = program.finish(3)
    session, truth = session_of(model, tmp_path), open_tflm(model)
    with closing(CBackend().compile(write_plan(Asker(session).least(slow=False)))) as compiled:
        for run in range(RUNS):
            inputs: list[Array] = random_inputs(model, run)
            assert compiled.run([a.tobytes() for a in inputs]) == [a.tobytes() for a in truth(inputs)]
