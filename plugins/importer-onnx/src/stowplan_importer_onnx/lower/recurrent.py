"""LSTM by its kernel where that computes the same; LSTM, GRU and RNN step by step everywhere else."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from stowplan.flow.graph import Attribute
from stowplan.nouns import NamedTuple
from stowplan_importer_onnx.builder import Builder, Refusal, Value
from stowplan_importer_onnx.lower.dense import connected
from stowplan_importer_onnx.lower.elementwise import clipped, unary
from stowplan_importer_onnx.lower.joining import binary, joined, scalar
from stowplan_importer_onnx.lower.movement import permuted, picked
from stowplan_importer_onnx.parse import Array, spelled
from stowplan_importer_onnx.site import FLOAT, Site

MAX_STEPS = 1024
SIMPLE = {"Sigmoid": "logistic", "Tanh": "tanh", "Relu": "relu", "Softplus": "softplus"}
Function = Callable[[Value], Value]


class Direction(NamedTuple):
    """One direction's weights by gate [gates*O, I] and [gates*O, O], biases [2*gates*O], and the first states."""

    weights: Array
    recurrent: Array
    bias: Array
    peepholes: Array | None
    functions: tuple[Function, ...]
    hidden: Value
    cell: Value | None
    backward: bool


class Network(NamedTuple):
    """What all directions share: x [T,B,I] with the time first, and the sizes."""

    builder: Builder
    x: Value
    outputs: int
    clip: float
    linear_before_reset: bool
    forget_input: bool


def lstm(site: Site) -> list[Value]:
    return _recurrent(site, 4, ("Sigmoid", "Tanh", "Tanh"), _lstm)


def gru(site: Site) -> list[Value]:
    return _recurrent(site, 3, ("Sigmoid", "Tanh"), _gru)


def rnn(site: Site) -> list[Value]:
    return _recurrent(site, 1, ("Tanh",), _rnn)


Runner = Callable[[Network, Direction], "tuple[Value, Value, Value | None]"]


def _recurrent(site: Site, gates: int, defaults: tuple[str, ...], run: Runner) -> list[Value]:
    """Return all outputs [T,D,B,O], the last ones [D,B,O], and the last cells where there are any."""
    builder, x = site.builder, site.builder.real(site.value(0, FLOAT))
    batch_first = bool(site.integer("layout", 0))
    if x.rank != 3:
        raise Refusal(f"an input of shape {spelled(x.shape)}; three axes are defined")
    x = permuted(x, (1, 0, 2)) if batch_first else x
    _check_lengths(site, x)
    weights, recurrent = site.array(1, "the weights"), site.array(2, "the weights")
    word = site.text("direction", "forward")
    backward = {"forward": (False,), "reverse": (True,), "bidirectional": (False, True)}.get(word)
    if backward is None or weights.ndim != 3 or recurrent.ndim != 3:
        raise Refusal(f"direction {word}, weights of shapes {spelled(weights.shape)} and {spelled(recurrent.shape)}")
    outputs, count = recurrent.shape[2], len(backward)
    if weights.shape != (count, gates * outputs, x.shape[2]) or recurrent.shape != (count, gates * outputs, outputs):
        raise Refusal(f"weights of shapes {spelled(weights.shape)} and {spelled(recurrent.shape)}")
    network = Network(
        builder, x, outputs, site.number("clip", 0.0),
        bool(site.integer("linear_before_reset", 0)), bool(site.integer("input_forget", 0)),
    )  # fmt: skip
    directions = [
        _direction(site, network, index, gates, defaults, back, weights[index], recurrent[index], batch_first)
        for index, back in enumerate(backward)
    ]
    return _together(
        builder, [run(network, direction) for direction in directions], batch_first, len(site.node.outputs)
    )


def _check_lengths(site: Site, x: Value) -> None:
    if site.optional(4) is not None and any(n != x.shape[0] for n in site.numbers(4, "the lengths of the sequences")):
        raise Refusal("sequences of different lengths")


