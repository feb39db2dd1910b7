"""Elements picked and put by index: tables where the indices are constants, kernels where the model computes them."""

from __future__ import annotations

from math import prod

import numpy as np

from stowplan.flow.graph import Attribute
from stowplan_importer_onnx.builder import Builder, Refusal, Value, plain
from stowplan_importer_onnx.lower.elementwise import cast
from stowplan_importer_onnx.lower.joining import binary, select
from stowplan_importer_onnx.lower.movement import picked, taken
from stowplan_importer_onnx.parse import Array, spelled
from stowplan_importer_onnx.site import Site

MAX_TABLE = 1 << 22


def gather(site: Site) -> Value:
    x, indices = site.value(0), site.value(1, ("int32", "int64"))
    axis = site.axis(x.rank)
    shape = (*x.shape[:axis], *indices.shape, *x.shape[axis + 1 :])
    known = site.builder.array(indices)
    if known is not None:
        places = _places(known, x.shape[axis])
        return site.builder.reshaped(taken(site.builder, x, axis, [int(n) for n in places.reshape(-1)]), shape)
    return _gathered(site.builder, x, indices, axis)


def _places(indices: Array, size: int) -> Array:
    """Return indices counted from the front. Refuses those outside."""
    found = np.where(indices < 0, indices + size, indices)
    if found.size > MAX_TABLE:
        raise Refusal(f"a table of {found.size} indices")
    if found.size and (found.min() < 0 or found.max() >= size):
        raise Refusal(f"indices {found.min()} to {found.max()} of {size} elements")
    return found


def _gathered(builder: Builder, x: Value, indices: Value, axis: int) -> Value:
    """Return elements at computed places, which count from the end where they are negative."""
    places = from_front(builder, indices, x.shape[axis])
    found = builder.tensors[x.tensor]
    if found.quantization is not None and found.quantization.per_channel:
        x = builder.real(x)
        found = builder.tensors[x.tensor]
    tensor = builder.stored(x, plain(x.rank))
    shape = (*x.shape[:axis], *indices.shape, *x.shape[axis + 1 :])
    inputs = (tensor, builder.natural(places))
    out = builder.step("gather", inputs, shape, found.dtype, {"axis": axis}, found.quantization)
    return Value(out, shape, x.dtype, plain(len(shape)))


def from_front(builder: Builder, indices: Value, size: int) -> Value:
    places = cast(builder, indices, "int32")
    below = binary(builder, "less", places, builder.constant(np.array(0, np.int32)))
    return select(builder, below, binary(builder, "add", places, builder.constant(np.array(size, np.int32))), places)


def gather_elements(site: Site) -> Value:
    """Lower GatherElements as a gather among all elements, side by side."""
    x, indices = site.value(0), site.value(1, ("int32", "int64"))
    axis, builder = site.axis(x.rank), site.builder
    if indices.rank != x.rank or any(
        a > b for i, (a, b) in enumerate(zip(indices.shape, x.shape, strict=True)) if i != axis
    ):
        raise Refusal(f"indices of shape {spelled(indices.shape)} for {spelled(x.shape)}")
    steps = [prod(x.shape[i + 1 :]) for i in range(x.rank)]
    base = sum(
        (np.arange(n) * step).reshape([-1 if i == j else 1 for j in range(x.rank)])
        for i, (n, step) in enumerate(zip(indices.shape, steps, strict=True))
        if i != axis
    )
    base = np.broadcast_to(np.asarray(base), indices.shape)
    flat = builder.reshaped(x, (x.elements,))
    known = builder.array(indices)
    if known is not None:
        places = base + _places(known, x.shape[axis]) * steps[axis]
        return builder.reshaped(taken(builder, flat, 0, [int(n) for n in places.reshape(-1)]), indices.shape)
    front = from_front(builder, indices, x.shape[axis])
    scaled = binary(builder, "mul", front, builder.constant(np.array(steps[axis], np.int32)))
    return _gathered(builder, flat, binary(builder, "add", scaled, builder.constant(base.astype(np.int32))), 0)


def gather_nd(site: Site) -> Value:
    """Lower GatherND as a gather among blocks, one for each place that an index tuple can name."""
    x, indices, batch = site.value(0), site.value(1, ("int32", "int64")), site.integer("batch_dims", 0)
    builder = site.builder
    if not indices.rank or not 0 <= batch < min(x.rank, indices.rank) or x.shape[:batch] != indices.shape[:batch]:
        raise Refusal(f"indices of shape {spelled(indices.shape)} for {spelled(x.shape)}, {batch} batch axes")
    depth = indices.shape[-1]
    if not 1 <= depth <= x.rank - batch:
        raise Refusal(f"{depth} numbers for {x.rank - batch} axes")
    named, rest = x.shape[batch : batch + depth], x.shape[batch + depth :]
    known = builder.array(indices)
    if known is None:
        raise Refusal("computed indices; constant ones would be supported")
    if known.size > MAX_TABLE:
        raise Refusal(f"a table of {known.size} indices")
    steps = [prod(named[i + 1 :]) for i in range(depth)]
    places = sum(_places(known[..., i], named[i]) * steps[i] for i in range(depth))
    offset = np.arange(prod(x.shape[:batch])) * prod(named)
    places = np.asarray(places) + offset.reshape(*x.shape[:batch], *(1,) * (indices.rank - 1 - batch))
    flat = builder.reshaped(x, (prod(x.shape[: batch + depth]), *rest))
    found = taken(builder, flat, 0, [int(n) for n in places.reshape(-1)])
    return builder.reshaped(found, (*indices.shape[:-1], *rest))


