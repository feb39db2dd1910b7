"""Small models that together need each kernel that `every_kernel.py` does not, one model for each family."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from detection_models import Detector, anchors, postprocess
from tflite_builder import ModelBuilder


class Net:
    """Adds operators to a model; `add` names the output's type and quantization where they are not the default."""

    def __init__(self, dtype: str = "float32", scale: float | None = None) -> None:
        self.model = ModelBuilder()
        self.dtype, self.scale = dtype, scale
        self.rng = np.random.default_rng(3)
        self.count = 0

    def tensor(self, shape: tuple[int, ...], dtype: str | None = None, **more: Any) -> int:
        self.count += 1
        of = dtype or self.dtype
        if of == self.dtype and self.scale is not None and not more:
            more = {"scale": self.scale, "zero_point": 0}
        return self.model.tensor(f"t{self.count}", shape, of, **more)

    def add(self, kind: str, inputs: list[int], shape: tuple[int, ...], dtype: str | None = None, *,
            quantized: dict[str, Any] | None = None, **options: Any) -> int:  # fmt: skip
        output = self.tensor(shape, dtype, **(quantized or {}))
        self.model.operator(kind, inputs, [output], **options)
        return output

    def ints(self, values: Any) -> int:
        self.count += 1
        return self.model.constant(f"i{self.count}", np.array(values, np.int32))

    def floats(self, *shape: int) -> int:
        self.count += 1
        return self.model.constant(f"f{self.count}", self.rng.normal(0, 0.4, shape).astype(np.float32))

    def bytes_(self, shape: tuple[int, ...], scale: float = 0.01, zero_point: int = 0) -> int:
        self.count += 1
        values = self.rng.integers(-127, 128, shape).astype(np.int8)
        return self.model.constant(f"b{self.count}", values, scale=scale, zero_point=zero_point)


def floats() -> bytes:
    """Moves, functions and products of floats."""
    net = Net()
    x = net.model.input("x", (1, 6, 4, 3), "float32")
    x = net.add("TRANSPOSE", [x, net.ints([0, 2, 1, 3])], (1, 4, 6, 3))
    x = net.add("MIRROR_PAD", [x, net.ints([[0, 0], [1, 1], [0, 0], [0, 0]])], (1, 6, 6, 3), options="MirrorPadOptions")
    x = net.add("RESIZE_BILINEAR", [x, net.ints([5, 7])], (1, 5, 7, 3))
    shape = net.ints([1, 10, 14, 2])
    x = net.add("TRANSPOSE_CONV", [shape, net.floats(2, 2, 2, 3), x, net.floats(2)], (1, 10, 14, 2), padding="SAME",
                stride_h=2, stride_w=2, version=3)  # fmt: skip
    x = net.add("SUB", [x, net.floats(2)], (1, 10, 14, 2))
    x = net.add("TANH", [x], (1, 10, 14, 2))
    y = net.add("SUM", [x, net.ints([1])], (1, 14, 2), options="ReducerOptions")
    z = net.add("RESHAPE", [y, net.ints([1, 2, 14])], (1, 2, 14))
    x = net.add("BATCH_MATMUL", [y, z], (1, 14, 14), options="BatchMatMulOptions")
    x = net.add("LOG_SOFTMAX", [x], (1, 14, 14))
    y = net.add("L2_NORMALIZATION", [x], (1, 14, 14), options="L2NormOptions")
    c = net.add("LESS", [x, y], (1, 14, 14), "bool")
    x = net.add("SELECT_V2", [c, x, y], (1, 14, 14))
    i = net.add("ARG_MAX", [x, net.ints(2)], (1, 14), "int32", options="ArgMaxOptions", output_type=2)
    i = net.add("FLOOR_DIV", [i, net.ints([3])], (1, 14), "int32")
    i = net.add("RESHAPE", [i, net.ints([14])], (14,), "int32")
    x = net.add("GATHER", [x, i], (1, 14, 14), axis=1)
    f = net.add("CAST", [i], (14,))
    return net.model.outputs(x, f).build()


