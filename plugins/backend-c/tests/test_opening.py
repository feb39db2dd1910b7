"""A plan that could make the runtime misbehave is refused when it is opened, for the right reason."""

from __future__ import annotations

import ctypes
from collections.abc import Callable

import pytest

from stowplan.errors import PlanError
from stowplan.planfile import layout
from stowplan_backend_c.binding import runtime
from stowplan_backend_c.host import AlignedBytes, HostCompiled
from tiny_plans import NONE_16, NONE_32, Sketch, averaging_plan, copying_plan

BREAKS: dict[str, tuple[str, Callable[[Sketch], None]]] = {}


def breaks(why: str) -> Callable[[Callable[[Sketch], None]], Callable[[Sketch], None]]:
    """Register a change to the copying plan that must be refused with `why`."""

    def register(change: Callable[[Sketch], None]) -> Callable[[Sketch], None]:
        BREAKS[change.__name__] = (why, change)
        return change

    return register


def opened(data: bytes) -> str:
    """Return what the runtime says of these bytes; they lie in memory of exactly their size."""
    memory = AlignedBytes(len(data), "plan")
    ctypes.memmove(memory.address, data, len(data))
    status = runtime().library.stow_open(runtime().new_plan(), memory.address, len(data))
    memory.check()
    return runtime().text(status)


HEADER = "header makes no sense"
BUFFER = "a buffer is out of bounds or misaligned"
NODE = "a node refers to what it must not use"
FIRING = "a firing is out of bounds"
STAGE = "the stages do not follow each other"
PORT = "an input or output is damaged"
TENSOR = "a tensor is damaged"
CONSTANT = "a constant is out of bounds"
BLOCK = "a compressed block is out of bounds"
SECTION = "a section is missing, doubled or out of bounds"


@breaks("made for another version")
def a_newer_major_version(plan: Sketch) -> None:
    plan.header["version_major"] = 2


@breaks("made for another version")
def a_newer_minor_version_with_an_unknown_flag(plan: Sketch) -> None:
    plan.header |= {"version_minor": layout.VERSION_MINOR + 1, "flags": 1 << 20}


@breaks(HEADER)
def an_unknown_flag_in_a_known_version(plan: Sketch) -> None:
    plan.header |= {"version_minor": layout.VERSION_MINOR, "flags": 1 << 20}


@breaks(NODE)
def a_plan_without_arrivals_that_says_it_has_some(plan: Sketch) -> None:
    plan.header["flags"] = layout.FLAG_STREAMED


@breaks(HEADER)
def an_alignment_that_is_no_power_of_two(plan: Sketch) -> None:
    plan.header["alignment_bytes"] = 12


@breaks(HEADER)
def an_alignment_of_zero(plan: Sketch) -> None:
    plan.header["alignment_bytes"] = 0


@breaks(HEADER)
def more_reserved_than_there_is(plan: Sketch) -> None:
    plan.header["reserved_bytes"] = 81


@breaks(HEADER)
def an_arena_beyond_signed_32_bits(plan: Sketch) -> None:
    plan.header["fast_bytes"] = 1 << 31


@breaks("shorter than its header states")
def a_file_size_beyond_the_file(plan: Sketch) -> None:
    plan.header["file_bytes"] = 1 << 20


@breaks("shorter than its header states")
def a_file_size_below_a_header(plan: Sketch) -> None:
    plan.header["file_bytes"] = 143


@breaks(SECTION)
def a_directory_longer_than_the_file(plan: Sketch) -> None:
    plan.header["section_count"] = 0xFFFFFFFF


@breaks(SECTION)
def a_missing_section(plan: Sketch) -> None:
    plan.leave_out = {"stages"}


@breaks(SECTION)
def a_section_that_is_there_twice(plan: Sketch) -> None:
    end = 144 + 15 * 16
    plan.directory = [(1, end, 0, 0)] * 15


@breaks(SECTION)
def a_section_with_more_records_than_bytes(plan: Sketch) -> None:
    plan.directory = [(1, 144 + 15 * 16, 20, 2)] * 15


@breaks("names are damaged")
def names_without_an_end(plan: Sketch) -> None:
    plan.strings = plan.strings[:-1]


@breaks("names are damaged")
def a_model_name_past_all_names(plan: Sketch) -> None:
    plan.header["name"] = len(plan.strings)


@breaks(TENSOR)
def a_tensor_name_past_all_names(plan: Sketch) -> None:
    plan.tensors[1]["name"] = len(plan.strings)