def scatter_elements(site: Site) -> Value:
    """Lower ScatterElements at constant places: data and updates side by side, and each element from one of them."""
    x, updates = site.value(0), site.value(2)
    axis = site.axis(x.rank)
    indices = site.array(1, "the indices")
    if indices.ndim != x.rank or indices.shape != updates.shape:
        raise Refusal(f"indices of shape {spelled(indices.shape)}, updates of {spelled(updates.shape)}")
    places = _places(indices, x.shape[axis])
    grid: list[Array] = list(np.indices(indices.shape))
    grid[axis] = places
    if any(g.size and g.max() >= n for g, n in zip(grid, x.shape, strict=True)):
        raise Refusal(f"updates of shape {spelled(updates.shape)} for {spelled(x.shape)}")
    flat = np.ravel_multi_index(tuple(grid), x.shape).reshape(-1) if places.size else np.zeros(0, np.int64)
    return _scattered(site, x, updates, flat, 1)


def scatter_nd(site: Site) -> Value:
    x, updates = site.value(0), site.value(2)
    indices = site.array(1, "the indices")
    if not indices.ndim or not 1 <= indices.shape[-1] <= x.rank:
        raise Refusal(f"indices of shape {spelled(indices.shape)} for {spelled(x.shape)}")
    depth = indices.shape[-1]
    if updates.shape != (*indices.shape[:-1], *x.shape[depth:]):
        raise Refusal(f"updates of shape {spelled(updates.shape)} for {spelled(x.shape)}")
    columns = [_places(indices[..., i], x.shape[i]) for i in range(depth)]
    flat = np.ravel_multi_index(tuple(columns), x.shape[:depth]).reshape(-1) if indices.size else np.zeros(0, np.int64)
    return _scattered(site, x, updates, flat, prod(x.shape[depth:]))


def _scattered(site: Site, x: Value, updates: Value, places: Array, block: int) -> Value:
    """Return `x`, in blocks of as many elements, with those at `places` replaced by the updates, or combined."""
    builder, reduction = site.builder, site.text("reduction", "none")
    if x.dtype != updates.dtype:
        raise Refusal(f"{x.dtype} with updates of {updates.dtype}")
    count = x.elements // block if block else 0
    if not places.size:
        return x
    if len(set(places.tolist())) < places.size and reduction != "none":
        return _combined(builder, x, updates, places, block, reduction)
    table = np.arange(count)
    table[places] = count + np.arange(places.size)
    rows = [builder.reshaped(builder.real(v), (v.elements // block, block)) for v in (x, updates)]
    if reduction != "none":
        before = taken(builder, rows[0], 0, [int(n) for n in places])
        rows[1] = binary(builder, _combining(reduction), before, rows[1])
    both = _beside(builder, rows[0], rows[1])
    return builder.reshaped(taken(builder, both, 0, [int(n) for n in table]), x.shape)


def _combined(builder: Builder, x: Value, updates: Value, places: Array, block: int, reduction: str) -> Value:
    """Return repeated updates one round after another, each with different places."""
    rows = builder.reshaped(builder.real(x), (x.elements // block, block))
    new = builder.reshaped(builder.real(updates), (places.size, block))
    left = list(enumerate(places.tolist()))
    for _ in range(64):
        if not left:
            return builder.reshaped(rows, x.shape)
        chosen: dict[int, int] = {}
        for number, place in left:
            chosen.setdefault(place, number)
        left = [(number, place) for number, place in left if chosen[place] != number]
        before = taken(builder, rows, 0, list(chosen))
        after = binary(builder, _combining(reduction), before, taken(builder, new, 0, list(chosen.values())))
        table = np.arange(rows.shape[0])
        table[list(chosen)] = rows.shape[0] + np.arange(len(chosen))
        rows = taken(builder, _beside(builder, rows, after), 0, [int(n) for n in table])
    raise Refusal("more than 64 updates of one element")


def _beside(builder: Builder, a: Value, b: Value) -> Value:
    shape = (a.shape[0] + b.shape[0], a.shape[1])
    attributes: dict[str, Attribute] = {"axis": 0}
    tensors = [builder.stored(v, (0, 1)) for v in (a, b)]
    return builder.result("concatenation", tensors, shape, a.dtype, attributes)


def _combining(reduction: str) -> str:
    found = {"add": "add", "mul": "mul", "max": "maximum", "min": "minimum"}.get(reduction)
    if found is None:
        raise Refusal(f"reduction {reduction}; none, add, mul, max and min are defined")
    return found


def compress(site: Site) -> Value:
    x, condition = site.value(0), site.array(1, "the condition").reshape(-1)
    if site.has("axis"):
        axis, y = site.axis(x.rank), x
    else:
        axis, y = 0, site.builder.reshaped(x, (x.elements,))
    places = np.flatnonzero(condition[: y.shape[axis]])
    return taken(site.builder, y, axis, [int(n) for n in places])


def reverse_sequence(site: Site) -> Value:
    """Lower ReverseSequence with constant lengths, one batch after another."""
    x = site.value(0)
    lengths = site.numbers(1, "the lengths")
    batch, time = site.axis(x.rank, 1, "batch_axis"), site.axis(x.rank, 0, "time_axis")
    if batch == time or len(lengths) != x.shape[batch] or any(not 0 <= n <= x.shape[time] for n in lengths):
        raise Refusal(f"lengths {list(lengths[:8])} for {spelled(x.shape)}")
    from stowplan_importer_onnx.lower.joining import joined

    parts = []
    for index, length in enumerate(lengths):
        ranges = [range(index, index + 1) if i == batch else range(n) for i, n in enumerate(x.shape)]
        places = [*range(length - 1, -1, -1), *range(length, x.shape[time])]
        parts.append(taken(site.builder, picked(site.builder, x, ranges), time, places))
    return joined(site.builder, parts, batch)
