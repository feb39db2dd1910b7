"""Products of matrices: with constant weights a fully connected operator, else in batches; Gemm and Einsum."""

from __future__ import annotations

from math import prod

import numpy as np

from stowplan.flow.graph import ABSENT, Quantization
from stowplan_importer_onnx.builder import Builder, Refusal, Value, plain
from stowplan_importer_onnx.lower.joining import binary, expanded, raised, scalar
from stowplan_importer_onnx.parse import Array, spelled
from stowplan_importer_onnx.site import FLOAT, Result, Site, Tailed, broadcast_shape
from stowplan_importer_onnx.tails import finished


def matmul(site: Site) -> Result:
    a, b = site.value(0, FLOAT), site.value(1, FLOAT)
    weights = site.builder.array(b)
    if weights is not None and weights.ndim == 2 and a.rank >= 1 and not site.builder.is_constant(a):
        if a.shape[-1] != weights.shape[0]:
            raise Refusal(f"{spelled(a.shape)} times {spelled(b.shape)}")
        return _with_weights(site, a, b, weights.T)
    return product(site.builder, site.builder.real(a), site.builder.real(b))


def _with_weights(site: Site, a: Value, b: Value, weights: Array) -> Result:
    """Return activations times constant weights [outputs, features], with an Add of a vector behind it as bias."""
    builder = site.builder
    held, q = builder.held(b.tensor), builder.quantization(b)
    source = builder.quantization(a)
    if builder.is_quantized(a) and held is not None and held.dtype == np.int8 and q is not None and source is not None:
        tail = site.tail(quantize=True)
        turned = _channels(q, b.place(1))
        if tail.quantization is not None and turned is not None:
            integers = held.transpose([b.place(axis) for axis in range(2)]).T
            out = connected(builder, a, integers, None, tail.activation, turned, tail.quantization)
            return Tailed(finished(out, tail), tail)
    found = _bias_behind(site, a.rank, weights.shape[0])
    if found is None:
        tail = site.tail()
        return Tailed(connected(builder, builder.real(a), weights, None, tail.activation), tail)
    node, bias = found
    from stowplan_importer_onnx.tails import tail_of

    behind = site.walk.nodes[node]
    tail = tail_of(site.walk, behind.outputs[0], batch=False, quantize=False, activation=True)
    tail = tail._replace(nodes=(node, *tail.nodes))
    return Tailed(connected(builder, builder.real(a), weights, bias, tail.activation), tail)


def _bias_behind(site: Site, rank: int, outputs: int) -> tuple[int, Array] | None:
    """Return the only reader of the product, if it adds a constant vector, and that vector."""
    name = site.node.outputs[0]
    readers = site.walk.readers.get(name, ())
    if len(readers) != 1 or name in site.walk.exits or rank < 2:
        return None
    node = site.walk.nodes[readers[0]]
    if node.full_kind != "Add" or len(node.inputs) != 2 or len(node.outputs) != 1:
        return None
    other = node.inputs[1] if node.inputs[0] == name else node.inputs[0]
    bias = site.walk.known(other) if other != name else None
    if bias is None or bias.dtype != np.float32 or bias.shape[-1:] != (outputs,) or bias.size != outputs:
        return None
    return (readers[0], bias.reshape(-1)) if bias.ndim <= rank else None


def _channels(q: Quantization, axis: int) -> Quantization | None:
    """Return weights' quantization per output channel or for all, None if it is neither."""
    if not q.per_channel:
        return q
    if q.axis != axis or any(q.zero_points):
        return None
    return Quantization(scales=q.scales, zero_points=q.zero_points, axis=0)


def connected(
    builder: Builder, a: Value, weights: Array, bias: Array | None, activation: str,
    of_weights: Quantization | None = None, q: Quantization | None = None,
) -> Value:  # fmt: skip
    """Return each run along the last axis times weights [outputs, features]."""
    tensor = builder.stored(a, plain(a.rank))
    dtype = builder.tensors[tensor].dtype
    w = builder.constant(np.ascontiguousarray(weights), of_weights).tensor
    b = ABSENT if bias is None else builder.constant(bias).tensor
    shape = (*a.shape[:-1], weights.shape[0])
    if a.rank == 1:
        tensor = builder.step("reshape", (tensor,), (1, a.shape[0]), dtype, {}, builder.tensors[tensor].quantization)
    stored = shape if a.rank > 1 else (1, *shape)
    out = builder.step("fully_connected", (tensor, w, b), stored, dtype, {"activation": activation}, q)
    if a.rank == 1:
        out = builder.step("reshape", (out,), shape, dtype, {}, q)
    return Value(out, shape, "float32", plain(len(shape)))


