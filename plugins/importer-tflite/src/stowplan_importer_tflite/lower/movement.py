"""RESHAPE, PAD and CONCATENATION: operators that move elements and leave their values alone."""

from __future__ import annotations

import math

from stowplan_importer_tflite.lower.rearranging import moved
from stowplan_importer_tflite.parse import spelled
from stowplan_importer_tflite.schema import RESHAPE_NEW_SHAPE, ConcatenationField
from stowplan_importer_tflite.site import (
    ANYTHING,
    Conversion,
    Mismatch,
    Refusal,
    Site,
    Value,
    check_same_quantization,
)


def reshape(site: Site) -> Conversion:
    site.arity(1, 2)
    x = moved(site)
    return Conversion(kind="reshape", inputs=(x.tensor,), shape=_fill(_asked_shape(site), x))


def densify(site: Site) -> Conversion:
    """Sparse weights were filled up when the file was prepared; what is left is another name."""
    site.arity(1, 1)
    x = site.constant(0, "sparse weights")
    if site.output.dtype != x.dtype:
        raise Refusal(f"{x.dtype} weights to {site.output.dtype}")
    return Conversion(kind="reshape", inputs=(x.tensor,), shape=x.shape)


def _asked_shape(site: Site) -> tuple[int, ...]:
    """The shape operand counts before the options, and the options before the output's own shape."""
    if site.optional(1) is not None:
        asked = site.constant_integers(1, "the new shape")
    elif site.table is not None and site.table.has(RESHAPE_NEW_SHAPE):
        asked = site.table.integers(RESHAPE_NEW_SHAPE)
    else:
        return site.output.shape
    return () if asked == (0,) else asked  # how old converters wrote a scalar


def _fill(asked: tuple[int, ...], x: Value) -> tuple[int, ...]:
    """Replace one -1 by what is left."""
    known = math.prod(size for size in asked if size != -1)
    if any(size < -1 or (size == 0 and x.elements) for size in asked) or asked.count(-1) > 1 or len(asked) > 8:
        raise Refusal(f"a new shape of ({', '.join(map(str, asked[:8]))})")
    shape = tuple((x.elements // known if known else 0) if size == -1 else size for size in asked)
    if math.prod(shape) != x.elements:
        raise Mismatch(
            f"{x.elements} elements of shape {spelled(x.shape)} do not fill {spelled(asked)}; "
            "a shape fixed in the model allows no other batch"
        )
    return shape


def pad(site: Site) -> Conversion:
    site.arity(2, 2)
    x = moved(site)
    numbers = site.constant_integers(1, "the list of paddings")
    if len(numbers) != 2 * len(x.shape) or any(number < 0 for number in numbers):
        raise Mismatch(f"paddings {numbers[:16]} for an input of shape {spelled(x.shape)}")
    before, after = numbers[::2], numbers[1::2]
    shape = tuple(a + size + b for a, size, b in zip(before, x.shape, after, strict=True))
    return Conversion(kind="pad", inputs=(x.tensor,), shape=shape, attributes={"before": before, "after": after})


def concatenation(site: Site) -> Conversion:
    parts = [site.activation(i, ANYTHING) for i in range(len(site.inputs))]
    if not parts:
        raise Refusal("no inputs")
    first = parts[0]
    for part in (*parts[1:], site.output):
        if part.dtype != first.dtype:
            raise Refusal(f"{first.dtype} with {part.dtype}; one type would be supported")
        check_same_quantization(first, part)
    if site.activation_function(ConcatenationField.ACTIVATION) != "none":
        raise Refusal("a fused activation; NONE would be supported")
    stated = site.integer(ConcatenationField.AXIS)
    if not -len(first.shape) <= stated < len(first.shape):
        raise Mismatch(f"axis {stated} of inputs of shape {spelled(first.shape)}")
    axis = stated % len(first.shape)
    return Conversion(
        kind="concatenation",
        inputs=tuple(part.tensor for part in parts),
        shape=_joined([part.shape for part in parts], axis),
        attributes={"axis": axis},
    )


def _joined(shapes: list[tuple[int, ...]], axis: int) -> tuple[int, ...]:
    first = shapes[0]
    for shape in shapes[1:]:
        if len(shape) != len(first) or any(shape[i] != first[i] for i in range(len(first)) if i != axis):
            raise Mismatch(
                f"inputs of shapes {spelled(first)} and {spelled(shape)} do not go together along axis {axis}"
            )
    return (*first[:axis], sum(shape[axis] for shape in shapes), *first[axis + 1 :])
