"""Small models for tests of the cache, each file different in exactly what a test asks for."""

from __future__ import annotations

import numpy as np

from tflite_builder import ModelBuilder


def small_model(
    seed: int = 0,
    *,
    names: str = "",
    description: str = "made for a test",
    channels: int = 4,
    depth: int = 1,
    scale: float = 0.05,
) -> bytes:
    """Return a convolution and a softmax over 8 x 8 pixels of `depth`. `names` is a prefix of all tensor names."""
    random = np.random.default_rng(seed)
    model = ModelBuilder(description)
    x = model.input(f"{names}x", (1, 8, 8, depth), "int8", scale=0.1)
    weights = random.integers(-127, 128, (channels, 3, 3, depth)).astype(np.int8)
    w = model.constant(f"{names}w", weights, scale=[0.01 * (i + 1) for i in range(channels)], axis=0)
    y = model.tensor(f"{names}y", (1, 8, 8, channels), "int8", scale=scale, zero_point=-5)
    model.operator("CONV_2D", [x, w, -1], [y], padding="SAME", stride_h=1, stride_w=1, fused_activation_function="RELU")
    z = model.tensor(f"{names}z", (1, 8, 8, channels), "int8", scale=1 / 256, zero_point=-128)
    model.operator("SOFTMAX", [y], [z])
    return model.outputs(z).build()