def product(builder: Builder, a: Value, b: Value) -> Value:
    """Return the product of matrices, as numpy defines it for any number of axes."""
    if not a.rank or not b.rank or a.shape[-1] != b.shape[max(b.rank - 2, 0)]:
        raise Refusal(f"{spelled(a.shape)} times {spelled(b.shape)}")
    left = builder.reshaped(a, (1, *a.shape)) if a.rank == 1 else a
    right = builder.reshaped(b, (*b.shape, 1)) if b.rank == 1 else b
    rank = max(left.rank, right.rank)
    left, right = raised(builder, left, rank), raised(builder, right, rank)
    batch = broadcast_shape(left.shape[:-2], right.shape[:-2])
    shape = (*batch, left.shape[-2], right.shape[-1])
    x, adjoint_x = _matrices(builder, left, batch)
    y, adjoint_y = _matrices(builder, right, batch)
    kept = (*(batch if rank <= 5 else (prod(batch),)), *shape[-2:])
    attributes = {"adjoint_x": adjoint_x, "adjoint_y": adjoint_y}
    out = builder.step("batch_matmul", (x, y), kept, "float32", attributes)
    found = Value(out, kept, "float32", plain(len(kept)))
    final = shape[:-2] + (() if a.rank == 1 else shape[-2:-1]) + (() if b.rank == 1 else shape[-1:])
    return builder.reshaped(found, final)


def _matrices(builder: Builder, value: Value, batch: tuple[int, ...]) -> tuple[int, bool]:
    """Return a tensor of matrices, and whether it holds them transposed, which costs nothing."""
    if len(batch) > 3:
        value = expanded(builder, value, (*batch, *value.shape[-2:]))
        value = builder.reshaped(value, (prod(batch), *value.shape[-2:]))
    turned = (*range(value.rank - 2), value.rank - 1, value.rank - 2)
    if value.order == turned:
        return value.tensor, True
    return builder.stored(value, plain(value.rank)), False


def gemm(site: Site) -> Result:
    a, b = site.value(0, FLOAT), site.value(1, FLOAT)
    alpha, beta = site.number("alpha", 1.0), site.number("beta", 1.0)
    if a.rank != 2 or b.rank != 2:
        raise Refusal(f"{spelled(a.shape)} times {spelled(b.shape)}; two matrices are defined")
    left = turned(a) if site.integer("transA", 0) else a
    right = turned(b) if site.integer("transB", 0) else b
    if left.shape[1] != right.shape[0]:
        raise Refusal(f"{spelled(left.shape)} times {spelled(right.shape)}")
    c = site.optional(2)
    builder = site.builder
    weights, bias = builder.array(right), None if c is None else builder.array(c)
    if weights is None or builder.is_constant(a) or (c is not None and not _is_vector(bias, weights.shape[1])):
        found = scaled(builder, product(builder, builder.real(left), builder.real(right)), alpha)
        return found if c is None else binary(builder, "add", found, scaled(builder, site.value(2, FLOAT), beta))
    vector = None if bias is None else (np.broadcast_to(bias.reshape(-1), (weights.shape[1],)) * np.float32(beta))
    if alpha == 1.0 and beta == 1.0:
        integers = _int8_gemm(site, left, right, vector)
        if integers is not None:
            return integers
    tail = site.tail()
    matrix = weights.T * np.float32(alpha) if alpha != 1.0 else weights.T
    return Tailed(connected(builder, builder.real(left), matrix, vector, tail.activation), tail)


