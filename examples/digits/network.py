"""A small convolutional network in numpy: layers with forward and backward passes, and Adam. Images are NHWC."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float32]


class Layer(Protocol):
    """Keeps what its backward pass needs; `parameters` and `gradients` go together."""

    parameters: list[Array]
    gradients: list[Array]

    def forward(self, x: Array) -> Array: ...
    def backward(self, gradient: Array) -> Array: ...


def patches(x: Array, stride: int) -> Array:
    """Return the 3x3 windows of an image batch under SAME padding: [N, OH, OW, 3, 3, C]."""
    n, h, w, c = x.shape
    out_h, out_w = -(-h // stride), -(-w // stride)
    top, left = (max((out - 1) * stride + 3 - size, 0) // 2 for out, size in ((out_h, h), (out_w, w)))
    padded = np.zeros((n, (out_h - 1) * stride + 3, (out_w - 1) * stride + 3, c), np.float32)
    padded[:, top : top + h, left : left + w] = x
    windows = np.empty((n, out_h, out_w, 3, 3, c), np.float32)
    for p in range(3):
        for q in range(3):
            windows[:, :, :, p, q] = padded[:, p : p + out_h * stride : stride, q : q + out_w * stride : stride]
    return windows


def unpatch(windows: Array, shape: tuple[int, ...], stride: int) -> Array:
    """Add the windows' values back to where `patches` took them from."""
    n, h, w, c = shape
    _, out_h, out_w = windows.shape[:3]
    top, left = (max((out - 1) * stride + 3 - size, 0) // 2 for out, size in ((out_h, h), (out_w, w)))
    padded = np.zeros((n, (out_h - 1) * stride + 3, (out_w - 1) * stride + 3, c), np.float32)
    for p in range(3):
        for q in range(3):
            padded[:, p : p + out_h * stride : stride, q : q + out_w * stride : stride] += windows[:, :, :, p, q]
    return padded[:, top : top + h, left : left + w]


class Conv:
    """3x3 convolution, SAME padding. Weights [O, 3, 3, I], as a model file has them."""

    def __init__(self, random: np.random.Generator, inputs: int, outputs: int) -> None:
        spread = np.sqrt(2 / (9 * inputs))
        weights = (random.standard_normal((outputs, 3, 3, inputs)) * spread).astype(np.float32)
        self.parameters: list[Array] = [weights, np.zeros(outputs, np.float32)]
        self.gradients: list[Array] = []

    def forward(self, x: Array) -> Array:
        self.shape = x.shape
        self.windows = patches(x, 1)
        weights, bias = self.parameters
        return np.asarray(np.tensordot(self.windows, weights, axes=((3, 4, 5), (1, 2, 3))) + bias, np.float32)

    def backward(self, gradient: Array) -> Array:
        weights, _ = self.parameters
        self.gradients = [np.tensordot(gradient, self.windows, axes=((0, 1, 2), (0, 1, 2))), gradient.sum((0, 1, 2))]
        return unpatch(np.tensordot(gradient, weights, axes=(3, 0)), self.shape, 1)


class Depthwise:
    """3x3 depthwise convolution with stride 2, SAME padding. Weights [1, 3, 3, C]."""

    def __init__(self, random: np.random.Generator, channels: int) -> None:
        weights = (random.standard_normal((1, 3, 3, channels)) * np.sqrt(2 / 9)).astype(np.float32)
        self.parameters: list[Array] = [weights, np.zeros(channels, np.float32)]
        self.gradients: list[Array] = []

    def forward(self, x: Array) -> Array:
        self.shape = x.shape
        self.windows = patches(x, 2)
        weights, bias = self.parameters
        return np.asarray((self.windows * weights[0]).sum((3, 4)) + bias, np.float32)

    def backward(self, gradient: Array) -> Array:
        weights, _ = self.parameters
        spread = gradient[:, :, :, None, None, :]
        self.gradients = [(self.windows * spread).sum((0, 1, 2))[None], gradient.sum((0, 1, 2))]
        return unpatch(spread * weights[0], self.shape, 2)


class Dense:
    """y = x wT + b along the last axis: a pointwise convolution or a fully connected layer. Weights [O, I]."""

    def __init__(self, random: np.random.Generator, inputs: int, outputs: int) -> None:
        weights = (random.standard_normal((outputs, inputs)) * np.sqrt(2 / inputs)).astype(np.float32)
        self.parameters: list[Array] = [weights, np.zeros(outputs, np.float32)]
        self.gradients: list[Array] = []

    def forward(self, x: Array) -> Array:
        self.x = x
        return np.asarray(x @ self.parameters[0].T + self.parameters[1], np.float32)

    def backward(self, gradient: Array) -> Array:
        rows = gradient.reshape(-1, gradient.shape[-1])
        self.gradients = [rows.T @ self.x.reshape(-1, self.x.shape[-1]), rows.sum(0)]
        return np.asarray(gradient @ self.parameters[0], np.float32)


class Relu:
    def __init__(self) -> None:
        self.parameters: list[Array] = []
        self.gradients: list[Array] = []

    def forward(self, x: Array) -> Array:
        self.positive = x > 0
        return x * self.positive

    def backward(self, gradient: Array) -> Array:
        return gradient * self.positive


class AveragePool:
    """2x2 windows with stride 2."""

    def __init__(self) -> None:
        self.parameters: list[Array] = []
        self.gradients: list[Array] = []

    def forward(self, x: Array) -> Array:
        n, h, w, c = x.shape
        return np.asarray(x.reshape(n, h // 2, 2, w // 2, 2, c).mean((2, 4)), np.float32)

    def backward(self, gradient: Array) -> Array:
        return np.asarray(np.repeat(np.repeat(gradient, 2, 1), 2, 2) / 4, np.float32)


class Flatten:
    def __init__(self) -> None:
        self.parameters: list[Array] = []
        self.gradients: list[Array] = []

    def forward(self, x: Array) -> Array:
        self.shape = x.shape
        return x.reshape(len(x), -1)

    def backward(self, gradient: Array) -> Array:
        return gradient.reshape(self.shape)


def softmax(logits: Array) -> Array:
    powers = np.exp(logits - logits.max(-1, keepdims=True))
    return np.asarray(powers / powers.sum(-1, keepdims=True), np.float32)


class Adam:
    """Adam with decoupled weight decay on weights, not on biases."""

    def __init__(self, layers: Sequence[Layer], rate: float, decay: float) -> None:
        self.layers, self.rate, self.decay, self.steps = layers, rate, decay, 0
        self.moments = [[(np.zeros_like(p), np.zeros_like(p)) for p in layer.parameters] for layer in layers]

    def step(self, rate: float) -> None:
        self.steps += 1
        for layer, moments in zip(self.layers, self.moments, strict=True):
            for parameter, gradient, (mean, square) in zip(layer.parameters, layer.gradients, moments, strict=True):
                mean += 0.1 * (gradient - mean)
                square += 0.001 * (gradient * gradient - square)
                size = np.sqrt(square / (1 - 0.999**self.steps)) + 1e-8
                parameter -= rate * mean / (1 - 0.9**self.steps) / size
                if parameter.ndim > 1:
                    parameter -= rate * self.decay * parameter


def train(layers: Sequence[Layer], images: Array, labels: NDArray[np.int64], epochs: int, seed: int) -> None:
    """Minimise cross-entropy in batches of 32; the rate falls from 0.003 to 0 along a half cosine."""
    random = np.random.default_rng(seed)
    adam = Adam(layers, rate=0.003, decay=0.01)
    batches = len(images) // 32
    for step in range(epochs * batches):
        if step % batches == 0:
            order = random.permutation(len(images))
        chosen = order[step % batches * 32 :][:32]
        gradient = softmax(forward(layers, images[chosen]))
        gradient[np.arange(len(chosen)), labels[chosen]] -= 1
        gradient /= len(chosen)
        for layer in reversed(layers):
            gradient = layer.backward(gradient)
        adam.step(adam.rate * (1 + np.cos(np.pi * step / (epochs * batches))) / 2)


def forward(layers: Sequence[Layer], x: Array) -> Array:
    for layer in layers:
        x = layer.forward(x)
    return x