def integers() -> bytes:
    """int16 filters and pools, uint8 at the border, and int8 where other kernels do not fit."""
    net = Net("int16", 0.001)
    q8 = dict(scale=0.05, zero_point=-7)
    a = net.model.input("a", (1, 8, 6, 4), "int8", **q8)
    low = net.add("MAXIMUM", [a, net.bytes_((4,), 0.05, -7)], (1, 8, 6, 4), "int8", quantized=q8)
    low = net.add("SUB", [low, a], (1, 8, 6, 4), "int8", quantized=dict(scale=0.1, zero_point=3))
    low = net.add("RESIZE_BILINEAR", [low, net.ints([4, 3])], (1, 4, 3, 4), "int8",
                  quantized=dict(scale=0.1, zero_point=3))  # fmt: skip
    up = net.tensor((1, 4, 3, 4))
    net.model.operator("QUANTIZE", [low], [up])
    w = net.bytes_((6, 3, 3, 4))
    x = net.add("CONV_2D", [up, w, -1], (1, 4, 3, 6), padding="SAME")
    x = net.add("TRANSPOSE_CONV", [net.ints([1, 8, 6, 2]), net.bytes_((2, 2, 2, 6)), x], (1, 8, 6, 2), padding="SAME",
                stride_h=2, stride_w=2)  # fmt: skip
    y = net.add("MAX_POOL_2D", [x], (1, 4, 3, 2), filter_height=2, filter_width=2, stride_h=2, stride_w=2,
                padding="VALID")  # fmt: skip
    y = net.add("ADD", [y, y], (1, 4, 3, 2))
    y = net.add("MUL", [y, y], (1, 4, 3, 2))
    y = net.add("FULLY_CONNECTED", [y, net.bytes_((5, 24)), -1], (1, 5))
    p = net.tensor((1, 5), scale=1 / 32768, zero_point=0)
    net.model.operator("SOFTMAX", [y], [p], beta=1.0)
    f = net.add("DEQUANTIZE", [p], (1, 5), "float32")
    back = net.add("QUANTIZE", [f], (1, 5))
    left = net.model.input("left", (2, 3, 1, 2), "int8", **q8)
    right = net.model.input("right", (2, 2, 1, 2), "int8", **q8)
    joined = net.add("CONCATENATION", [left, right], (2, 5, 1, 2), "int8", quantized=q8, axis=1)
    return net.model.outputs(back, joined).build()


def recurrent() -> bytes:
    """SVDF and LSTM, with what they keep between runs, and softmax to int16."""
    net = Net("int8", 0.05)
    x = net.model.input("x", (1, 6), "int8", scale=0.05, zero_point=0)
    memory = net.model.tensor("memory", (1, 40), "int16", scale=0.001, is_variable=True)
    times = net.model.constant("times", net.rng.integers(-900, 900, (8, 5)).astype(np.int16), scale=0.0005)
    bias = net.model.constant("bias", net.rng.integers(-50, 50, 4).astype(np.int32), scale=5e-7)
    s = net.tensor((1, 4))
    net.model.operator("SVDF", [x, net.bytes_((8, 6)), times, bias, memory], [s], options="SVDFOptions", rank=2,
                       fused_activation_function="RELU")  # fmt: skip
    wide = net.tensor((1, 4), "int16", scale=1 / 65536, zero_point=-32768)
    net.model.operator("SOFTMAX", [s], [wide], beta=1.0)
    y = net.model.input("y", (1, 3, 4), "int8", scale=0.05, zero_point=0)
    outputs = [wide, _lstm(net, y, "int8")]
    z = net.model.input("z", (1, 3, 4), "float32")
    outputs.append(_lstm(net, z, "float32"))
    return net.model.outputs(*outputs).build()


def _lstm(net: Net, x: int, dtype: str) -> int:
    def weights(*shape: int) -> int:
        return net.floats(*shape) if dtype == "float32" else net.bytes_(shape)

    def biases() -> int:
        if dtype == "float32":
            return net.floats(5)
        net.count += 1
        return net.model.constant(f"lb{net.count}", net.rng.integers(-300, 300, 5).astype(np.int32), scale=0.0005)

    scale = {} if dtype == "float32" else {"scale": 2.0**-7, "zero_point": 0}
    cells = {} if dtype == "float32" else {"scale": 2.0**-11, "zero_point": 0}
    hidden = net.model.tensor(f"hidden_{dtype}", (1, 5), dtype, is_variable=True, **scale)
    cell = net.model.tensor(
        f"cell_{dtype}", (1, 5), "float32" if dtype == "float32" else "int16", is_variable=True, **cells
    )
    inputs = [x, *(weights(5, 4) for _ in range(4)), *(weights(5, 5) for _ in range(4)), -1, -1, -1]
    inputs += [*(biases() for _ in range(4)), -1, -1, hidden, cell, -1, -1, -1, -1]
    y = net.model.tensor(f"sequence_{dtype}", (1, 3, 5), dtype, **scale)
    net.model.operator("UNIDIRECTIONAL_SEQUENCE_LSTM", inputs, [y], options="UnidirectionalSequenceLSTMOptions",
                       fused_activation_function="TANH", cell_clip=10.0)  # fmt: skip
    return y