def _direction(
    site: Site, network: Network, index: int, gates: int, defaults: tuple[str, ...], backward: bool,
    weights: Array, recurrent: Array, batch_first: bool,
) -> Direction:  # fmt: skip
    outputs, batch = network.outputs, network.x.shape[1]
    bias = np.zeros((2 * gates * outputs,), np.float32)
    if site.optional(3) is not None:
        bias = site.array(3, "the biases")[index]
    if bias.shape != (2 * gates * outputs,):
        raise Refusal(f"biases of shape {spelled(bias.shape)}")
    peepholes = site.array(7, "the peepholes")[index] if gates == 4 and site.optional(7) is not None else None
    states = [
        _state(site, position, index, batch, outputs, batch_first) for position in ((5, 6) if gates == 4 else (5,))
    ]
    functions = _functions(site, defaults, index)
    cell = states[1] if gates == 4 else None
    return Direction(weights, recurrent, bias, peepholes, functions, states[0], cell, backward)


def _state(site: Site, position: int, index: int, batch: int, outputs: int, batch_first: bool) -> Value:
    builder = site.builder
    if site.optional(position) is None:
        return builder.constant(np.zeros((batch, outputs), np.float32))
    value = builder.real(site.value(position, FLOAT))
    value = permuted(value, (1, 0, 2)) if batch_first and value.rank == 3 else value
    if value.rank != 3 or value.shape[1:] != (batch, outputs):
        raise Refusal(f"a first state of shape {spelled(value.shape)}")
    one = picked(builder, value, [range(index, index + 1), range(batch), range(outputs)])
    return builder.reshaped(one, (batch, outputs))


def _functions(site: Site, defaults: tuple[str, ...], index: int) -> tuple[Function, ...]:
    names = site.node.attributes.get("activations") or list(defaults) * 2
    count = len(defaults)
    chosen = names[index * count : (index + 1) * count] if len(names) > count else names
    if len(chosen) != count or any(not isinstance(n, str) or n not in SIMPLE for n in chosen):
        raise Refusal(f"activations {names}; {', '.join(SIMPLE)} would be supported")
    builder = site.builder
    return tuple(lambda v, kind=SIMPLE[name]: unary(builder, kind, v) for name in chosen)


def _together(
    builder: Builder, found: list[tuple[Value, Value, Value | None]], batch_first: bool, wanted: int
) -> list[Value]:
    """Return the outputs of all directions side by side."""
    results = []
    steps, batch, outputs = found[0][0].shape
    everything = [builder.reshaped(y, (steps, 1, batch, outputs)) for y, _, _ in found]
    y = joined(builder, everything, 1)
    results.append(permuted(y, (2, 0, 1, 3)) if batch_first else y)
    for part in (1, 2):
        values = [f[part] for f in found]
        if any(value is None for value in values):
            continue
        last = joined(builder, [builder.reshaped(v, (1, batch, outputs)) for v in values if v is not None], 0)
        results.append(permuted(last, (1, 0, 2)) if batch_first else last)
    return results[: max(wanted, 1)]


def _lstm(network: Network, way: Direction) -> tuple[Value, Value, Value | None]:
    standard = all(
        f.__defaults__ == (kind,) for f, kind in zip(way.functions, ("logistic", "tanh", "tanh"), strict=True)
    )
    if standard and way.peepholes is None and not network.forget_input and not network.clip:
        return _by_kernel(network, way)
    return _stepwise(network, way, _lstm_step)


def _by_kernel(network: Network, way: Direction) -> tuple[Value, Value, Value | None]:
    builder, x, size = network.builder, network.x, network.outputs
    steps, batch, features = x.shape
    if way.backward:
        x = picked(builder, x, [range(steps - 1, -1, -1), range(batch), range(features)])
    assert way.cell is not None
    inputs = [builder.natural(permuted(x, (1, 0, 2))), builder.natural(way.hidden), builder.natural(way.cell)]
    bias = way.bias[: 4 * size] + way.bias[4 * size :]
    for gate in (0, 2, 3, 1):  # the file has input, output, forget, cell
        rows = slice(gate * size, (gate + 1) * size)
        inputs += [builder.constant(part[rows]).tensor for part in (way.weights, way.recurrent, bias)]
    attributes: dict[str, Attribute] = {"clip": 0.0}
    count = batch * steps * size
    made = builder.step("lstm", inputs, (count + batch * size,), "float32", attributes)
    flat = Value(made, (count + batch * size,), "float32", (0,))
    all_outputs = builder.reshaped(picked(builder, flat, [range(count)]), (batch, steps, size))
    cell = builder.reshaped(picked(builder, flat, [range(count, count + batch * size)]), (batch, size))
    last = builder.reshaped(
        picked(builder, all_outputs, [range(batch), range(steps - 1, steps), range(size)]), (batch, size)
    )
    y = permuted(all_outputs, (1, 0, 2))
    if way.backward:
        y = picked(builder, y, [range(steps - 1, -1, -1), range(batch), range(size)])
    return y, last, cell


