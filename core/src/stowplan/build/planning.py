"""From a graph and a target to a plan: schedule, lower, check, and pack weights for the stages they are used in."""

from __future__ import annotations

from stowplan.build.lower import Lowered, lower
from stowplan.build.rows import Layout
from stowplan.build.tiling import TiledGraph
from stowplan.build.verify import checked_tiling, verify
from stowplan.errors import DoesNotFit, PluginError, UnsupportedError
from stowplan.flow.graph import Graph
from stowplan.flow.model import Model
from stowplan.flow.plan import Block, Plan
from stowplan.flow.schedule import Node, Schedule, Tile
from stowplan.flow.target import Target
from stowplan.nouns import dataclass, field, replace
from stowplan.planfile.constants import ConstantPool, constants_of
from stowplan.planfile.layout import DECODERS
from stowplan.plugins.kinds import Compressor, ScheduleOptions, Scheduler
from stowplan.units import format_size


@dataclass(frozen=True, kw_only=True)
class PlanOptions:
    """What is kept in the plan beside what the schedule says, and what `schedule` is asked for."""

    xip: bool = False
    keep_names: bool = False
    provenance: tuple[tuple[str, object], ...] = ()
    schedule: ScheduleOptions = field(default_factory=ScheduleOptions)


class Lowering:
    """The lowered operators of one graph, each computed once however many schedules are tried."""

    def __init__(self, graph: Graph, tiling: TiledGraph | None = None) -> None:
        self.graph, self.tiling = graph, tiling
        self.turns = dict(tiling.turns) if tiling else {}
        self.layout = Layout(graph)
        self._done: dict[int, Lowered] = {}
        self._tiled: dict[tuple[Tile, ...], Lowering] = {}

    def of(self, schedule: Schedule) -> Lowering:
        """Return the lowered operators that a schedule names: of this graph, or of the one its tiles make of it.

        Raises `ScheduleFault` when there are no such tiles, `TilingFault` when the tiled graph computes something else.
        """
        if not schedule.tiles:
            return self
        if schedule.tiles not in self._tiled:
            tiling = checked_tiling(self.graph, schedule.tiles)
            self._tiled[schedule.tiles] = Lowering(tiling.graph, tiling)
        return self._tiled[schedule.tiles]

    def operator(self, index: int) -> Lowered:
        if index not in self._done:
            if self.layout.is_view(self.graph.operators[index]):
                return COPY
            self._done[index] = lower(self.graph, self.layout, index)
        return self._done[index]

    def nodes(self, schedule: Schedule) -> tuple[Lowered, ...]:
        return tuple(self._node(schedule, node) for node in schedule.nodes)

    def _node(self, schedule: Schedule, node: Node) -> Lowered:
        if node.is_arrival:
            tensor = schedule.buffers[node.output].tensor
            number = self.graph.entries.index(self.turns.get(tensor, tensor))
            return Lowered(kind="receive", params={"input": number})
        return COPY if node.operator is None else self.operator(node.operator)

    def block(self, schedule: Schedule, nodes: list[int]) -> ConstantPool:
        """Return the constants of some nodes as they would lie in one block."""
        pool = ConstantPool()
        for index in nodes:
            operator = schedule.nodes[index].operator
            if operator is None:
                continue
            for data in constants_of(self.operator(operator), self.graph.operators[operator], self.graph):
                pool.add(data)
        return pool


def _copy() -> Lowered:
    from stowplan.build.lower import Operand

    return Lowered(kind="copy", operands=(Operand(position=0),))


COPY = _copy()


def stages_of_nodes(schedule: Schedule) -> tuple[int, ...]:
    """Return the stage in which each node runs. A node runs in one stage only."""
    stages = [0] * len(schedule.nodes)
    for number, region in enumerate(schedule.regions):
        for firing in schedule.firings[region.first : region.last]:
            stages[firing.node] = number
    return tuple(stages)


def plan_uncompressed(
    model: Model, lowering: Lowering, target: Target, scheduler: Scheduler, options: PlanOptions
) -> Plan:
    """Return a checked plan whose weights lie in it as they are. Raises `DoesNotFit`."""
    schedule = scheduler.schedule(lowering.graph, target, options.schedule)
    return make_plan(model, lowering, schedule, options)


def make_plan(model: Model, lowering: Lowering, schedule: Schedule, options: PlanOptions) -> Plan:
    """Return the plan of a schedule. Raises `ScheduleFault` when the checker refuses it, `PluginError` when it
    streams other inputs than its scheduler was asked to.
    """
    tiled = lowering.of(schedule)
    verify(lowering.graph, schedule, tiled.tiling)
    _check_streamed(lowering.graph, schedule, options.schedule)
    return Plan(
        model_digest=model.digest,
        graph=tiled.graph,
        schedule=schedule,
        lowered=tiled.nodes(schedule),
        stage_of_node=stages_of_nodes(schedule),
        xip=options.xip,
        keep_names=options.keep_names,
        provenance=dict(options.provenance),
    )


