"""Random chains of operators give onnxruntime's answers, whatever order their axes are kept in."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from onnx import helper

from onnx_models import Array, network, random_inputs, run_onnxruntime, run_plan

pytest.importorskip("onnxruntime", reason="needs the package onnxruntime")
Draw = Any


class Chain:
    """A network under construction: the name and shape of every value so far."""

    def __init__(self, draw: Draw, shape: tuple[int, ...]) -> None:
        self.draw = draw
        self.shapes: dict[str, tuple[int, ...]] = {"x": shape}
        self.nodes: list[Any] = []
        self.constants: dict[str, Array] = {}

    def constant(self, array: Array) -> str:
        name = f"c{len(self.constants)}"
        self.constants[name] = array
        return name

    def reals(self, *shape: int) -> str:
        seed = len(self.constants)
        return self.constant(np.random.default_rng(seed).uniform(-1, 1, shape).astype(np.float32))

    def add(self, kind: str, inputs: list[str], shape: tuple[int, ...], **attributes: Any) -> None:
        name = f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, inputs, [name], **attributes))
        self.shapes[name] = shape

    def pick(self) -> tuple[str, tuple[int, ...]]:
        """Return a value, mostly the last one, so that chains become long."""
        names = list(self.shapes)
        name = names[-1] if self.draw(st.integers(0, 3)) else self.draw(st.sampled_from(names))
        return name, self.shapes[name]

    def axis(self, shape: tuple[int, ...]) -> int:
        return int(self.draw(st.integers(0, len(shape) - 1)))


def transpose(chain: Chain) -> None:
    name, shape = chain.pick()
    perm = chain.draw(st.permutations(range(len(shape))))
    chain.add("Transpose", [name], tuple(shape[i] for i in perm), perm=list(perm))


def reshape(chain: Chain) -> None:
    """Join two neighbours, split one, or add an axis of one element."""
    name, shape = chain.pick()
    found, axis = list(shape), chain.axis(shape)
    kind = chain.draw(st.sampled_from(["join", "split", "one", "drop"]))
    if kind == "join" and axis + 1 < len(found):
        found[axis : axis + 2] = [found[axis] * found[axis + 1]]
    elif kind == "split" and len(found) < 5:
        factor = next(f for f in (3, 2, 5, 1) if found[axis] % f == 0)
        found[axis : axis + 1] = [factor, found[axis] // factor]
    elif kind == "one" and len(found) < 5:
        found.insert(axis, 1)
    elif kind == "drop" and found[axis] == 1 and len(found) > 1:
        del found[axis]
    chain.add("Reshape", [name, chain.constant(np.array(found, np.int64))], tuple(found))


def unary(chain: Chain) -> None:
    name, shape = chain.pick()
    chain.add(chain.draw(st.sampled_from(["Relu", "Tanh", "Sigmoid", "Abs", "Neg", "Identity"])), [name], shape)


def broadcast(chain: Chain) -> None:
    name, shape = chain.pick()
    other = tuple(size if chain.draw(st.booleans()) else 1 for size in shape)
    other = other[chain.draw(st.integers(0, len(other) - 1)) :]
    pair = [name, chain.reals(*other)]
    kind = chain.draw(st.sampled_from(["Add", "Mul", "Sub", "Max", "Min"]))
    chain.add(kind, pair if chain.draw(st.booleans()) else pair[::-1], shape)


def both(chain: Chain) -> None:
    name, shape = chain.pick()
    same = [other for other, other_shape in chain.shapes.items() if other_shape == shape]
    chain.add("Add", [name, chain.draw(st.sampled_from(same))], shape)


def concat(chain: Chain) -> None:
    name, shape = chain.pick()
    axis = chain.axis(shape)
    near = [
        n
        for n, s in chain.shapes.items()
        if s[:axis] == shape[:axis] and s[axis + 1 :] == shape[axis + 1 :] and len(s) == len(shape)
    ]
    other = chain.draw(st.sampled_from(near))
    chain.add(
        "Concat", [name, other], (*shape[:axis], shape[axis] + chain.shapes[other][axis], *shape[axis + 1 :]), axis=axis
    )


def slice_(chain: Chain) -> None:
    name, shape = chain.pick()
    axis = chain.axis(shape)
    start, step = chain.draw(st.integers(0, shape[axis] - 1)), chain.draw(st.sampled_from([1, 2, -1]))
    end = shape[axis] if step > 0 else -(10**6)
    kept = len(range(shape[axis])[start::step])
    numbers = [chain.constant(np.array([n], np.int64)) for n in (start, end, axis, step)]
    chain.add("Slice", [name, *numbers], (*shape[:axis], kept, *shape[axis + 1 :]))


def gather(chain: Chain) -> None:
    name, shape = chain.pick()
    axis = chain.axis(shape)
    places = chain.draw(st.lists(st.integers(-shape[axis], shape[axis] - 1), min_size=1, max_size=4))
    chain.add(
        "Gather", [name, chain.constant(np.array(places))], (*shape[:axis], len(places), *shape[axis + 1 :]), axis=axis
    )


def pad(chain: Chain) -> None:
    name, shape = chain.pick()
    mode = chain.draw(st.sampled_from(["constant", "edge", "reflect"]))
    most = [min(1, size - 1) if mode == "reflect" else 1 for size in shape]
    pads = [chain.draw(st.integers(0, m)) for m in (*most, *most)]
    result = tuple(size + pads[i] + pads[len(shape) + i] for i, size in enumerate(shape))
    chain.add("Pad", [name, chain.constant(np.array(pads, np.int64))], result, mode=mode)


def reduce(chain: Chain) -> None:
    name, shape = chain.pick()
    axis, keep = chain.axis(shape), chain.draw(st.booleans()) or len(shape) == 1
    kind = chain.draw(st.sampled_from(["ReduceMean", "ReduceMax", "ReduceMin"]))
    rest = (*shape[:axis], *((1,) if keep else ()), *shape[axis + 1 :])
    chain.add(kind, [name], rest, axes=[axis], keepdims=int(keep))


def softmax(chain: Chain) -> None:
    name, shape = chain.pick()
    chain.add("Softmax", [name], shape, axis=chain.axis(shape))


def matmul(chain: Chain) -> None:
    name, shape = chain.pick()
    if len(shape) < 2:
        return
    chain.add("MatMul", [name, chain.reals(shape[-1], 3)], (*shape[:-1], 3))


def conv(chain: Chain) -> None:
    name, shape = chain.pick()
    if len(shape) not in (3, 4, 5) or min(shape[2:]) < 2:
        return
    spatial = len(shape) - 2
    group = chain.draw(st.sampled_from([g for g in (1, 2, shape[1]) if shape[1] % g == 0]))
    outputs = group * chain.draw(st.integers(1, 2))
    kernel = [chain.draw(st.integers(1, 2)) for _ in range(spatial)]
    stride = [chain.draw(st.integers(1, 2)) for _ in range(spatial)]
    pads = [chain.draw(st.integers(0, k - 1)) for k in (*kernel, *kernel)]
    sizes = [(shape[2 + i] + pads[i] + pads[spatial + i] - kernel[i]) // stride[i] + 1 for i in range(spatial)]
    weights = chain.reals(outputs, shape[1] // group, *kernel)
    chain.add(
        "Conv",
        [name, weights, chain.reals(outputs)],
        (shape[0], outputs, *sizes),
        group=group,
        strides=stride,
        pads=pads,
    )


def pool(chain: Chain) -> None:
    name, shape = chain.pick()
    if len(shape) not in (3, 4, 5) or min(shape[2:]) < 2:
        return
    kind = chain.draw(st.sampled_from(["MaxPool", "AveragePool"]))
    spatial = len(shape) - 2
    chain.add(kind, [name], (*shape[:2], *(size - 1 for size in shape[2:])), kernel_shape=[2] * spatial)


STEPS = (transpose, transpose, reshape, reshape, unary, broadcast, both, concat, slice_, gather, pad, reduce, softmax,
         matmul, conv, conv, pool)  # fmt: skip


@st.composite
def chains(draw: Draw) -> Chain:
    shape = tuple(draw(st.lists(st.integers(1, 6), min_size=3, max_size=5)))
    chain = Chain(draw, shape)
    for _ in range(draw(st.integers(1, 9))):
        draw(st.sampled_from(STEPS))(chain)
        if np.prod(list(chain.shapes.values())[-1]) > 20000:
            break
    return chain


@pytest.mark.slow
@settings(max_examples=300, deadline=None, suppress_health_check=list(HealthCheck))
@given(chains())
def test_random_networks_give_the_answers_of_onnxruntime(chain: Chain) -> None:
    if not chain.nodes:
        return
    model = network(chain.nodes, {"x": chain.shapes["x"]}, [chain.nodes[-1].output[0]], chain.constants)
    inputs = random_inputs(model, 1)
    expected = run_onnxruntime(model, inputs)[0]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.onnx"
        path.write_bytes(model.SerializeToString())
        found = run_plan(path, inputs, prove=True)[0]
    assert found.shape == expected.shape
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
