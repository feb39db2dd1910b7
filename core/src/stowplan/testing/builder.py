"""Builds small graphs, operator by operator, with seeded random weights and quantization."""

from __future__ import annotations

import hashlib
import random
from math import prod

from stowplan.flow.graph import ABSENT, Attribute, Graph, Operator, Quantization, Tensor


class GraphBuilder:
    """Tensors are named by their index; every method returns the index of the tensor it adds."""

    def __init__(self, dtype: str = "int8", seed: int = 0) -> None:
        self.dtype = dtype
        self.random = random.Random(seed)
        self.tensors: list[Tensor] = []
        self.operators: list[Operator] = []
        self.inputs: list[int] = []
        self.constants: dict[str, bytes] = {}

    def input(self, *shape: int) -> int:
        self.inputs.append(self._tensor(shape))
        return self.inputs[-1]

    def conv(
        self,
        x: int,
        channels: int,
        kernel: tuple[int, int] = (3, 3),
        stride: tuple[int, int] = (1, 1),
        dilation: tuple[int, int] = (1, 1),
        same: bool = True,
        activation: str = "relu",
        bias: bool = True,
    ) -> int:
        n, height, width, depth = self.tensors[x].shape
        pads, (out_h, out_w) = window((height, width), kernel, stride, dilation, same)
        weights = self._weights((channels, *kernel, depth), axis=0)
        b = self._bias(channels) if bias else ABSENT
        attributes = self._window(stride, pads, activation, dilation)
        return self._apply("conv_2d", (x, weights, b), (n, out_h, out_w, channels), attributes)

    def grouped(self, x: int, channels: int, groups: int, kernel: tuple[int, int] = (3, 3)) -> int:
        """A convolution whose output channels see one group of input channels each; both counts divide by `groups`."""
        n, height, width, depth = self.tensors[x].shape
        pads, (out_h, out_w) = window((height, width), kernel, (1, 1), (1, 1), same=True)
        weights = self._weights((channels, *kernel, depth // groups), axis=0)
        attributes = self._window((1, 1), pads, "relu", (1, 1))
        return self._apply("conv_2d", (x, weights, self._bias(channels)), (n, out_h, out_w, channels), attributes)

    def transposed(
        self, x: int, channels: int, kernel: tuple[int, int] = (2, 2), stride: tuple[int, int] = (2, 2)
    ) -> int:
        """A transposed convolution without padding: each input element is spread by the kernel."""
        n, height, width, depth = self.tensors[x].shape
        shape = (n, (height - 1) * stride[0] + kernel[0], (width - 1) * stride[1] + kernel[1], channels)
        weights = self._weights((channels, *kernel, depth), axis=0)
        attributes: dict[str, Attribute] = {"stride_h": stride[0], "stride_w": stride[1], "pad_top": 0, "pad_left": 0}
        return self._apply(
            "transpose_conv_2d", (x, weights, self._bias(channels)), shape, {**attributes, "activation": "none"}
        )

    def depthwise(
        self,
        x: int,
        kernel: tuple[int, int] = (3, 3),
        stride: tuple[int, int] = (1, 1),
        multiplier: int = 1,
        dilation: tuple[int, int] = (1, 1),
        same: bool = True,
        activation: str = "relu",
    ) -> int:
        n, height, width, depth = self.tensors[x].shape
        pads, (out_h, out_w) = window((height, width), kernel, stride, dilation, same)
        channels = depth * multiplier
        weights = self._weights((1, *kernel, channels), axis=3)
        attributes = {"multiplier": multiplier, **self._window(stride, pads, activation, dilation)}
        return self._apply(
            "depthwise_conv_2d", (x, weights, self._bias(channels)), (n, out_h, out_w, channels), attributes
        )

    def pool(
        self,
        x: int,
        kind: str = "max_pool_2d",
        kernel: tuple[int, int] = (2, 2),
        stride: tuple[int, int] = (2, 2),
        same: bool = False,
    ) -> int:
        n, height, width, depth = self.tensors[x].shape
        pads, (out_h, out_w) = window((height, width), kernel, stride, (1, 1), same)
        attributes = {"kernel_h": kernel[0], "kernel_w": kernel[1], **self._window(stride, pads, "none", None)}
        return self._apply(kind, (x,), (n, out_h, out_w, depth), attributes, like=x)

    def add(self, x: int, y: int, kind: str = "add") -> int:
        return self._apply(kind, (x, y), self.tensors[x].shape, {"activation": "none"})

    def mean(self, x: int, axes: tuple[int, ...] = (1, 2)) -> int:
        shape = tuple(s for i, s in enumerate(self.tensors[x].shape) if i not in axes)
        return self._apply("mean", (x,), shape, {"axes": axes})

    def unary(self, x: int, kind: str) -> int:
        return self._apply(kind, (x,), self.tensors[x].shape, {}, like=x)

    def reshape(self, x: int, *shape: int) -> int:
        assert prod(shape) == self.tensors[x].elements
        return self._apply("reshape", (x,), shape, {}, like=x)

    def fully_connected(self, x: int, outputs: int, activation: str = "none") -> int:
        features = self.tensors[x].shape[-1]
        weights = self._weights((outputs, features), axis=None)
        shape = (*self.tensors[x].shape[:-1], outputs)
        return self._apply("fully_connected", (x, weights, self._bias(outputs)), shape, {"activation": activation})

    def softmax(self, x: int) -> int:
        out = self._apply("softmax", (x,), self.tensors[x].shape, {"beta": 1.0})
        if self.dtype == "int8":
            q = Quantization(scales=(1 / 256,), zero_points=(-128,))
            self.tensors[out] = Tensor(name=f"t{out}", shape=self.tensors[out].shape, dtype="int8", quantization=q)
        return out

    def pad(self, x: int, before: tuple[int, ...], after: tuple[int, ...]) -> int:
        shape = tuple(b + s + a for b, s, a in zip(before, self.tensors[x].shape, after, strict=True))
        return self._apply("pad", (x,), shape, {"before": before, "after": after}, like=x)

    def concatenation(self, xs: tuple[int, ...], axis: int) -> int:
        shape = list(self.tensors[xs[0]].shape)
        shape[axis] = sum(self.tensors[x].shape[axis] for x in xs)
        first = self.tensors[xs[0]]
        for x in xs:  # one quantization for all, as the operator demands
            self.tensors[x] = Tensor(
                name=f"t{x}", shape=self.tensors[x].shape, dtype=self.dtype, quantization=first.quantization
            )
        return self._apply("concatenation", xs, tuple(shape), {"axis": axis}, like=xs[0])

    def pixels(self, x: int) -> int:
        """Planes (N, C, H, W) to pixels (N, H, W, C)."""
        n, c, h, w = self.tensors[x].shape
        attributes: dict[str, Attribute] = {
            "sizes": (n, h, w, c), "strides": (c * h * w, w, 1, h * w), "offset": 0,
        }  # fmt: skip
        return self._apply("rearrange", (x,), (n, h, w, c), attributes, like=x)

    def graph(self, *outputs: int, name: str = "test") -> Graph:
        return Graph(
            name=name,
            tensors=tuple(self.tensors),
            operators=tuple(self.operators),
            inputs=tuple(self.inputs),
            outputs=outputs,
            constants=self.constants,
        )

    def _apply(
        self,
        kind: str,
        inputs: tuple[int, ...],
        shape: tuple[int, ...],
        attributes: dict[str, Attribute],
        like: int | None = None,
    ) -> int:
        output = self._tensor(shape, like)
        source = f'{kind.upper()} "t{output}"'
        self.operators.append(
            Operator(kind=kind, inputs=inputs, outputs=(output,), attributes=attributes, source=source)
        )
        return output

    def _tensor(self, shape: tuple[int, ...], like: int | None = None) -> int:
        if like is not None:
            quantization = self.tensors[like].quantization
        elif self.dtype == "int8":
            scale = self.random.choice((0.02, 0.05, 0.11))
            quantization = Quantization(scales=(scale,), zero_points=(self.random.randint(-20, 20),))
        else:
            quantization = None
        self.tensors.append(
            Tensor(name=f"t{len(self.tensors)}", shape=shape, dtype=self.dtype, quantization=quantization)
        )
        return len(self.tensors) - 1

    def _constant(self, shape: tuple[int, ...], dtype: str, data: bytes, quantization: Quantization | None) -> int:
        digest = hashlib.sha256(data).hexdigest()
        self.constants[digest] = data
        tensor = Tensor(
            name=f"c{len(self.tensors)}", shape=shape, dtype=dtype, quantization=quantization, constant=digest
        )
        self.tensors.append(tensor)
        return len(self.tensors) - 1

    def _weights(self, shape: tuple[int, ...], axis: int | None) -> int:
        if self.dtype == "float32":
            return self._constant(shape, "float32", self._floats(prod(shape)), None)
        data = bytes(self.random.choices([b for b in range(256) if b != 128], k=prod(shape)))
        count = 1 if axis is None else shape[axis]
        scales = tuple(self.random.uniform(0.001, 0.01) for _ in range(count))
        return self._constant(shape, "int8", data, Quantization(scales=scales, zero_points=(0,) * count, axis=axis))

    def _bias(self, channels: int) -> int:
        if self.dtype == "float32":
            return self._constant((channels,), "float32", self._floats(channels), None)
        values = (self.random.randint(-500, 500) for _ in range(channels))
        data = b"".join(v.to_bytes(4, "little", signed=True) for v in values)
        return self._constant((channels,), "int32", data, None)

    def _floats(self, count: int) -> bytes:
        import struct

        return struct.pack(f"<{count}f", *(self.random.uniform(-1, 1) for _ in range(count)))

    @staticmethod
    def _window(
        stride: tuple[int, int], pads: tuple[int, int, int, int], activation: str, dilation: tuple[int, int] | None
    ) -> dict[str, Attribute]:
        attributes: dict[str, Attribute] = {"stride_h": stride[0], "stride_w": stride[1], "activation": activation}
        attributes.update(zip(("pad_top", "pad_left", "pad_bottom", "pad_right"), pads, strict=True))
        if dilation is not None:
            attributes.update(dilation_h=dilation[0], dilation_w=dilation[1])
        return attributes


def window(
    size: tuple[int, int], kernel: tuple[int, int], stride: tuple[int, int], dilation: tuple[int, int], same: bool
) -> tuple[tuple[int, int, int, int], tuple[int, int]]:
    """Return (top, left, bottom, right) padding and the output's height and width, as TFLite's SAME and VALID."""
    pads, out = [], []
    for length, k, s, d in zip(size, kernel, stride, dilation, strict=True):
        reach = (k - 1) * d + 1
        count = -(-length // s) if same else -(-(length - reach + 1) // s)
        total = max((count - 1) * s + reach - length, 0) if same else 0
        pads.append((total // 2, total - total // 2))
        out.append(count)
    return (pads[0][0], pads[1][0], pads[0][1], pads[1][1]), (out[0], out[1])
