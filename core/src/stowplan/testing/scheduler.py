"""What every scheduler has to hold; core's independent checker judges the schedules."""

from __future__ import annotations

from collections.abc import Iterator

from stowplan.errors import DoesNotFit, StowplanError, UnsupportedError, UsageError
from stowplan.flow.graph import Graph
from stowplan.flow.schedule import Schedule
from stowplan.flow.target import Pool, Target
from stowplan.plugins.kinds import ScheduleOptions
from stowplan.testing import samples
from stowplan.testing.conformance import Conformance
from stowplan.testing.faults import Fault, skip
from stowplan.testing.graphs import GRAPHS

UNLIMITED = Target(pools=(Pool(name="fast", size_bytes=None),))
STAGE_BYTES = 100


def target(*sizes: int | None) -> Target:
    return Target(
        pools=tuple(Pool(name=name, size_bytes=size) for name, size in zip(("fast", "slow"), sizes, strict=False))
    )


class SchedulerConformance(Conformance):
    """`supports_streamed_inputs`: whether rows of inputs may arrive while the plan runs."""

    kind = "scheduler"
    supports_streamed_inputs: bool | None = None

    def scheduled(self, graph: Graph, onto: Target = UNLIMITED, options: ScheduleOptions | None = None) -> Schedule:
        """Return a checked schedule. Raises `Fault` for anything but one; a refusal goes through to the caller."""
        call, before = f"schedule({graph.name})", samples.snapshot(graph)
        allowed = (DoesNotFit, UnsupportedError, UsageError)
        found = self.ask(call, self.record.schedule, graph, onto, options or ScheduleOptions(), allow=allowed)
        if samples.snapshot(graph) != before:
            raise Fault(f"{call} changed its input graph. Return a new Schedule and leave the graph alone.")
        if not isinstance(found, Schedule):
            raise Fault(f"{call} returned {type(found).__name__}. Return a stowplan.flow.schedule.Schedule.")
        self.verified(call, graph, found)
        return found

    def verified(self, call: str, graph: Graph, schedule: Schedule) -> None:
        from stowplan.build.verify import verify

        try:
            verify(graph, schedule)
        except StowplanError as err:
            raise Fault(f"{call}: {err}. Such a plan would give wrong answers.") from err

    def answers(self) -> Iterator[str]:
        for name, make in GRAPHS.items():
            yield f"{name}: {samples.digest(repr(self.scheduled(make())).encode())}"

    def test_schedules_every_graph_of_the_kit_soundly(self) -> None:
        for make in GRAPHS.values():
            self.scheduled(make())

    def test_says_which_graph_target_and_scheduler_a_schedule_is_of(self) -> None:
        for make in GRAPHS.values():
            graph = make()
            found = self.scheduled(graph)
            if found.target != UNLIMITED:
                raise Fault(f"schedule({graph.name}) is of another target than it was asked for. Pass the target on.")
            if self.record.name not in found.scheduler.split():
                raise Fault(f'schedule({graph.name}) names its scheduler "{found.scheduler}". Write name and version.')

    def test_the_least_budget_it_asks_for_is_enough(self) -> None:
        for make in GRAPHS.values():
            needed = self.scheduled(make()).pool_bytes[0]
            try:
                found = self.scheduled(make(), target(needed))
            except DoesNotFit as err:
                raise Fault(
                    f"schedule({make().name}) takes {needed} bytes, and refuses a budget of {needed}: {err}."
                ) from err
            if found.pool_bytes[0] > needed:
                raise Fault(f"schedule({make().name}) takes {found.pool_bytes[0]} bytes of a budget of {needed}.")

    def test_refuses_a_budget_that_is_too_small_and_says_why(self) -> None:
        for make in GRAPHS.values():
            try:
                self.scheduled(make(), target(8))
            except DoesNotFit as err:
                if not str(err).strip() or "\n" in str(err):
                    raise Fault(
                        f"schedule({make().name}) refuses 8 bytes with {str(err)!r}. Say what needs what."
                    ) from err
                continue
            except StowplanError as err:
                raise Fault(
                    f"schedule({make().name}) refuses 8 bytes by {type(err).__name__}. Raise DoesNotFit."
                ) from err
            raise Fault(f"schedule({make().name}) claims to fit 8 bytes.")

    def test_states_true_peaks(self) -> None:
        for make in GRAPHS.values():
            found = self.scheduled(make())
            for pool, (needed, alive) in enumerate(zip(found.pool_bytes, found.live_peak_bytes, strict=True)):
                used = max((o + b.row_bytes for b in found.buffers if b.pool == pool for o in b.offsets), default=0)
                if alive > needed or needed < used:
                    raise Fault(
                        f"schedule({make().name}) states {needed} bytes for pool {pool} with {alive} alive at once; "
                        f"its rows reach to {used}. State what it uses."
                    )

    def test_takes_no_more_than_every_tensor_by_itself(self) -> None:
        for make in GRAPHS.values():
            graph = make()
            apart = sum(-(-t.size_bytes // 16) * 16 for t in graph.tensors if t.constant is None)
            if self.scheduled(graph).pool_bytes[0] > apart:
                raise Fault(f"schedule({graph.name}) takes more than all its tensors side by side ({apart} bytes).")

    def test_same_graph_same_schedule_whatever_came_before(self) -> None:
        alone = {name: self.scheduled(make()) for name, make in GRAPHS.items()}
        for name, make in reversed(list(GRAPHS.items())):
            if self.scheduled(make()) != alone[name]:
                raise Fault(f"schedule({name}) differs the second time. Keep no state between calls, and use no clock.")

    def test_keeps_what_is_reserved_for_weights_free(self) -> None:
        for make in GRAPHS.values():
            found = self.scheduled(make(), options=ScheduleOptions(weights_reserved_bytes=64))
            low = min(o for b in found.buffers if b.pool == 0 for o in b.offsets)
            if low < 64 or found.weights_reserved_bytes != 64:
                raise Fault(
                    f"schedule({make().name}) was asked to keep 64 bytes free for weights, puts a row at {low} and "
                    f"states {found.weights_reserved_bytes}. Start above options.weights_reserved_bytes and state it."
                )

    def test_stages_hold_no_more_weights_than_asked(self) -> None:
        from stowplan.build.planning import stages_of_nodes

        for make in GRAPHS.values():
            graph = make()
            found = self.scheduled(graph, options=ScheduleOptions(stage_weight_bytes=STAGE_BYTES))
            stages: dict[int, list[int]] = {}
            for node, stage in zip(found.nodes, stages_of_nodes(found), strict=True):
                if node.operator is not None:
                    constants = (
                        t for t in graph.operators[node.operator].inputs if t >= 0 and not graph.is_activation(t)
                    )
                    size = sum(graph.tensors[t].size_bytes for t in constants)
                    stages.setdefault(stage, []).extend([size] if size else [])
            for number, sizes in stages.items():
                if len(sizes) > 1 and sum(sizes) > STAGE_BYTES:
                    raise Fault(
                        f"schedule({graph.name}): stage {number} has {sum(sizes)} bytes of weights of {len(sizes)} "
                        f"operators; options.stage_weight_bytes allows {STAGE_BYTES}. Begin another region."
                    )

    def test_streams_inputs_or_refuses_to(self) -> None:
        graph = GRAPHS["window"]()
        options = ScheduleOptions(streamed_inputs=graph.inputs)
        try:
            found = self.scheduled(graph, options=options)
        except StowplanError as err:
            if self.supports_streamed_inputs:
                raise Fault(
                    f"schedule({graph.name}) with a streamed input: {err}. supports_streamed_inputs is True."
                ) from err
            skip(f"refuses streamed inputs: {err}")
        if set(found.streamed) != set(graph.inputs):
            raise Fault(
                f"schedule({graph.name}) was asked to stream its input and keeps it in memory. Give it a node without "
                "operator and inputs whose units are its rows, or raise UsageError."
            )
        if self.supports_streamed_inputs is False:
            raise Fault("it streams inputs, and supports_streamed_inputs is False. Remove that line.")