Step = Callable[[Network, Direction, Value, Value, "Value | None"], "tuple[Value, Value | None]"]


def _stepwise(network: Network, way: Direction, step: Step) -> tuple[Value, Value, Value | None]:
    builder, (steps, batch, features) = network.builder, network.x.shape
    if steps > MAX_STEPS:
        raise Refusal(f"{steps} steps one by one; up to {MAX_STEPS} would be supported")
    hidden, cell = way.hidden, way.cell
    found: list[Value] = []
    for index in range(steps - 1, -1, -1) if way.backward else range(steps):
        part = picked(builder, network.x, [range(index, index + 1), range(batch), range(features)])
        hidden, cell = step(network, way, builder.reshaped(part, (batch, features)), hidden, cell)
        found.append(builder.reshaped(hidden, (1, batch, network.outputs)))
    y = joined(builder, found[::-1] if way.backward else found, 0)
    return y, hidden, cell


def _gate(
    network: Network,
    way: Direction,
    gates: int,
    gate: int,
    x: Value,
    hidden: Value | None,
    peephole: Value | None = None,
) -> Value:
    """Return the sum that one gate's function is applied to."""
    builder, size = network.builder, network.outputs
    rows = slice(gate * size, (gate + 1) * size)
    both = way.bias[: gates * size][rows] + (way.bias[gates * size :][rows] if hidden is not None else 0)
    total = connected(builder, x, way.weights[rows], both.astype(np.float32), "none")
    if hidden is not None:
        total = binary(builder, "add", total, connected(builder, hidden, way.recurrent[rows], None, "none"))
    if peephole is not None:
        total = binary(builder, "add", total, peephole)
    return clipped(builder, total, -network.clip, network.clip) if network.clip else total


def _lstm_step(
    network: Network, way: Direction, x: Value, hidden: Value, cell: Value | None
) -> tuple[Value, Value | None]:
    builder, size = network.builder, network.outputs
    assert cell is not None
    f, g, h = way.functions

    def seen(number: int, of: Value) -> Value | None:
        if way.peepholes is None:
            return None
        return binary(builder, "mul", of, builder.constant(way.peepholes[number * size : (number + 1) * size]))

    enter = f(_gate(network, way, 4, 0, x, hidden, seen(0, cell)))
    if network.forget_input:
        forget = binary(builder, "sub", scalar(builder, 1.0), enter)
    else:
        forget = f(_gate(network, way, 4, 2, x, hidden, seen(2, cell)))
    new = g(_gate(network, way, 4, 3, x, hidden))
    kept = binary(builder, "mul", forget, cell)
    after = binary(builder, "add", kept, binary(builder, "mul", enter, new))
    leave = f(_gate(network, way, 4, 1, x, hidden, seen(1, after)))
    return binary(builder, "mul", leave, h(after)), after


def _gru(network: Network, way: Direction) -> tuple[Value, Value, Value | None]:
    return _stepwise(network, way, _gru_step)


def _gru_step(
    network: Network, way: Direction, x: Value, hidden: Value, cell: Value | None
) -> tuple[Value, Value | None]:
    builder, size = network.builder, network.outputs
    f, g = way.functions
    update = f(_gate(network, way, 3, 0, x, hidden))
    reset = f(_gate(network, way, 3, 1, x, hidden))
    rows = slice(2 * size, 3 * size)
    recurrent, own = way.recurrent[rows], way.bias[3 * size :][rows]
    if network.linear_before_reset:
        inner = binary(builder, "mul", reset, connected(builder, hidden, recurrent, own, "none"))
    else:
        inner = connected(builder, binary(builder, "mul", reset, hidden), recurrent, own, "none")
    total = binary(builder, "add", _gate(network._replace(clip=0.0), way, 3, 2, x, None), inner)
    new = g(clipped(builder, total, -network.clip, network.clip) if network.clip else total)
    # (1 - z) * n + z * h, as n + z * (h - n)
    return binary(builder, "add", new, binary(builder, "mul", update, binary(builder, "sub", hidden, new))), None


def _rnn(network: Network, way: Direction) -> tuple[Value, Value, Value | None]:
    def step(network: Network, way: Direction, x: Value, hidden: Value, cell: Value | None) -> tuple[Value, None]:
        return way.functions[0](_gate(network, way, 1, 0, x, hidden)), None

    return _stepwise(network, way, step)