def _int8_gemm(site: Site, left: Value, right: Value, bias: Array | None) -> Tailed | None:
    builder = site.builder
    held, q, source = builder.held(right.tensor), builder.quantization(right), builder.quantization(left)
    if not builder.is_quantized(left) or held is None or held.dtype != np.int8 or q is None or source is None:
        return None
    of_weights = _channels(q, right.place(1))
    tail = site.tail(quantize=True)
    if tail.quantization is None or of_weights is None:
        return None
    integers = held.transpose([right.place(axis) for axis in range(2)]).T
    steps = None
    if bias is not None:
        exact = np.rint(bias.astype(np.float64) / (np.array(q.scales) * source.scale))
        if not (np.abs(exact) < 2**31).all():
            return None
        steps = exact.astype(np.int32)
    out = connected(builder, left, integers, steps, tail.activation, of_weights, tail.quantization)
    return Tailed(finished(out, tail), tail)


def turned(value: Value) -> Value:
    """Return a matrix transposed; nothing moves."""
    order = tuple(1 - axis for axis in value.order)
    return value._replace(shape=value.shape[::-1], order=order)


def scaled(builder: Builder, value: Value, factor: float) -> Value:
    return value if factor == 1.0 else binary(builder, "mul", value, scalar(builder, factor))


def _is_vector(bias: Array | None, outputs: int) -> bool:
    return bias is not None and bias.size in (1, outputs) and (bias.size == 1 or bias.shape[-1] == outputs)


def einsum(site: Site) -> Value:
    """Lower the sums of products of one or two tensors, without repeated letters in one of them."""
    equation = site.text("equation", "").replace(" ", "")
    left, arrow, right = equation.partition("->")
    terms = left.split(",")
    values = [site.value(position, FLOAT) for position in range(len(site.inputs))]
    if "." in equation or len(terms) != len(values) or len(terms) > 2 or any(len(set(t)) < len(t) for t in terms):
        raise Refusal(f"equation {equation[:80]!r}; one or two tensors with each letter once would be supported")
    if any(len(term) != value.rank for term, value in zip(terms, values, strict=True)):
        raise Refusal(f"equation {equation[:80]!r} for inputs of other ranks")
    every = "".join(terms)
    result = right if arrow else "".join(sorted(letter for letter in set(every) if every.count(letter) == 1))
    if len(set(result)) < len(result) or not set(result) <= set(every):
        raise Refusal(f"equation {equation[:80]!r}")
    return _contracted(site.builder, terms, values, result)


def _contracted(builder: Builder, terms: list[str], values: list[Value], result: str) -> Value:
    from stowplan_importer_onnx.lower.movement import permuted
    from stowplan_importer_onnx.lower.reduction import reduced

    sizes = {
        letter: size
        for term, value in zip(terms, values, strict=True)
        for letter, size in zip(term, value.shape, strict=True)
    }
    if len(terms) == 1:
        gone = tuple(i for i, letter in enumerate(terms[0]) if letter not in result)
        value = reduced(builder, builder.real(values[0]), "sum", gone, keep=False) if gone else values[0]
        rest = "".join(letter for letter in terms[0] if letter in result)
        return permuted(value, [rest.index(letter) for letter in result])
    a, b = terms
    for position, (term, other) in enumerate(((a, b), (b, a))):  # sums over what only one has
        gone = tuple(i for i, letter in enumerate(term) if letter not in result and letter not in other)
        if gone:
            values[position] = reduced(builder, builder.real(values[position]), "sum", gone, keep=False)
    a = "".join(letter for letter in a if letter in result or letter in b)
    b = "".join(letter for letter in b if letter in result or letter in a)
    batch = [letter for letter in a if letter in b and letter in result]
    inner = [letter for letter in a if letter in b and letter not in result]
    rows, columns = [c for c in a if c not in b], [c for c in b if c not in a]

    def flat(value: Value, term: str, groups: list[list[str]]) -> Value:
        turned = permuted(value, [term.index(c) for group in groups for c in group])
        return builder.reshaped(turned, tuple(prod(sizes[c] for c in group) for group in groups))

    x = flat(builder.real(values[0]), a, [batch, rows, inner])
    y = flat(builder.real(values[1]), b, [batch, inner, columns])
    found = builder.reshaped(product(builder, x, y), tuple(sizes[c] for c in (*batch, *rows, *columns)))
    made = "".join((*batch, *rows, *columns))
    return permuted(found, [made.index(letter) for letter in result])
