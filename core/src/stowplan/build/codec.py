"""Facts and schedules as plain data and back: what the cache keeps of a compilation beside the plan's bytes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from stowplan.build.facts import AliveFact, Facts, PortFact, StageFact, TrialFact
from stowplan.cli.output import plain

if TYPE_CHECKING:
    from stowplan.flow.graph import Graph
    from stowplan.flow.schedule import Schedule
    from stowplan.flow.target import Target
    from stowplan.plugins.kinds import Metrics


def facts_document(facts: Facts) -> dict[str, Any]:
    document: dict[str, Any] = plain(facts)
    return document


def facts_of(document: Mapping[str, Any]) -> Facts:
    """Return facts from their plain form. Raises `TypeError` or `KeyError` for anything else."""
    fields = dict(document)
    for name in ("inputs", "outputs"):
        fields[name] = tuple(PortFact(**{**port, "shape": tuple(port["shape"])}) for port in fields[name])
    fields["notes"] = tuple(fields["notes"])
    fields["largest_tensor_shape"] = tuple(fields["largest_tensor_shape"])
    fields["trials"] = tuple(TrialFact(**trial) for trial in fields["trials"])
    fields["stage_table"] = tuple(_stage(stage) for stage in fields["stage_table"])
    if fields["traffic"] is not None:
        fields["traffic"] = tuple(fields["traffic"])
    fields["pareto"] = ()  # with `minimum` and `shrink`, what `analyze` finds out; none of it is cached
    return Facts(**fields)


def schedule_document(schedule: Schedule) -> dict[str, Any]:
    """Return a schedule without its target, which belongs to whoever asks."""
    return {
        "graph": schedule.graph_digest,
        "scheduler": schedule.scheduler,
        "buffers": [[b.tensor, b.pool, b.rows, b.row_bytes, b.offsets, b.accumulator] for b in schedule.buffers],
        "nodes": [[n.operator, n.inputs, n.output, n.units, n.by_input, n.accumulator] for n in schedule.nodes],
        "firings": [[f.node, f.first, f.last] for f in schedule.firings],
        "regions": [[r.first, r.last, r.tiled] for r in schedule.regions],
        "interface": schedule.interface,
        "pool_bytes": schedule.pool_bytes,
        "live_peak_bytes": schedule.live_peak_bytes,
        "reserved": schedule.weights_reserved_bytes,
        "lower_bound_bytes": schedule.lower_bound_bytes,
        "certificate": schedule.certificate,
        "tiles": [[t.operator, t.columns, t.channels, t.section, t.turn] for t in schedule.tiles],
    }


def schedule_of(document: Mapping[str, Any], target: Target) -> Schedule:
    """Return a schedule from its plain form; the checker judges it like a new one."""
    from stowplan.flow.schedule import Buffer, Firing, Node, Region, Schedule, Tile

    return Schedule(
        graph_digest=document["graph"],
        target=target,
        scheduler=document["scheduler"],
        buffers=tuple(
            Buffer(tensor=t, pool=p, rows=r, row_bytes=b, offsets=tuple(o), accumulator=a)
            for t, p, r, b, o, a in document["buffers"]
        ),
        nodes=tuple(
            Node(operator=op, inputs=tuple(i), output=o, units=u, by_input=b, accumulator=a)
            for op, i, o, u, b, a in document["nodes"]
        ),
        firings=tuple(Firing(node=n, first=first, last=last) for n, first, last in document["firings"]),
        regions=tuple(Region(first=first, last=last, tiled=tiled) for first, last, tiled in document["regions"]),
        interface=tuple((tensor, buffer) for tensor, buffer in document["interface"]),
        pool_bytes=tuple(document["pool_bytes"]),
        live_peak_bytes=tuple(document["live_peak_bytes"]),
        weights_reserved_bytes=document["reserved"],
        lower_bound_bytes=document["lower_bound_bytes"],
        certificate=document["certificate"],
        tiles=tuple(
            Tile(operator=operator, columns=_range(columns), channels=_range(channels), section=section, turn=turn)
            for operator, columns, channels, section, turn in document["tiles"]
        ),
    )


def _range(pair: list[int] | None) -> tuple[int, int] | None:
    return None if pair is None else (pair[0], pair[1])


def runs_document(runs: tuple[Metrics, ...]) -> list[list[int | None]]:
    return [[run.duration_ns, run.slow_read_bytes, run.slow_written_bytes] for run in runs]


def runs_of(document: list[Any]) -> tuple[Metrics, ...]:
    from stowplan.plugins.kinds import Metrics

    return tuple(Metrics(duration_ns=d, slow_read_bytes=r, slow_written_bytes=w) for d, r, w in document)


def numbering(graph: Graph) -> list[int]:
    """Return the tensors in the order in which the graph's canonical form meets them.

    The graph's digest does not depend on how tensors are numbered; a schedule names them by number, so a schedule is
    only good for a graph with the same numbers.
    """
    order = [*graph.inputs, *(t for op in graph.operators for t in (*op.inputs, *op.outputs)), *graph.outputs]
    return list(dict.fromkeys(tensor for tensor in order if tensor >= 0))


def _stage(fields: Mapping[str, Any]) -> StageFact:
    lists = {name: tuple(fields[name]) for name in ("operators", "kinds")}
    alive = tuple(AliveFact(**{**fact, "shape": tuple(fact["shape"])}) for fact in fields["alive"])
    return StageFact(**{**fields, **lists, "alive": alive})