@breaks(TENSOR)
def dims_past_the_end(plan: Sketch) -> None:
    plan.tensors[1]["first_dim"] = 5


@breaks(TENSOR)
def dims_whose_end_wraps(plan: Sketch) -> None:
    plan.tensors[1]["first_dim"] = 0xFFFFFFFE


@breaks(TENSOR)
def an_unknown_type(plan: Sketch) -> None:
    plan.tensors[0]["dtype"] = 9


@breaks(TENSOR)
def a_tensor_of_a_size_that_wraps(plan: Sketch) -> None:
    plan.dims[:4] = [1 << 16] * 4


@breaks(BUFFER)
def a_buffer_one_byte_too_far(plan: Sketch) -> None:
    plan.buffers[0]["base"] = 56  # 56 + 32 > 80


@breaks(BUFFER)
def a_base_that_wraps(plan: Sketch) -> None:
    plan.buffers[0]["base"] = 0xFFFFFFF8


@breaks(BUFFER)
def a_ring_that_is_too_high(plan: Sketch) -> None:
    plan.buffers[2] |= {"height": 4, "base": 56}


@breaks(BUFFER)
def a_ring_without_height(plan: Sketch) -> None:
    plan.buffers[2]["height"] = 0


@breaks(BUFFER)
def a_stride_that_overlaps_rows(plan: Sketch) -> None:
    plan.buffers[2]["stride"] = 4


@breaks(BUFFER)
def a_stride_that_wraps(plan: Sketch) -> None:
    plan.buffers[1]["stride"] = 0x80000000


@breaks(BUFFER)
def rows_in_the_slow_pool_past_its_end(plan: Sketch) -> None:
    plan.header["slow_bytes"] = 55


@breaks(BUFFER)
def a_table_past_the_end(plan: Sketch) -> None:
    plan.buffers[3]["base"] = 1


@breaks(BUFFER)
def a_table_entry_past_the_pool(plan: Sketch) -> None:
    plan.row_offsets[2] = 76


@breaks(BUFFER)
def a_table_entry_out_of_line(plan: Sketch) -> None:
    plan.row_offsets[2] = 62


@breaks(BUFFER)
def a_misaligned_ring(plan: Sketch) -> None:
    plan.buffers[2]["base"] = 34


@breaks(BUFFER)
def rows_in_the_room_for_weights(plan: Sketch) -> None:
    plan.header["reserved_bytes"] = 16


@breaks(BUFFER)
def a_buffer_without_rows(plan: Sketch) -> None:
    plan.buffers[2]["rows"] = 0


@breaks(BUFFER)
def a_buffer_of_a_size_that_wraps(plan: Sketch) -> None:
    plan.buffers[2] |= {"rows": 1 << 30, "row_bytes": 8}


@breaks(BUFFER)
def an_unknown_pool(plan: Sketch) -> None:
    plan.buffers[2]["pool"] = 3


@breaks(BUFFER)
def an_unknown_buffer_flag(plan: Sketch) -> None:
    plan.buffers[2]["flags"] = 8


@breaks(BUFFER)
def an_activation_without_a_tensor(plan: Sketch) -> None:
    plan.buffers[2]["tensor"] = NONE_16


@breaks(BUFFER)
def a_contiguous_buffer_with_gaps(plan: Sketch) -> None:
    plan.buffers[1]["flags"] = layout.BUFFER_CONTIGUOUS


@breaks(BUFFER)
def a_constant_that_does_not_exist(plan: Sketch) -> None:
    plan.buffers[2] |= {"pool": 2, "tensor": NONE_16, "base": 0}


@breaks(CONSTANT)
def a_constant_past_the_weights(plan: Sketch) -> None:
    plan.constant(bytes(16))
    plan.constants[0]["size_bytes"] = 17


@breaks(CONSTANT)
def a_misaligned_constant(plan: Sketch) -> None:
    plan.constant(bytes(32))
    plan.constants[0] |= {"offset_bytes": 8, "size_bytes": 8}


@breaks(CONSTANT)
def a_constant_in_a_block_that_does_not_exist(plan: Sketch) -> None:
    plan.constant(bytes(16), block=0)


@breaks(BLOCK)
def a_block_past_the_weights(plan: Sketch) -> None:
    plan.blocks.append({"offset_bytes": 0, "packed_bytes": 1, "unpacked_bytes": 0})


