"""Streamed inputs in the runtime: what a push does, what is refused, and which plans are not even opened."""

from __future__ import annotations

import ctypes
import random
from collections.abc import Callable

import pytest

from stowplan.errors import PlanError, RuntimeFailure
from stowplan.planfile import layout
from stowplan_backend_c.binding import runtime
from stowplan_backend_c.host import MORE, HostCompiled
from tiny_plans import Sketch, arriving_plan, copying_plan

X, U, Z = bytes(range(32)), bytes(range(100, 108)), bytes(range(200, 208))
NO_INPUT = 0xFFFFFFFF
OK = 0


class Pushed:
    """A plan bound to the host's arenas, for tests that call the runtime themselves."""

    def __init__(self, data: bytes) -> None:
        self.compiled = HostCompiled(data)
        self.library = runtime().library
        self.context = self.compiled._context

    def begin(self) -> int:
        return self.library.stow_begin(self.context)

    def push(self, number: int, rows: bytes, count: int) -> int:
        return self.library.stow_push_rows(self.context, number, rows, count)

    def refused(self, number: int, rows: bytes, count: int) -> str:
        status = self.push(number, rows, count)
        assert status not in (OK, MORE)
        return runtime().text(status)

    @property
    def waits_for(self) -> tuple[int, int]:
        return self.library.stow_waiting_for(self.context), self.library.stow_rows_wanted(self.context)

    def outputs(self) -> list[bytes]:
        ports = enumerate(self.compiled.outputs)
        return [ctypes.string_at(self.library.stow_output(self.context, i), p.size_bytes) for i, p in ports]

    def fill(self, number: int, data: bytes) -> None:
        ctypes.memmove(self.library.stow_input(self.context, number), data, len(data))


def test_the_host_pushes_rows_in_the_order_in_which_the_plan_asks() -> None:
    with HostCompiled(arriving_plan().file()) as compiled:
        assert compiled.run([X, U, Z]) == [X, U, Z]
        assert compiled.run([X[::-1], U, Z]) == [X[::-1], U, Z]


def test_inputs_may_be_anything_with_bytes() -> None:
    x = memoryview(X).cast("I", (4, 2))
    assert HostCompiled(arriving_plan().file()).run([x, bytearray(U), memoryview(Z)]) == [X, U, Z]


def test_the_status_that_asks_for_rows_is_the_one_the_host_knows() -> None:
    assert runtime().text(MORE) == "more rows of an input are needed"


def test_ports_say_which_inputs_are_streamed_and_how_they_are_cut() -> None:
    compiled = HostCompiled(arriving_plan().file())
    cut = [(port.name, port.streamed, port.rows, port.row_bytes) for port in compiled.inputs]
    assert cut == [("x", True, 4, 8), ("u", False, 0, 0), ("z", True, 2, 4)]
    assert not any(port.streamed for port in compiled.outputs)


def test_a_run_goes_on_as_far_as_rows_allow_and_says_what_it_waits_for() -> None:
    run = Pushed(arriving_plan().file())
    assert run.waits_for == (NO_INPUT, 0)
    run.fill(1, U)
    assert run.begin() == MORE
    assert run.waits_for == (0, 2)
    assert run.push(0, X[:8], 1) == MORE
    assert run.waits_for == (0, 1)
    assert run.push(0, X[8:16], 1) == MORE
    assert run.outputs()[0][:16] == X[:16], "both rows came, so both were copied on"
    assert run.waits_for == (2, 1)
    assert run.push(2, Z[:4], 1) == MORE
    assert run.waits_for == (0, 2)
    assert run.push(0, X[16:], 2) == MORE
    assert run.push(2, Z[4:], 1) == OK
    assert run.outputs() == [X, U, Z]
    assert run.waits_for == (NO_INPUT, 0)


