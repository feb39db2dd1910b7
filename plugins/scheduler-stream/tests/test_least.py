"""The least memory: what was found is right, the bound is a bound, and the standard models reach theirs."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import pytest

from graphs import GraphBuilder, random_graph
from stowplan.build.verify import verify
from stowplan.flow.graph import Graph
from stowplan.flow.model import Model
from stowplan.flow.schedule import Schedule, slow_traffic
from stowplan.flow.target import FAST, Pool, Target
from stowplan.plugins.host import host
from stowplan.plugins.kinds import ScheduleOptions
from stowplan_scheduler_stream import StreamScheduler
from stowplan_scheduler_stream.network import Network
from stowplan_scheduler_stream.region import entering_region, region_works
from stowplan_scheduler_stream.search import Effort, find_order

MODELS = Path(__file__).parents[4] / "shared" / "models"
KNOWN = {  # proven least live bytes of orders of whole rows: everything in one pool
    "vww-person/mlperf_vww_int8": 28_032,
    "kws/mlperf_kws_dscnn_int8": 3_866,
    "image-cls/mlperf_resnet8_int8": 10_304,
    "anomaly/mlperf_ad01_int8": 768,
    "wakeword/mlperf_streaming_ww_int8": 2_952,
    "vww-person/tflm_person_detect_int8": 12_288,
}
needs_models = pytest.mark.skipif(not MODELS.is_dir(), reason="the shared models are not beside this checkout")


def least(graph: Graph, slow: bool = False, seconds: float | None = None) -> Schedule:
    pools = (Pool(name="fast", size_bytes=None), Pool(name="slow", size_bytes=None))[: 1 + slow]
    options = ScheduleOptions(thorough=True, time_limit_s=seconds)
    return StreamScheduler().schedule(graph, Target(pools=pools), options)


@needs_models
@pytest.mark.parametrize(("name", "known"), KNOWN.items(), ids=[Path(n).name for n in KNOWN])
def test_a_standard_model_comes_within_three_per_cent_of_its_optimum(name: str, known: int) -> None:
    model = Model.read(MODELS / f"{name}.tflite")
    graph = host().importer_for(model).load(model, {})
    schedule = least(graph)
    verify(graph, schedule)
    assert schedule.lower_bound_bytes is not None
    assert schedule.lower_bound_bytes <= known
    assert known <= schedule.pool_bytes[FAST] <= known * 1.03


@pytest.mark.parametrize("seed", range(25))
def test_the_least_is_right_and_never_below_its_bound(seed: int) -> None:
    graph = random_graph(seed)
    for slow in (False, True):
        schedule = least(graph, slow)
        verify(graph, schedule)
        assert schedule.lower_bound_bytes is not None
        assert schedule.lower_bound_bytes <= schedule.pool_bytes[FAST]
        assert ("proven least" in schedule.certificate) == (schedule.lower_bound_bytes == schedule.pool_bytes[FAST])


def brute_force(network: Network) -> int:
    """The least live peak over every interleaving of every node's units, by exhaustive search with memory."""
    crossing = network.crossing(range(len(network.steps)), slow=False)
    works = region_works(network, range(len(network.steps)), crossing)
    size = {t: network.stuff(t) for t in {*network.inputs, *(w.tensor for w in works)}}
    maker = {w.tensor: i for i, w in enumerate(works)}

    def rows(tensor: int, done: tuple[int, ...]) -> int:
        if tensor not in maker:
            return size[tensor].rows
        work, count = works[maker[tensor]], done[maker[tensor]]
        return (size[tensor].rows if count == work.units else 0) if work.by_input else count

    def row_bytes(tensor: int) -> int:
        stuff = size[tensor]
        dense = tensor in network.inputs or tensor in network.outputs
        return stuff.row_bytes if dense else -(-stuff.row_bytes // stuff.alignment_bytes) * stuff.alignment_bytes

    def alive(done: tuple[int, ...]) -> int:
        total = 0
        for tensor in size:
            present = rows(tensor, done)
            if tensor in network.outputs:
                total += row_bytes(tensor) * size[tensor].rows * (present > 0)
                continue
            wanted = {
                row
                for work, count in zip(works, done, strict=True)
                for read in work.reads
                if read.tensor == tensor
                for unit in range(count, work.units)
                for row in range(read.first[unit], read.last[unit])
            }
            low = min(wanted, default=size[tensor].rows)
            ever = {r for w in works for d in w.reads if d.tensor == tensor for u in range(w.units)
                    for r in range(d.first[u], d.last[u])}  # fmt: skip
            total += row_bytes(tensor) * len([r for r in range(low, present) if r in ever])
        sums = (w.accumulator_bytes for w, c in zip(works, done, strict=True) if w.units > 1 and 0 < c < w.units)
        return total + sum(sums)

    start = sum(size[t].size_bytes for t in network.inputs)
    best = {tuple(0 for _ in works): max(start, alive(tuple(0 for _ in works)))}
    for done in sorted(product(*(range(w.units + 1) for w in works)), key=sum):
        if done not in best:
            continue
        for index, work in enumerate(works):
            unit = done[index]
            if unit == work.units or any(rows(r.tensor, done) < max(r.last[: unit + 1]) for r in work.reads):
                continue
            after = tuple(c + (i == index) for i, c in enumerate(done))
            born = row_bytes(work.tensor)
            if work.tensor in network.outputs:
                born = born * size[work.tensor].rows if unit == 0 else 0
            if work.by_input:
                born = work.accumulator_bytes * (unit == 0) + born * (unit == work.units - 1)
            peak = max(best[done], alive(done) + born)
            best[after] = min(best.get(after, peak), peak)
    return best[tuple(w.units for w in works)]


@pytest.mark.parametrize("seed", range(40))
def test_the_search_agrees_with_brute_force(seed: int) -> None:
    """Three small layers, sometimes with a bypass: every interleaving of rows is tried."""
    b = GraphBuilder(seed=seed)
    rng = b.random
    x = b.input(1, rng.randint(3, 5), 2, rng.randint(1, 6))
    y = b.conv(x, rng.randint(1, 6), (rng.randint(1, 3), 1), (rng.randint(1, 2), 1))
    z = b.conv(y, rng.randint(1, 4), (rng.randint(1, 3), 1))
    if seed % 3 == 0:
        z = b.add(b.conv(z, 3, (1, 1)), b.conv(y, 3, (1, 1)))
    graph = b.graph(b.pool(z, "max_pool_2d", (2, 1), (1, 1)) if b.tensors[z].shape[1] > 1 else b.unary(z, "relu"))
    network = Network(graph, 4)
    steps = range(len(network.steps))
    crossing = network.crossing(steps, slow=False)
    works, entering = region_works(network, steps, crossing), entering_region(network, steps, crossing)
    found = find_order(network, works, entering, None, Effort(states=200_000, steps=100_000_000))
    if found is None:
        pytest.skip("no C compiler")
    assert found.proven
    assert found.peak_bytes == brute_force(network)


@pytest.mark.parametrize("seed", range(12))
def test_slow_traffic_never_rises_with_the_budget(seed: int) -> None:
    graph = random_graph(seed)
    whole = least(graph).pool_bytes[FAST]
    low = least(graph, slow=True).pool_bytes[FAST]
    moved = []
    for budget in range(low, whole + 64, max(1, (whole + 64 - low) // 12)):
        pools = (Pool(name="fast", size_bytes=budget), Pool(name="slow", size_bytes=None))
        schedule = StreamScheduler().schedule(graph, Target(pools=pools), ScheduleOptions())
        moved.append(sum(sum(slow_traffic(schedule, node)) for node in schedule.nodes))
    assert moved == sorted(moved, reverse=True)