def scaled() -> bytes:
    """Functions and products of int8 and of int16 that only transformers and denoisers have."""
    net = Net("int8", 0.05)
    x = net.model.input("x", (1, 4, 6), "int8", scale=0.05, zero_point=0)
    x = net.add("PRELU", [x, net.bytes_((1, 1, 6), 0.01, 3)], (1, 4, 6))
    z = net.model.input("z", (1, 6, 5), "int8", scale=0.1, zero_point=7)
    product = net.add("BATCH_MATMUL", [x, z], (1, 4, 5), options="BatchMatMulOptions")
    square = net.add("SQUARED_DIFFERENCE", [product, net.bytes_((5,), 0.05, 0)], (1, 4, 5))
    wide = Net("int16", 0.001)
    wide.model, wide.rng, wide.count = net.model, net.rng, 100
    a = net.model.input("a", (1, 4, 6), "int16", scale=0.001, zero_point=0)
    b = net.model.input("b", (1, 6, 5), "int16", scale=0.001, zero_point=0)
    a = wide.add("LEAKY_RELU", [a], (1, 4, 6), alpha=0.25)
    c = wide.add("BATCH_MATMUL", [a, b], (1, 4, 5), options="BatchMatMulOptions")
    unit = dict(scale=1 / 32768, zero_point=0)
    gates = [wide.add(kind, [c], (1, 4, 5), quantized=unit) for kind in ("LOGISTIC", "TANH")]
    most = net.model.tensor("most", (1, 4, 5), "int16", **unit)
    net.model.operator("MAXIMUM", gates, [most], options="MaximumMinimumOptions")
    length = net.add("L2_NORMALIZATION", [square], (1, 4, 5), quantized=dict(scale=1 / 128, zero_point=0))
    root = wide.add("RSQRT", [most], (1, 4, 5))
    return net.model.outputs(length, root).build()


def resized() -> bytes:
    """Images of int16, larger; TFLite Micro has no such kernel."""
    net = Net("int16", 0.001)
    image = net.model.input("image", (1, 3, 4, 2), "int16", scale=0.001, zero_point=0)
    return net.model.outputs(net.add("RESIZE_BILINEAR", [image, net.ints([5, 7])], (1, 5, 7, 2))).build()


def detections() -> bytes:
    """The ends of two object detectors, one of int8 and one of floats, each with the other way to choose boxes."""
    net = Net()
    outputs = []
    for dtype, more in (("int8", {"scale": 0.01, "zero_point": -3}), ("float32", {})):
        boxes = net.model.input(f"boxes_{dtype}", (1, 12, 4), dtype, **more)
        scores = net.model.input(f"scores_{dtype}", (1, 12, 4), dtype, **more)
        setting = Detector(boxes=12, classes=3, most=4, per_class=dtype == "float32", slots=2)
        outputs += postprocess(net.model, boxes, scores, setting, anchors(setting.boxes, 7))
    return net.model.outputs(*outputs).build()


def raw() -> bytes:
    """What only ONNX models have: integers without a scale, and convolutions of floats in groups."""
    from onnx import TensorProto, helper

    from onnx_models import network

    weights = np.random.default_rng(5).normal(size=(6, 2, 3, 3)).astype(np.float32)
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["y"], group=3, pads=[1, 1, 1, 1], strides=[2, 1], dilations=[1, 2]),
        helper.make_node("Mul", ["i", "i"], ["j"]),
        helper.make_node("Sub", ["j", "k"], ["z"]),
    ]
    constants = {"w": weights, "k": np.arange(3)}
    shapes = {"x": [1, 6, 7, 8], "i": [1, 2, 4, 3]}
    dtypes = {"i": TensorProto.INT64, "z": TensorProto.INT64}
    return network(nodes, shapes, ["y", "z"], constants, dtypes=dtypes).SerializeToString()


FAMILIES = {
    make.__name__: make for make in (floats, integers, recurrent, scaled, resized, detections)
}  # fmt: skip
ONNX_FAMILIES = {"raw": raw}


def files() -> dict[str, tuple[str, Callable[[], bytes]]]:
    """Return of every family the ending of its files, and what makes one."""
    found = {family: (".tflite", make) for family, make in FAMILIES.items()}
    return found | {family: (".onnx", make) for family, make in ONNX_FAMILIES.items()}
