"""Plans run on the host: what comes out, what is counted, and what is noticed when memory beside the arenas changes."""

from __future__ import annotations

import ctypes
import struct

import pytest

from stowplan.errors import InternalFault, PlanError, RuntimeFailure
from stowplan_backend_c import CBackend
from stowplan_backend_c.host import GUARD_BYTES, AlignedBytes, HostCompiled
from tiny_plans import averaging_plan, copying_plan

DATA = bytes(range(100, 132))


def test_rows_survive_a_spill_a_ring_and_a_table() -> None:
    with HostCompiled(copying_plan().file()) as compiled:
        assert compiled.run([DATA]) == [DATA]


def test_copies_between_the_pools_are_counted_for_each_run() -> None:
    compiled = CBackend().compile(copying_plan().file())
    for _ in range(2):
        _, metrics = compiled.run_with_metrics([DATA])
        assert (metrics.slow_read_bytes, metrics.slow_written_bytes) == (32, 32)
        assert metrics.duration_ns > 0


def test_ports_tell_name_shape_type_and_quantization() -> None:
    compiled = HostCompiled(copying_plan().file())
    (port,) = compiled.inputs
    assert (port.name, port.shape, port.dtype, port.size_bytes) == ("x", (1, 4, 4, 2), "int8", 32)
    assert (port.scale, port.zero_point) == (0.5, -3)
    assert [port.name for port in compiled.outputs] == ["y"]


def test_partial_sums_live_on_between_two_firings() -> None:
    x = struct.pack("<8f", 1, 10, 2, 20, 3, 30, 6, 40)
    (y,) = HostCompiled(averaging_plan().file()).run([x])
    assert struct.unpack("<2f", y) == (3.0, 25.0)


@pytest.mark.parametrize("poison", [0, 0xFF])
def test_a_row_that_was_never_written_shows_the_poison(poison: int) -> None:
    plan = copying_plan()
    plan.firings[-1]["count"] = 2  # row 3 of y is not gathered
    plan.buffers[4]["base"] = 32  # and lies where the ring never was: 32 + 24 is row 1 of the table
    plan.header["fast_bytes"] = 200
    plan.buffers[4]["base"] = 100
    (y,) = HostCompiled(plan.file(), poison).run([DATA])
    assert y == DATA[:24] + bytes([poison]) * 8


def test_each_run_starts_from_fresh_memory() -> None:
    plan = copying_plan()
    plan.firings = plan.firings[1:]  # nothing is spilled, so slow memory holds nothing but poison
    plan.stages[0]["firing_count"] = 0
    plan.stages[1]["first_firing"] = 0
    compiled = HostCompiled(plan.file(), 0x11)
    assert compiled.run([DATA]) == compiled.run([DATA]) == [b"\x11" * 32]


def test_inputs_of_the_wrong_number_or_size_are_named() -> None:
    compiled = HostCompiled(copying_plan().file())
    with pytest.raises(RuntimeFailure, match="2 inputs given, the model has 1"):
        compiled.run([DATA, DATA])
    with pytest.raises(RuntimeFailure, match="input x: 31 bytes given, 1x4x4x2 int8 has 32 bytes"):
        compiled.run([DATA[:-1]])


def test_a_closed_model_says_so_and_closes_twice() -> None:
    compiled = HostCompiled(copying_plan().file())
    compiled.close()
    compiled.close()
    with pytest.raises(RuntimeFailure, match="closed"):
        compiled.run([DATA])


@pytest.mark.parametrize("size", [0, 1, 15, 16, 17, 1000])
def test_a_byte_written_beside_an_arena_is_an_internal_fault(size: int) -> None:
    memory = AlignedBytes(size, "fast arena")
    assert memory.address % 16 == 0
    memory.fill(0xA5)
    memory.check()
    for offset, words in ((-1, "in front of the fast arena"), (-GUARD_BYTES, "in front"), (size, "past the end")):
        before = ctypes.string_at(memory.address + offset, 1)
        ctypes.memset(memory.address + offset, before[0] ^ 1, 1)
        with pytest.raises(InternalFault, match=words):
            memory.check()
        ctypes.memmove(memory.address + offset, before, 1)
    memory.check()


def test_a_plan_that_wants_all_memory_is_refused_before_it_gets_any() -> None:
    plan = copying_plan()
    plan.header["fast_bytes"] = 0x7FFFFFFF
    with pytest.raises(RuntimeFailure, match="2147483703 bytes of memory"):
        HostCompiled(plan.file())


def test_every_truncation_and_every_changed_byte_is_one_plan_error() -> None:
    data = copying_plan().file()
    for at in range(len(data)):
        for damaged in (data[:at], data[:at] + bytes([data[at] ^ 0x10]) + data[at + 1 :]):
            with pytest.raises(PlanError) as caught:
                HostCompiled(damaged)
            assert "\n" not in str(caught.value)


def test_a_poison_that_is_no_byte_is_refused() -> None:
    with pytest.raises(RuntimeFailure, match="poison"):
        HostCompiled(copying_plan().file(), 256)