def _check_streamed(graph: Graph, schedule: Schedule, asked: ScheduleOptions) -> None:
    wrong = set(asked.streamed_inputs) ^ set(schedule.streamed)
    if not wrong:
        return
    names = ", ".join(graph.tensors[tensor].name for tensor in sorted(wrong))
    if wrong & set(schedule.streamed):
        raise PluginError(f"scheduler {schedule.scheduler} streams {names} without being asked; please tell its author")
    raise PluginError(
        f"scheduler {schedule.scheduler} cannot stream inputs: {names} would lie in memory as a whole. "
        "Choose another --scheduler, or go without --stream-input"
    )


def plan_compressed(
    model: Model,
    lowering: Lowering,
    target: Target,
    scheduler: Scheduler,
    options: PlanOptions,
    compressor: Compressor,
) -> Plan:
    """Return a checked plan with each stage's weights packed, and room in fast memory for the largest of them.

    One block is unpacked at a time, to the start of the fast arena, so activations get what the largest block leaves.
    Fewer and larger stages need more of it: the stages' weights are limited further and further until all fits.
    Raises `DoesNotFit` when even one operator's weights at a time are too many.
    """
    total = sum(len(data) for data in lowering.graph.constants.values())
    limit, smallest, cause = total, None, None
    while True:
        found = _reserve(lowering, target, scheduler, replace(options.schedule, stage_weight_bytes=limit))
        if isinstance(found, Schedule):
            return packed(make_plan(model, lowering, found, options), lowering, compressor)
        reserved, cause = found
        smallest = reserved if smallest is None else min(smallest, reserved)
        if limit < 64:
            break
        limit //= 2
    budget = target.fast.size_bytes or 0
    if smallest >= budget:
        raise DoesNotFit(
            f"decompressed weights need {format_size(smallest)} of fast memory, the budget is {format_size(budget)}",
            needed_bytes=smallest,
            budget_bytes=budget,
        )
    raise DoesNotFit(
        f"decompressed weights need {format_size(smallest)} of fast memory; beside them: {cause.cause}",
        needed_bytes=cause.needed_bytes,
        budget_bytes=budget,
    )


def _reserve(
    lowering: Lowering, target: Target, scheduler: Scheduler, options: ScheduleOptions
) -> Schedule | tuple[int, DoesNotFit]:
    """Schedule with stages whose weights are limited by the options, and with their largest block reserved.

    The block is known only once the stages are; with room reserved the stages can only get smaller, so this settles.
    """
    unlimited = replace(target, pools=(replace(target.fast, size_bytes=None), *target.pools[1:]))
    reserved = _largest_block(lowering, scheduler.schedule(lowering.graph, unlimited, options))
    for _ in range(4):
        try:
            asked = replace(options, weights_reserved_bytes=reserved)
            schedule = scheduler.schedule(lowering.graph, target, asked)
        except DoesNotFit as err:
            return reserved, err
        largest = _largest_block(lowering, schedule)
        if largest <= reserved:
            return schedule
        reserved = largest
    return reserved, DoesNotFit("the stages do not settle")


def _largest_block(lowering: Lowering, schedule: Schedule) -> int:
    tiled = lowering.of(schedule)
    return max((tiled.block(schedule, nodes).size_bytes for nodes in _nodes_by_stage(schedule)), default=0)


def _nodes_by_stage(schedule: Schedule) -> list[list[int]]:
    groups: list[list[int]] = [[] for _ in schedule.regions]
    for node, stage in enumerate(stages_of_nodes(schedule)):
        groups[stage].append(node)
    return groups


def packed(plan: Plan, lowering: Lowering, compressor: Compressor) -> Plan:
    """Return a plan with the weights of each stage packed into a block. Raises `UnsupportedError`."""
    if compressor.name not in DECODERS:
        raise UnsupportedError(
            f"-c {compressor.name}: the C runtime has no decoder of that name and could not unpack the weights; "
            f"it has those of {' and '.join(DECODERS)}"
        )
    blocks: list[Block | None] = []
    tiled = lowering.of(plan.schedule)
    for nodes in _nodes_by_stage(plan.schedule):
        data = tiled.block(plan.schedule, nodes).bytes()
        blocks.append(Block(packed=compressor.compress(data), unpacked_bytes=len(data)) if data else None)
    return replace(plan, blocks=tuple(blocks), compressor=compressor.name)
