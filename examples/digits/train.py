"""Makes digits_int8.tflite: trains a small network on scikit-learn's digits, quantizes it, and measures both.

    python examples/digits/train.py [FOLDER]        writes digits_int8.tflite and sample.npy there (default: here)

Needs numpy, scikit-learn, flatbuffers and ai-edge-litert (the schema, and the reference kernels for the
measurement, which the test-suite's oracles make, hence pytest).
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from network import Array, AveragePool, Conv, Dense, Depthwise, Flatten, Layer, Relu, forward, train
from numpy.typing import NDArray
from sklearn.datasets import load_digits  # type: ignore[import-untyped]

sys.path.insert(0, str(Path(__file__).parents[2] / "tests" / "support"))

from tflite_builder import ModelBuilder

SEED = 7
EPOCHS = 40
TEST_IMAGES = 500
PIXEL_SCALE = 1 / 16
"""Pixels are 0..16, and with this scale and zero point 0 they are the int8 input as they stand."""


def network(random: np.random.Generator) -> list[Layer]:
    """Return the layers: 8x8x1 -> conv 16 -> depthwise /2 -> pointwise 32 -> pool /2 -> 128 -> 10."""
    return [
        Conv(random, 1, 16), Relu(),
        Depthwise(random, 16), Relu(),
        Dense(random, 16, 32), Relu(),
        AveragePool(), Flatten(),
        Dense(random, 128, 10),
    ]  # fmt: skip


def quantize_weights(weights: Array, axis: int | None) -> tuple[NDArray[np.int8], list[float]]:
    """Return symmetric int8 weights and their scales, one per slice along `axis` or one in all."""
    others = tuple(i for i in range(weights.ndim) if i != axis)
    scales = np.maximum(np.abs(weights).max(others, keepdims=True), 1e-8) / 127
    return np.round(weights / scales).astype(np.int8), [float(s) for s in scales.ravel()]


def activation_range(values: Array) -> tuple[float, int]:
    """Return scale and zero point of int8 that cover the values seen and 0."""
    low, high = min(float(values.min()), 0.0), max(float(values.max()), 0.0)
    scale = (high - low) / 255
    return scale, round(-128 - low / scale)


def export(layers: Sequence[Layer], calibration: Array) -> bytes:
    """Return the quantized model; scales of activations are from `calibration` images."""
    conv, _, depthwise, _, pointwise, _, _, _, dense = layers
    seen = [calibration]
    for layer in layers:
        seen.append(layer.forward(seen[-1]))
    model = ModelBuilder("Digits 8x8, trained by examples/digits/train.py")
    x = model.input("image", (1, 8, 8, 1), "int8", scale=PIXEL_SCALE)

    def activation(name: str, shape: tuple[int, ...], values: Array) -> tuple[int, float]:
        scale, zero_point = activation_range(values)
        return model.tensor(name, shape, "int8", scale=scale, zero_point=zero_point), scale

    def parameters(name: str, layer: Layer, axis: int | None, scale: float, shape: Sequence[int]) -> list[int]:
        weights, scales = quantize_weights(layer.parameters[0].reshape(shape), axis)
        steps = [scale * s for s in scales]
        bias = np.round(layer.parameters[1] / np.array(steps)).astype(np.int32)
        return [
            model.constant(f"{name}/weights", weights, scale=scales, axis=axis or 0),
            model.constant(f"{name}/bias", bias, scale=steps),
        ]

    first, scale_1 = activation("conv", (1, 8, 8, 16), seen[2])
    weights = parameters("conv", conv, 0, PIXEL_SCALE, (16, 3, 3, 1))
    model.operator("CONV_2D", [x, *weights], [first], padding="SAME", fused_activation_function="RELU")
    second, scale_2 = activation("depthwise", (1, 4, 4, 16), seen[4])
    weights = parameters("depthwise", depthwise, 3, scale_1, (1, 3, 3, 16))
    model.operator(
        "DEPTHWISE_CONV_2D", [first, *weights], [second],
        padding="SAME", stride_h=2, stride_w=2, fused_activation_function="RELU",
    )  # fmt: skip
    third, scale_3 = activation("pointwise", (1, 4, 4, 32), seen[6])
    weights = parameters("pointwise", pointwise, 0, scale_2, (32, 1, 1, 16))
    model.operator("CONV_2D", [second, *weights], [third], padding="SAME", fused_activation_function="RELU")
    fourth, _ = activation("pool", (1, 2, 2, 32), seen[6])  # the range of its input: pooling does not rescale
    model.operator(
        "AVERAGE_POOL_2D", [third], [fourth], padding="VALID", filter_height=2, filter_width=2, stride_h=2, stride_w=2
    )
    fifth, _ = activation("flat", (1, 128), seen[6])
    shape = model.constant("flat/shape", np.array([1, 128], np.int32))
    model.operator("RESHAPE", [fourth, shape], [fifth], new_shape=[1, 128])
    sixth, _ = activation("logits", (1, 10), seen[9])
    weights = parameters("logits", dense, None, scale_3, (10, 128))
    model.operator("FULLY_CONNECTED", [fifth, *weights], [sixth])
    y = model.tensor("probabilities", (1, 10), "int8", scale=1 / 256, zero_point=-128)
    model.operator("SOFTMAX", [sixth], [y])
    return model.outputs(y).signature("serving_default", {"image": x}, {"probabilities": y}).build()


def accuracy_int8(model: bytes, images: NDArray[np.int8], labels: NDArray[np.int64]) -> float:
    """Return the share of images that LiteRT's reference kernels put in the right class."""
    from oracles import open_litert_reference

    run = open_litert_reference(model)
    return float(
        np.mean([run([image[None]])[0].argmax() == label for image, label in zip(images, labels, strict=True)])
    )


def main(folder: Path) -> None:
    digits = load_digits()
    pixels = digits.images.astype(np.int8)[..., None]
    labels = digits.target.astype(np.int64)
    order = np.random.default_rng(SEED).permutation(len(pixels))
    training, test = order[TEST_IMAGES:], order[:TEST_IMAGES]
    images = pixels.astype(np.float32) * np.float32(PIXEL_SCALE)
    layers = network(np.random.default_rng(SEED))
    train(layers, images[training], labels[training], EPOCHS, SEED)
    model = export(layers, images[training[:200]])
    right = forward(layers, images[test]).argmax(-1) == labels[test]
    print(f"float32: {right.mean():.1%} of {len(test)} test images")
    print(f"int8:    {accuracy_int8(model, pixels[test], labels[test]):.1%}")
    (folder / "digits_int8.tflite").write_bytes(model)
    np.save(folder / "sample.npy", pixels[test[:1]])
    print(f"digits_int8.tflite: {len(model)} bytes; sample.npy shows a {labels[test[0]]}")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent)