def test_a_refused_push_takes_no_row_and_the_run_goes_on() -> None:
    run = Pushed(arriving_plan().file())
    assert "before the run began" in run.refused(0, X, 1)
    run.fill(1, U)
    run.begin()
    assert "rows of another input" in run.refused(2, Z, 1)
    assert "rows of another input" in run.refused(1, U, 1), "input 1 is in memory as a whole"
    assert "rows of another input" in run.refused(7, U, 1)
    assert "rows of another input" in run.refused(NO_INPUT, U, 1)
    assert "more rows were pushed" in run.refused(0, X, 3)
    assert run.push(0, b"", 0) == MORE
    assert run.waits_for == (0, 2)
    steps = ((0, X[:16], 2), (2, Z[:4], 1), (0, X[16:], 2), (2, Z[4:], 1))
    assert [run.push(*step) for step in steps] == [MORE, MORE, MORE, OK]
    assert run.outputs() == [X, U, Z]
    assert "more rows were pushed" in run.refused(2, Z, 1)
    assert run.push(2, b"", 0) == OK


def test_a_run_can_be_begun_again_at_any_point() -> None:
    run = Pushed(arriving_plan().file())
    run.fill(1, U)
    run.begin()
    run.push(0, Z, 1)
    run.fill(1, U)
    assert run.begin() == MORE
    assert run.waits_for == (0, 2)


def test_pushed_rows_are_copied() -> None:
    run = Pushed(arriving_plan().file())
    run.fill(1, U)
    run.begin()
    row = ctypes.create_string_buffer(X[:8], 8)
    run.push(0, row, 1)
    ctypes.memset(row, 0xEE, 8)
    run.push(0, X[8:16], 1)
    assert run.outputs()[0][:16] == X[:16]


def test_two_contexts_of_one_plan_take_their_rows_independently() -> None:
    first, second = (Pushed(arriving_plan().file()) for _ in range(2))
    arena = second.compiled._fast
    second.library.stow_bind(second.context, first.compiled._plan, arena.address, arena.size_bytes, None, 0)
    for run in (first, second):
        run.fill(1, U)
        run.begin()
    first.push(0, X[:16], 2)
    assert (first.waits_for, second.waits_for) == ((2, 1), (0, 2))


def test_a_streamed_input_has_no_address_and_its_plan_is_not_invoked() -> None:
    run = Pushed(arriving_plan().file())
    assert [run.library.stow_input(run.context, i) is None for i in range(4)] == [True, False, True, True]
    assert runtime().text(run.library.stow_invoke(run.context)).startswith("its inputs arrive row by row")


def test_a_plan_without_streamed_inputs_may_be_begun_too() -> None:
    run = Pushed(copying_plan().file())
    run.fill(0, X)
    assert run.begin() == OK
    assert run.outputs() == [X]
    assert "rows of another input" in run.refused(0, X, 1)


def test_inputs_of_the_wrong_number_or_size_are_named() -> None:
    compiled = HostCompiled(arriving_plan().file())
    with pytest.raises(RuntimeFailure, match="2 inputs given, the model has 3"):
        compiled.run([X, U])
    with pytest.raises(RuntimeFailure, match="input x: 31 bytes given"):
        compiled.run([X[1:], U, Z])


def test_a_plan_that_takes_another_number_of_rows_than_the_input_has_is_refused() -> None:
    plan = arriving_plan()
    plan.firings[8] |= {"node": 0, "first": 0}  # the second stage takes row 0 of x where it should take row 1 of z
    with pytest.raises(PlanError, match="takes more rows than x has"):
        HostCompiled(plan.file()).run([X, U, Z])
    plan = arriving_plan()
    plan.firings[8] |= {"node": 4, "first": 1}  # and here it copies what never came
    with pytest.raises(PlanError, match="leaves rows of z untaken"):
        HostCompiled(plan.file()).run([X, U, Z])


def test_any_portions_of_rows_give_the_same_outputs() -> None:
    for seed in range(50):
        chooser, run = random.Random(seed), Pushed(arriving_plan().file())
        rest = {0: (X, 8), 2: (Z, 4)}
        run.fill(1, U)
        status = run.begin()
        while status == MORE:
            number, wanted = run.waits_for
            data, row_bytes = rest[number]
            count = chooser.randint(0, wanted)
            status = run.push(number, data[: count * row_bytes], count)
            rest[number] = data[count * row_bytes :], row_bytes
        assert run.outputs() == [X, U, Z]


