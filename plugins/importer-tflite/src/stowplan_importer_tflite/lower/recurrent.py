"""SVDF and UNIDIRECTIONAL_SEQUENCE_LSTM: operators that remember something from one run to the next."""

from __future__ import annotations

from stowplan.flow.graph import ABSENT
from stowplan_importer_tflite import schema
from stowplan_importer_tflite.lower.convolution import widened
from stowplan_importer_tflite.lower.rearranging import rearranged
from stowplan_importer_tflite.parse import shown, spelled
from stowplan_importer_tflite.site import (
    Conversion,
    Mismatch,
    Refusal,
    Site,
    Value,
    check_rescale,
    check_same_quantization,
    scale_of,
)

RELU = "relu"
UNBOUNDED = {"activation": "unbounded"}


def svdf(site: Site) -> list[Conversion]:
    """Its inputs are x, feature weights, time weights, biases or none, and the memory, a variable."""
    site.arity(5, 5)
    if site.value(0).dtype == "float32":
        return _svdf_of_floats(site)
    x, y = site.activation(0), site.result("int8")
    state = site.activation(4, ("int8", "int16"))
    feature, time, rank = _filters(site, x)
    if feature.dtype != "int8" or time.dtype != state.dtype:
        raise Refusal(f"{feature.dtype} and {time.dtype} weights beside a memory of {state.dtype}")
    for weights in (feature, time):
        if weights.quantization is None or weights.quantization.per_channel or any(weights.quantization.zero_points):
            raise Refusal(f"weights {shown(weights.name)} need one scale and zero point 0")
    if state.shape != (x.shape[0], feature.shape[0] * time.shape[1]):
        raise Mismatch(f"a memory of shape {spelled(state.shape)} for {feature.shape[0]} filters")
    assert feature.quantization is not None
    check_rescale(scale_of(x) * feature.quantization.scale / scale_of(state))
    moved = site.new(state.shape, state.dtype, state.quantization, None)
    site.keep(4, moved)
    bias = site.optional(3)
    if bias is not None and (bias.dtype != "int32" or bias.data is None or bias.elements * rank != feature.shape[0]):
        raise Refusal(f"biases {shown(bias.name)}; a constant of int32 for each output would be supported")
    inputs = (moved.tensor, time.tensor, *([] if bias is None else [bias.tensor]))
    state_step = Conversion(
        "svdf_state", (x.tensor, feature.tensor, state.tensor), state.shape, {"memory": time.shape[1]}, moved.tensor
    )
    return [
        state_step,
        Conversion("svdf_output", inputs, (x.shape[0], feature.shape[0] // rank), {"rank": rank}, y.tensor),
    ]


def _filters(site: Site, x: Value) -> tuple[Value, Value, int]:
    """Return feature weights, time weights and how many filters make one output."""
    feature, time = site.constant(1, "feature weights"), site.constant(2, "time weights")
    rank = site.options().integer(schema.SVDFField.RANK)
    if site.activation_function(schema.SVDFField.ACTIVATION) not in ("none", RELU):
        raise Refusal("a fused activation; NONE and RELU would be supported")
    if len(feature.shape) != 2 or len(time.shape) != 2 or len(x.shape) != 2 or rank < 1 or feature.shape[0] % rank:
        raise Mismatch(f"weights of shapes {spelled(feature.shape)} and {spelled(time.shape)} of rank {rank}")
    if feature.shape[0] != time.shape[0] or feature.shape[1] != x.shape[1] or 0 in time.shape:
        raise Mismatch(f"weights of shapes {spelled(feature.shape)} and {spelled(time.shape)} for {spelled(x.shape)}")
    return feature, time, rank


def _svdf_of_floats(site: Site) -> list[Conversion]:
    """Of floats it is a product, a memory that moves on by one, and a sum over products with that."""
    x, y, state = site.activation(0), site.result("float32"), site.activation(4, ("float32",))
    feature, time, rank = _filters(site, x)
    feature, time = (w if w.dtype == "float32" else widened(site, w) for w in (feature, time))
    (batches, _), (filters, memory), units = x.shape, time.shape, feature.shape[0] // rank
    if state.shape != (batches, filters * memory):
        raise Mismatch(f"a memory of shape {spelled(state.shape)} for {filters} filters of {memory}")

    def new(*shape: int) -> Value:
        return site.new(shape, "float32", None, None)

    newest, wide, moved, kept = new(batches, filters), new(batches, filters, 1), new(batches, filters, memory), None
    steps = [
        Conversion("fully_connected", (x.tensor, feature.tensor, ABSENT), newest.shape, UNBOUNDED, newest.tensor),
        Conversion("reshape", (newest.tensor,), wide.shape, output=wide.tensor),
    ]
    if memory > 1:
        kept = new(batches, filters, memory - 1)
        axes = [(batches, filters * memory), (filters, memory), (memory - 1, 1)]
        steps.append(rearranged(state, kept.shape, axes, 1, kept.tensor))
    joined = (wide.tensor,) if kept is None else (kept.tensor, wide.tensor)
    after, products = new(*state.shape), new(batches, filters, memory)
    sums, by_unit = new(batches, units), new(batches, units, rank * memory)
    site.keep(4, after)
    return [
        *steps,
        Conversion("concatenation", joined, moved.shape, {"axis": 2}, moved.tensor),
        Conversion("reshape", (moved.tensor,), after.shape, output=after.tensor),
        Conversion("mul", (moved.tensor, time.tensor), products.shape, UNBOUNDED, products.tensor),
        Conversion("reshape", (products.tensor,), by_unit.shape, output=by_unit.tensor),
        Conversion("reduce", (by_unit.tensor,), sums.shape, {"function": "sum", "axes": (2,)}, sums.tensor),
        _biased(site, sums, y),
    ]


def _biased(site: Site, sums: Value, y: Value) -> Conversion:
    activation = site.activation_function(schema.SVDFField.ACTIVATION)
    bias = site.optional(3)
    if bias is None:
        return Conversion("relu" if activation == RELU else "copy", (sums.tensor,), sums.shape, output=y.tensor)
    if bias.dtype != "float32" or bias.data is None or bias.shape != sums.shape[1:]:
        raise Refusal(f"biases {shown(bias.name)}; a constant of float32 for each output would be supported")
    return Conversion("add", (sums.tensor, bias.tensor), sums.shape, {"activation": activation}, y.tensor)


LSTM_INPUTS = 24
PEEPHOLES, PROJECTION, NORMALIZATION = range(9, 12), range(16, 18), range(20, 24)
HIDDEN, CELL = 18, 19


def lstm(site: Site) -> list[Conversion]:
    """Four gates (input, forget, cell, output) with weights of x from 1 on, of the output from 5, biases from 12."""
    site.arity(20, LSTM_INPUTS)
    for extra, word in ((PEEPHOLES, "peepholes"), (PROJECTION, "a projection"), (NORMALIZATION, "layer normalization")):
        if any(site.optional(position) is not None for position in extra):
            raise Refusal(f"{word}; an LSTM without would be supported")
    table, field = site.options(), schema.LSTMField
    if table.flag(field.TIME_MAJOR) and site.value(0).shape[:1] != (1,):
        raise Refusal("time before batch; the batch first would be supported")
    if site.activation_word(field.ACTIVATION) != "TANH":
        raise Refusal("an activation other than TANH")
    x, y = site.activation(0), site.result(site.value(0).dtype)
    hidden, cell = site.activation(HIDDEN, (x.dtype,)), site.activation(CELL, ("float32", "int16"))
    if len(x.shape) != 3 or len(hidden.shape) != 2 or (cell.dtype == "float32") != (x.dtype == "float32"):
        raise Mismatch(f"an input of shape {spelled(x.shape)} with a state of shape {spelled(hidden.shape)}")
    gates = []
    for gate in range(4):
        words = ("weights of the input", "weights of the output", "biases")
        found = [site.constant(p + gate, word) for p, word in zip((1, 5, 12), words, strict=True)]
        if {found[0].dtype, found[1].dtype} != {x.dtype}:
            raise Refusal(f"{found[0].dtype} weights with {x.dtype} activations")
        gates += [value.tensor for value in found]
    check_same_quantization(y, hidden)
    return _lstm_steps(site, (x, hidden, cell, y), gates, table.scalar(field.CELL_CLIP, "f"))


def _lstm_steps(
    site: Site, values: tuple[Value, Value, Value, Value], gates: list[int], clip: float
) -> list[Conversion]:
    """One operator makes all outputs and the cell; the steps behind it take these apart."""
    x, hidden, cell, y = values
    batches, steps, _ = x.shape
    outputs = hidden.shape[1]
    count, state = batches * steps * outputs, batches * outputs
    wide = 1 if x.dtype == "float32" else 2
    packed = site.new((count + wide * state,), x.dtype, hidden.quantization, None)
    last = site.new(hidden.shape, hidden.dtype, hidden.quantization, None)
    cells = site.new((wide * state,), x.dtype, hidden.quantization, None)
    kept = site.new(cell.shape, cell.dtype, cell.quantization, None)
    site.keep(HIDDEN, last)
    site.keep(CELL, kept)
    inputs = (x.tensor, hidden.tensor, cell.tensor, *gates)
    ends = [(batches, steps * outputs), (outputs, 1)]
    return [
        Conversion("lstm", inputs, packed.shape, {"clip": clip}, packed.tensor),
        rearranged(packed, last.shape, ends, (steps - 1) * outputs, last.tensor),
        rearranged(packed, cells.shape, [(wide * state, 1)], count, cells.tensor),
        Conversion("reshape" if wide == 1 else "bitcast", (cells.tensor,), cell.shape, output=kept.tensor),
        rearranged(packed, (batches, steps, outputs), [(count, 1)], 0, y.tensor),
    ]
