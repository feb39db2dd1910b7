"""A small model whose plan needs the kernel of every node kind of its type, made with random weights."""

from __future__ import annotations

from typing import Any

import numpy as np

from tflite_builder import ModelBuilder


class _Net:
    """Adds operators to a model, each with an output tensor of the right type."""

    def __init__(self, dtype: str) -> None:
        self.model = ModelBuilder()
        self.dtype = dtype
        self.rng = np.random.default_rng(5)
        self.count = 0

    @property
    def quantization(self) -> dict[str, Any]:
        return {"scale": 0.05, "zero_point": -7} if self.dtype == "int8" else {}

    def activation(self, shape: tuple[int, ...], **quantization: Any) -> int:
        self.count += 1
        return self.model.tensor(f"t{self.count}", shape, self.dtype, **(quantization or self.quantization))

    def weights(self, shape: tuple[int, ...], channels: int, axis: int) -> tuple[int, int]:
        """Return weights and bias for `channels` outputs along `axis`."""
        self.count += 1
        name = f"w{self.count}"
        if self.dtype == "float32":
            w = self.rng.normal(0, 0.3, shape).astype(np.float32)
            return self.model.constant(name, w), self.model.constant(name + "b", w.ravel()[:channels].copy())
        values = self.rng.integers(-127, 128, shape).astype(np.int8)
        scales = self.rng.uniform(0.002, 0.01, channels).astype(np.float32)
        bias = self.rng.integers(-500, 500, channels).astype(np.int32)
        w = self.model.constant(name, values, scale=scales.tolist(), axis=axis)
        return w, self.model.constant(name + "b", bias, scale=(scales * np.float32(0.05)).tolist(), axis=0)

    def add(self, kind: str, inputs: list[int], shape: tuple[int, ...], **options: Any) -> int:
        output = self.activation(shape)
        self.model.operator(kind, inputs, [output], **options)
        return output

    def ints(self, values: list[Any]) -> int:
        self.count += 1
        return self.model.constant(f"i{self.count}", np.array(values, np.int32))


def model_with_every_kernel(dtype: str) -> bytes:
    """Return a .tflite of 12x12x3 to 5, in int8 (with a float32 interface) or in float32."""
    net = _Net(dtype)
    model = net.model
    source = model.input("image", (1, 12, 12, 3), "float32")
    x = source
    if dtype == "int8":
        x = net.add("QUANTIZE", [source], (1, 12, 12, 3))
    w, b = net.weights((8, 3, 3, 3), 8, 0)
    x = net.add("CONV_2D", [x, w, b], (1, 12, 12, 8), padding="SAME", fused_activation_function="RELU6")
    w, b = net.weights((1, 3, 3, 8), 8, 3)
    y = net.add("DEPTHWISE_CONV_2D", [x, w, b], (1, 12, 12, 8), padding="SAME")
    x = net.add("ADD", [x, y], (1, 12, 12, 8), fused_activation_function="RELU")
    pool = {"filter_height": 2, "filter_width": 2, "stride_h": 2, "stride_w": 2, "padding": "VALID"}
    y = net.add("MAX_POOL_2D", [x], (1, 6, 6, 8), **pool)
    z = net.add("AVERAGE_POOL_2D", [x], (1, 6, 6, 8), **pool)
    x = net.add("CONCATENATION", [y, z], (1, 6, 6, 16), axis=3)
    x = net.add("PAD", [x, net.ints([[0, 0], [1, 1], [2, 0], [0, 0]])], (1, 8, 8, 16))
    x = net.add("RELU", [x], (1, 8, 8, 16))
    y = net.add("MEAN", [x, net.ints([1, 2])], (1, 1, 1, 16), keep_dims=True)
    x = net.add("MUL", [x, y], (1, 8, 8, 16))
    w, b = net.weights((6, 1, 1, 16), 6, 0)
    x = net.add("CONV_2D", [x, w, b], (1, 4, 4, 6), padding="VALID", stride_h=2, stride_w=2)
    x = net.add("RELU6", [x], (1, 4, 4, 6))
    y = net.add("AVERAGE_POOL_2D", [x], (1, 1, 1, 6), filter_height=4, filter_width=4, padding="VALID")
    y = net.add("RESHAPE", [y, net.ints([1, 6])], (1, 6), new_shape=[1, 6])
    w, b = net.weights((5, 96), 5, 0)
    x = net.add("RESHAPE", [x, net.ints([1, 96])], (1, 96), new_shape=[1, 96])
    x = net.add("FULLY_CONNECTED", [x, w, b], (1, 5))
    if dtype == "float32":
        x = net.add("LOGISTIC", [x], (1, 5))
        return model.outputs(net.add("SOFTMAX", [x], (1, 5), beta=1.0), y).build()
    soft = net.activation((1, 5), scale=1 / 256, zero_point=-128)
    model.operator("SOFTMAX", [x], [soft], beta=1.0)
    result = model.tensor("scores", (1, 5), "float32")
    model.operator("DEQUANTIZE", [soft], [result])
    return model.outputs(result, y).build()