BREAKS: dict[str, tuple[str, Callable[[Sketch], None]]] = {}
NODE = "a node refers to what it must not use"


def breaks(why: str) -> Callable[[Callable[[Sketch], None]], Callable[[Sketch], None]]:
    """Register a change to the arriving plan that must be refused with `why`."""

    def register(change: Callable[[Sketch], None]) -> Callable[[Sketch], None]:
        BREAKS[change.__name__] = (why, change)
        return change

    return register


@breaks(NODE)
def rows_of_one_input_at_two_nodes(plan: Sketch) -> None:
    plan.receive(0, 0)


@breaks(NODE)
def rows_in_another_buffer_than_the_ports(plan: Sketch) -> None:
    plan.nodes[0]["output"] = 3


@breaks(NODE)
def rows_of_an_output(plan: Sketch) -> None:
    plan.params[0] = 3
    plan.nodes[0]["output"] = 3


@breaks(NODE)
def rows_of_an_input_with_a_negative_number(plan: Sketch) -> None:
    plan.params[0] = -1


@breaks(NODE)
def rows_of_an_input_that_ports_do_not_have(plan: Sketch) -> None:
    plan.header["input_count"] = 0xFFFF
    plan.params[0] = 6


@breaks(NODE)
def rows_in_slow_memory(plan: Sketch) -> None:
    plan.header["slow_bytes"] = 32
    plan.buffers[0] |= {"pool": 1}


@breaks(NODE)
def an_arrival_that_reads_something(plan: Sketch) -> None:
    plan.operands.append(3)
    plan.nodes[0] |= {"input_count": 1}


@breaks(NODE)
def an_arrival_for_no_input_in_particular(plan: Sketch) -> None:
    plan.nodes[0]["param_count"] = 0


@breaks(NODE)
def an_arrival_with_fewer_units_than_rows(plan: Sketch) -> None:
    plan.nodes[0]["units"] = 3


@breaks(NODE)
def an_arrival_with_partial_sums(plan: Sketch) -> None:
    plan.nodes[0]["accumulator"] = 3


@breaks(NODE)
def arrivals_that_the_header_is_silent_about(plan: Sketch) -> None:
    plan.header["flags"] = 0


@breaks("an input or output is damaged")
def an_input_in_pieces_that_does_not_arrive(plan: Sketch) -> None:
    plan.ports[1] = {"tensor": plan.ports[2]["tensor"], "buffer": 2}
    plan.nodes[1] |= {"kind": 1, "input_count": 1, "first_input": 3, "param_count": 0}
    plan.operands.append(2)


@breaks("an input or output is damaged")
def a_streamed_input_of_another_size(plan: Sketch) -> None:
    plan.dims[1] = 3


@breaks("a firing is out of bounds")
def an_arrival_past_the_last_row(plan: Sketch) -> None:
    plan.firings[1]["count"] = 5


@pytest.mark.parametrize("name", BREAKS)
def test_refused(name: str) -> None:
    why, change = BREAKS[name]
    plan = arriving_plan()
    change(plan)
    with pytest.raises(PlanError, match=why):
        HostCompiled(plan.file())


def test_an_input_past_the_last_that_can_be_streamed_is_refused() -> None:
    plan = arriving_plan()
    most = layout.MAX_STREAMED_INPUTS
    plan.ports[1:1] = [plan.ports[1]] * (most - 2)  # x, u 31 times, z: input 32
    plan.header["input_count"] = most + 1
    plan.params[1] = most
    with pytest.raises(PlanError, match=NODE):
        HostCompiled(plan.file())
    del plan.ports[1]
    plan.header["input_count"] = most
    plan.params[1] = most - 1
    assert HostCompiled(plan.file()).run([X, *[U] * (most - 2), Z]) == [X, U, Z]