@breaks(BLOCK)
def a_block_larger_than_the_room_for_it(plan: Sketch) -> None:
    plan.blocks.append({"offset_bytes": 0, "packed_bytes": 0, "unpacked_bytes": 1})


@breaks(BLOCK)
def a_block_in_a_plan_that_says_it_has_none(plan: Sketch) -> None:
    plan.blocks.append({"offset_bytes": 0, "packed_bytes": 0, "unpacked_bytes": 0})
    plan.header["flags"] = 0


@breaks(NODE)
def a_node_without_a_place_for_its_output(plan: Sketch) -> None:
    plan.nodes[1]["output"] = 5


@breaks(NODE)
def a_node_that_writes_to_a_constant(plan: Sketch) -> None:
    plan.constant(bytes(32))
    plan.nodes[1]["output"] = plan.ring(NONE_16, 4, 8, 0, pool=2)


@breaks(NODE)
def an_operand_that_does_not_exist(plan: Sketch) -> None:
    plan.operands[1] = 5


@breaks(NODE)
def operands_past_the_end(plan: Sketch) -> None:
    plan.nodes[3]["first_input"] = 4


@breaks(NODE)
def nodes_that_share_their_operands(plan: Sketch) -> None:
    plan.nodes.append(dict(plan.nodes[3]))


@breaks(NODE)
def params_past_the_end(plan: Sketch) -> None:
    plan.nodes[0]["first_param"] = 1


@breaks(NODE)
def more_units_than_rows(plan: Sketch) -> None:
    plan.nodes[0]["units"] = 5


@breaks(NODE)
def a_node_in_a_block_that_does_not_exist(plan: Sketch) -> None:
    plan.nodes[0]["block"] = 0


@breaks(NODE)
def an_unknown_node_flag(plan: Sketch) -> None:
    plan.nodes[0]["flags"] = 2


@breaks("no kernel for a node")
def a_node_of_unknown_kind(plan: Sketch) -> None:
    plan.nodes[0]["kind"] = 255


@breaks("a kernel refuses the parameters")
def copies_of_different_sizes(plan: Sketch) -> None:
    plan.buffers[1]["row_bytes"] = 4


@breaks(FIRING)
def a_firing_of_a_node_that_does_not_exist(plan: Sketch) -> None:
    plan.firings[0]["node"] = 4


@breaks(FIRING)
def a_firing_past_the_last_unit(plan: Sketch) -> None:
    plan.firings[0]["first"] = 1


@breaks(FIRING)
def a_firing_of_nothing(plan: Sketch) -> None:
    plan.firings[0]["count"] = 0


@breaks(STAGE)
def a_gap_between_stages(plan: Sketch) -> None:
    plan.stages[1] |= {"first_firing": 2, "firing_count": 5}


@breaks(STAGE)
def firings_after_the_last_stage(plan: Sketch) -> None:
    plan.stages[1]["firing_count"] = 5


@breaks(STAGE)
def a_stage_past_the_last_firing(plan: Sketch) -> None:
    plan.stages[1]["firing_count"] = 7


@breaks(STAGE)
def a_stage_with_a_block_that_does_not_exist(plan: Sketch) -> None:
    plan.stages[0]["block"] = 0


@breaks(PORT)
def more_ports_than_the_header_says(plan: Sketch) -> None:
    plan.header["output_count"] = 2


@breaks(PORT)
def an_output_kept_with_gaps(plan: Sketch) -> None:
    plan.ports[1]["buffer"] = 1


@breaks(PORT)
def an_output_kept_in_a_ring(plan: Sketch) -> None:
    plan.ports[1]["buffer"] = 2


@breaks(PORT)
def a_port_whose_tensor_has_another_size(plan: Sketch) -> None:
    plan.dims[1] = 3


@breaks("it would run for too long")
def firings_that_would_take_hours(plan: Sketch) -> None:
    """16 rows of 64 MiB in rings of one row, copied 700 times: 2^40 bytes and more out of a small file."""
    for buffer in plan.buffers[1:3]:
        buffer |= {"rows": 16, "row_bytes": 1 << 26, "stride": 1 << 26, "height": 1, "base": 0}
    plan.header |= {"fast_bytes": (1 << 26) + 64, "slow_bytes": 1 << 26}
    plan.nodes = [plan.nodes[1] | {"units": 16}]
    plan.firings = [{"node": 0, "first": 0, "count": 16}] * 700
    plan.stages = [plan.stages[0] | {"firing_count": 700}]


