"""Random models of one operator each, for comparing kernels with the runtimes that decide what a model means."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from tflite_builder import ModelBuilder

ACTIVATIONS = ("NONE", "RELU", "RELU6", "RELU_N1_TO_1")
Make = Callable[["Sampler"], bytes]


class Sampler:
    """Random sizes and numbers for models of one dtype, int8 or float32."""

    def __init__(self, dtype: str, seed: int) -> None:
        self.dtype = dtype
        self.random = np.random.default_rng([seed, len(dtype)])
        self.model = ModelBuilder()

    @property
    def quantized(self) -> bool:
        return self.dtype == "int8"

    def number(self, low: int, high: int) -> int:
        return int(self.random.integers(low, high + 1))

    def choice(self, values: tuple[str, ...]) -> str:
        return values[self.number(0, len(values) - 1)]

    def scale(self, low: float = -2.5, high: float = -0.5) -> float:
        return float(np.float32(10 ** self.random.uniform(low, high)))

    def quantization(self, scale: float | None = None) -> dict[str, Any]:
        """Keywords of an activation: a scale, and a zero point that is often at an end or 0."""
        if not self.quantized:
            return {}
        points = (-128, 127, 0, self.number(-128, 127), self.number(-128, 127))
        return {"scale": self.scale() if scale is None else scale, "zero_point": points[self.number(0, 4)]}

    def input(self, shape: tuple[int, ...], **more: Any) -> int:
        return self.model.input("x", shape, self.dtype, **(more or self.quantization()))

    def weights(self, shape: tuple[int, ...], axis: int, source_scale: float) -> tuple[int, int, float]:
        """Add weights and, mostly, biases; returns both and the real size of a typical sum over one output.

        A depthwise convolution always gets biases, as TFLite Micro crashes without, and so do float convolutions,
        which LiteRT refuses without.
        """
        channels = shape[axis]
        biased = axis == 3 or (len(shape) == 4 and not self.quantized) or self.number(0, 4) > 0
        if not self.quantized:
            w = self.model.constant("w", self.random.standard_normal(shape).astype(np.float32))
            bias = self.random.standard_normal(channels).astype(np.float32)
            return w, self.model.constant("b", bias) if biased else -1, 1.0
        per_channel = self.number(0, 2) > 0
        scales = [self.scale(-3.5, -1.5) for _ in range(channels if per_channel else 1)]
        w = self.model.constant(
            "w", self.random.integers(-127, 128, shape).astype(np.int8), scale=scales, axis=axis if per_channel else 0
        )
        bias_scales = [float(np.float32(source_scale * scale)) for scale in scales]
        bias = self.random.integers(-3000, 3000, channels).astype(np.int32)
        b = self.model.constant("b", bias, scale=bias_scales, axis=0) if biased else -1
        taps = math.prod(shape) / channels
        return w, b, source_scale * max(scales) * 75 * 60 * math.sqrt(taps)

    def finish(self, kind: str, inputs: list[int], shape: tuple[int, ...], typical: float, **options: Any) -> bytes:
        """Add the output, scaled so that a typical sum spans much of its range, and the operator."""
        scale = float(np.float32(typical / self.random.uniform(60, 300))) if self.quantized else None
        y = self.model.tensor("y", shape, self.dtype, **self.quantization(scale))
        self.model.operator(kind, inputs, [y], **options)
        return self.model.outputs(y).build()


class WideSampler(Sampler):
    """As `Sampler`, with channels beyond the widest register, and now and then scales that make sums shift left."""

    def number(self, low: int, high: int) -> int:
        wide = 9 <= high <= 40 and self.random.integers(0, 3) == 0
        return super().number(low, 4 * high if wide else high)

    def finish(self, kind: str, inputs: list[int], shape: tuple[int, ...], typical: float, **options: Any) -> bytes:
        return super().finish(kind, inputs, shape, typical * (1e-5 if self.number(0, 3) == 0 else 1), **options)


def out_size(size: int, kernel: int, stride: int, dilation: int, padding: str) -> int:
    reach = (kernel - 1) * dilation + 1
    return -(-size // stride) if padding == "SAME" else max(0, (size - reach) // stride + 1)


Window = tuple[dict[str, Any], tuple[int, int, int], tuple[int, int], tuple[int, int]]


def _window(s: Sampler, dilated: bool) -> Window:
    """Draw a window that fits an image: its options, the image (N, H, W), the kernel and the output (H, W)."""
    padding = s.choice(("SAME", "VALID"))
    kernel = (s.number(1, 4), s.number(1, 4))
    dilation = (s.number(1, 2), s.number(1, 3)) if dilated and s.number(0, 2) == 0 else (1, 1)
    stride = (1, 1) if max(dilation) > 1 else (s.number(1, 3), s.number(1, 3))
    reach = [(k - 1) * d + 1 for k, d in zip(kernel, dilation, strict=True)]
    size = [r + s.number(0, 6) if padding == "VALID" else s.number(1, 9) for r in reach]
    out = [out_size(size[i], kernel[i], stride[i], dilation[i], padding) for i in (0, 1)]
    options: dict[str, Any] = dict(padding=padding, stride_h=stride[0], stride_w=stride[1])
    options["fused_activation_function"] = s.choice(ACTIVATIONS)
    if dilated:
        options |= dict(dilation_h_factor=dilation[0], dilation_w_factor=dilation[1])
    return options, (s.number(1, 2), size[0], size[1]), kernel, (out[0], out[1])


def conv_2d(s: Sampler) -> bytes:
    options, image, kernel, out = _window(s, dilated=True)
    channels, outputs = s.number(1, 9), s.number(1, 10)
    source = s.quantization()
    x = s.input((*image, channels), **source)
    w, b, typical = s.weights((outputs, *kernel, channels), 0, source.get("scale", 1.0))
    return s.finish("CONV_2D", [x, w, b], (image[0], *out, outputs), typical, **options)


def depthwise_conv_2d(s: Sampler) -> bytes:
    options, image, kernel, out = _window(s, dilated=True)
    channels, multiplier = s.number(1, 40), s.number(1, 3)
    source = s.quantization()
    x = s.input((*image, channels), **source)
    w, b, typical = s.weights((1, *kernel, channels * multiplier), 3, source.get("scale", 1.0))
    shape = (image[0], *out, channels * multiplier)
    return s.finish("DEPTHWISE_CONV_2D", [x, w, b], shape, typical, depth_multiplier=multiplier, **options)


def fully_connected(s: Sampler) -> bytes:
    """Vectors lie in rows of their own, several in a row, or across several rows; leading axes stay or are merged."""
    lead, row, outputs = (s.number(1, 3), s.number(1, 3)), s.number(1, 20), s.number(1, 20)
    across, keep = s.number(0, 2) == 0, bool(s.number(0, 1))
    features = lead[1] * row if across else row
    source = s.quantization()
    x = s.input((lead[0], lead[1], 1, row) if across else (*lead, row), **source)
    w, b, typical = s.weights((outputs, features), 0, source.get("scale", 1.0))
    shape = (lead[0], outputs) if across else (*lead, outputs) if keep else (lead[0] * lead[1], outputs)
    options = dict(fused_activation_function=s.choice(ACTIVATIONS), keep_num_dims=keep and not across)
    return s.finish("FULLY_CONNECTED", [x, w, b], shape, typical, **options)


def add(s: Sampler) -> bytes:
    return _binary(s, "ADD")


def mul(s: Sampler) -> bytes:
    return _binary(s, "MUL")


def _binary(s: Sampler, kind: str) -> bytes:
    """Two inputs, or one and a constant; now and then one of them is broadcast along some axes."""
    shape = tuple(s.number(1, 6) for _ in range(s.number(1, 4)))
    other = tuple(1 if s.number(0, 3) == 0 else n for n in shape) if s.number(0, 1) else shape
    a, b = s.quantization(), s.quantization()
    x = s.model.input("x", shape, s.dtype, **a)
    if s.number(0, 1):
        y = s.model.input("b", other, s.dtype, **b)
    else:
        values = s.random.integers(-128, 128, other) if s.quantized else s.random.standard_normal(other)
        y = s.model.constant("b", values.astype(s.dtype), **b)
    inputs = [x, y] if s.number(0, 1) else [y, x]
    scales = (a.get("scale", 1.0), b.get("scale", 1.0))
    typical = 150 * max(scales) if kind == "ADD" else 150 * 150 * scales[0] * scales[1]
    return s.finish(kind, inputs, shape, typical, fused_activation_function=s.choice(ACTIVATIONS))


def average_pool_2d(s: Sampler) -> bytes:
    return _pool(s, "AVERAGE_POOL_2D")


def max_pool_2d(s: Sampler) -> bytes:
    return _pool(s, "MAX_POOL_2D")


def _pool(s: Sampler, kind: str) -> bytes:
    options, image, kernel, out = _window(s, dilated=False)
    channels, one = s.number(1, 40), s.quantization()
    if s.number(0, 2) == 0:  # over the whole height of one image, which can run by input rows
        image, kernel = (1, *image[1:]), (image[1], min(kernel[1], image[2]))
        options |= dict(padding="VALID", stride_w=1)
        out = (1, image[2] - kernel[1] + 1)
    x = s.input((*image, channels), **one)
    y = s.model.tensor("y", (image[0], *out, channels), s.dtype, **one)
    s.model.operator(kind, [x], [y], filter_height=kernel[0], filter_width=kernel[1], **options)
    return s.model.outputs(y).build()


def mean(s: Sampler) -> bytes:
    rank = s.number(2, 4)
    shape = tuple(1 if rank == 4 and axis == 0 and s.number(0, 1) else s.number(1, 7) for axis in range(rank))
    allowed = [axis for axis in range(rank) if rank < 4 or axis > 0]
    axes = [axis for axis in allowed if s.number(0, 1)] or [allowed[-1]]
    keep = bool(s.number(0, 1))
    out = tuple(1 if axis in axes else n for axis, n in enumerate(shape) if keep or axis not in axes)
    source = s.quantization()
    x = s.input(shape, **source)
    axis_tensor = s.model.constant("axes", np.array(axes, np.int32))
    typical = 100 * source.get("scale", 1.0)
    return s.finish("MEAN", [x, axis_tensor], out, typical, keep_dims=keep)


def softmax(s: Sampler) -> bytes:
    shape = (s.number(1, 4), s.number(1, 40)) if s.number(0, 1) else (1, s.number(1, 3), s.number(1, 3), s.number(1, 9))
    x = s.input(shape)
    result: dict[str, Any] = dict(scale=1 / 256, zero_point=-128) if s.quantized else {}
    y = s.model.tensor("y", shape, s.dtype, **result)
    s.model.operator("SOFTMAX", [x], [y], beta=float(np.float32(s.random.uniform(0.3, 2))))
    return s.model.outputs(y).build()


def logistic(s: Sampler) -> bytes:
    shape = (1, s.number(1, 9), s.number(1, 40))
    x = s.input(shape, **(s.quantization(s.scale(-3, 0))))
    result: dict[str, Any] = dict(scale=1 / 256, zero_point=-128) if s.quantized else {}
    y = s.model.tensor("y", shape, s.dtype, **result)
    s.model.operator("LOGISTIC", [x], [y])
    return s.model.outputs(y).build()


def relu(s: Sampler) -> bytes:
    shape, source = (1, s.number(1, 9), s.number(1, 40)), s.quantization()
    return s.finish("RELU", [s.input(shape, **source)], shape, 128 * source.get("scale", 1.0))


def relu6(s: Sampler) -> bytes:
    shape, one = (1, s.number(1, 9), s.number(1, 40)), s.quantization()
    x = s.input(shape, **one)
    y = s.model.tensor("y", shape, s.dtype, **one)
    s.model.operator("RELU6", [x], [y])
    return s.model.outputs(y).build()


def quantize(s: Sampler) -> bytes:
    """int8 to int8, or float32 to int8."""
    shape, source = (1, s.number(1, 9), s.number(1, 40)), s.quantization()
    x = s.input(shape, **source)
    scale = source.get("scale", 0.02) * s.random.uniform(0.3, 3)
    y = s.model.tensor("y", shape, "int8", scale=float(np.float32(scale)), zero_point=s.number(-128, 127))
    s.model.operator("QUANTIZE", [x], [y])
    return s.model.outputs(y).build()


def dequantize(s: Sampler) -> bytes:
    shape = (1, s.number(1, 9), s.number(1, 40))
    x = s.model.input("x", shape, "int8", scale=s.scale(), zero_point=s.number(-128, 127))
    y = s.model.tensor("y", shape, "float32")
    s.model.operator("DEQUANTIZE", [x], [y])
    return s.model.outputs(y).build()


def pad(s: Sampler) -> bytes:
    rank = s.number(1, 4)
    shape = tuple(s.number(1, 5) for _ in range(rank))
    paddings = np.array([[s.number(0, 2), s.number(0, 2)] for _ in range(rank)], np.int32)
    one = s.quantization()
    x = s.input(shape, **one)
    p = s.model.constant("paddings", paddings)
    out = tuple(int(n + a + b) for n, (a, b) in zip(shape, paddings, strict=True))
    y = s.model.tensor("y", out, s.dtype, **one)
    s.model.operator("PAD", [x, p], [y])
    return s.model.outputs(y).build()


def concatenation(s: Sampler) -> bytes:
    rank = s.number(1, 4)
    shape = [s.number(1, 5) for _ in range(rank)]
    axis = s.number(0, rank - 1)
    if rank == 4 and axis == 1:
        shape[0] = 1  # rows of several images from several inputs are not supported
    one, inputs, total = s.quantization(), [], 0
    for part in range(s.number(1, 4)):
        size = s.number(1, 4)
        total += size
        inputs.append(s.model.input(f"x{part}", (*shape[:axis], size, *shape[axis + 1 :]), s.dtype, **one))
    y = s.model.tensor("y", (*shape[:axis], total, *shape[axis + 1 :]), s.dtype, **one)
    s.model.operator("CONCATENATION", inputs, [y], axis=axis)
    return s.model.outputs(y).build()


MAKERS: Mapping[str, Make] = {
    make.__name__: make
    for make in (
        conv_2d, depthwise_conv_2d, fully_connected, add, mul, average_pool_2d, max_pool_2d, mean, softmax, logistic,
        relu, relu6, quantize, pad, concatenation,
    )
}  # fmt: skip


def operator_model(kind: str, dtype: str, seed: int) -> bytes:
    return MAKERS[kind](Sampler(dtype, seed))