@pytest.mark.parametrize("name", BREAKS)
def test_refused(name: str) -> None:
    why, change = BREAKS[name]
    plan = copying_plan()
    change(plan)
    assert why in opened(plan.file())


def test_the_unbroken_plans_open() -> None:
    assert opened(copying_plan().file()) == opened(averaging_plan().file()) == "no error"


def test_an_input_row_firing_without_partial_sums_must_be_whole() -> None:
    plan = averaging_plan()
    plan.nodes[0]["accumulator"] = NONE_16
    assert FIRING in opened(plan.file())
    plan.stages, plan.firings = [], []
    plan.stage((0, 0, 4))
    assert opened(plan.file()) == "no error"


@pytest.mark.parametrize("change", [{"accumulator": 2}, {"accumulator": 3}, {"units": 3}, {"flags": 0}])
def test_partial_sums_and_units_must_belong_together(change: dict[str, int]) -> None:
    plan = averaging_plan()
    plan.nodes[0] |= change
    assert NODE in opened(plan.file())


def test_a_node_may_use_only_the_block_of_its_stage() -> None:
    """Of two blocks of 256 bytes, block 1 has the table of a node: fired in block 0's stage it would read garbage."""
    plan = copying_plan()
    for buffer in (*plan.buffers[:1], *plan.buffers[2:3], plan.buffers[4]):
        buffer["base"] += 256
    plan.row_offsets = [offset + 256 for offset in plan.row_offsets]
    plan.header |= {"fast_bytes": 80 + 256, "reserved_bytes": 256}
    plan.blocks = [{"offset_bytes": 0, "packed_bytes": 0, "unpacked_bytes": 256} for _ in range(2)]
    plan.constants = [{"offset_bytes": 0, "size_bytes": 256, "block": 1}]
    table = plan.node("table_s8", [0], 4, (0,), block=1)
    plan.stage((table, 0, 4), block=1)
    assert opened(plan.file()) == "no error"
    plan.stages[-1]["block"] = 0
    assert FIRING in opened(plan.file())
    plan.stages[-1]["block"] = 1
    plan.nodes[table]["block"] = NONE_16
    assert "a kernel refuses" in opened(plan.file())
    plan.constants[0]["block"] = NONE_32
    assert CONSTANT in opened(plan.file())


def test_every_truncation_is_refused() -> None:
    data = copying_plan().file()
    for size in range(len(data)):
        said = opened(data[:size])
        assert said in ("not a plan", "shorter than its header states"), size


def test_a_later_minor_version_without_unknown_flags_opens() -> None:
    plan = copying_plan()
    plan.header["version_minor"] = 7
    assert opened(plan.file()) == "no error"


def test_a_plan_in_a_larger_partition_opens() -> None:
    assert opened(copying_plan().file() + bytes(1000)) == "no error"


def test_a_misaligned_plan_is_refused() -> None:
    data = copying_plan().file()
    memory = AlignedBytes(len(data) + 16, "plan")
    ctypes.memmove(memory.address + 4, data, len(data))
    status = runtime().library.stow_open(runtime().new_plan(), memory.address + 4, len(data))
    assert runtime().text(status) == "plan or arena is not at a multiple of 16 bytes"


def test_arenas_that_are_small_misaligned_or_missing_are_refused() -> None:
    data = copying_plan().file()
    compiled = HostCompiled(data)
    library, context = runtime().library, runtime().new_context()
    fast, slow = compiled._fast.address, compiled._slow.address

    def bound(*arenas: int | None) -> str:
        return runtime().text(library.stow_bind(context, compiled._plan, *arenas))

    assert bound(fast, 80, slow, 56) == "no error"
    assert bound(fast, 79, slow, 56) == "an arena is smaller than the plan needs"
    assert bound(fast, 80, slow, 55) == "an arena is smaller than the plan needs"
    assert bound(fast, 80, None, 56) == "an arena is smaller than the plan needs"
    assert bound(fast + 8, 80, slow, 56) == "plan or arena is not at a multiple of 16 bytes"


def test_a_refusal_names_the_reason_and_the_record() -> None:
    plan = copying_plan()
    plan.nodes[2]["output"] = 9
    with pytest.raises(PlanError, match=r"a node refers to what it must not use \(record 2\)"):
        HostCompiled(plan.file())


def test_every_status_has_words_of_its_own() -> None:
    texts = [runtime().text(status) for status in range(30)]
    assert len(set(texts)) == len(texts)
    assert runtime().text(30) == "unknown status"
