"""Sums and products of two tensors, with broadcast."""

from __future__ import annotations

from stowplan.build.lower.fixed_point import Factor, factor
from stowplan.build.lower.nodes import Lowered, Operand, ParamValue
from stowplan.build.lower.ranges import range_f32, range_s8
from stowplan.build.lower.site import Site
from stowplan.build.rows import Form, nhwc
from stowplan.flow.dtypes import SIZE_BYTES

OTHERS = ("int16", "int32")
ADD_BITS = 20
"""Bits that int8 sums gain below the point before they are scaled; a part of the meaning of `add_s8`."""


def add(site: Site) -> Lowered:
    from stowplan.build.lower import arithmetic  # which imports this module

    if site.input(0).dtype in OTHERS or arithmetic.is_raw(site):
        return arithmetic.arithmetic(site)
    dtype = site.dtype(0, 1)
    params, operands = broadcast(site)
    if dtype == "float32":
        return Lowered(kind="add_f32", params=params | range_f32(site), operands=operands)
    a, b = site.quantization(site.input(0)), site.quantization(site.input(1))
    result = site.quantization(site.output)
    twice = 2.0 * max(a.scale, b.scale)
    params["a_zero_point"], params["b_zero_point"] = a.zero_point, b.zero_point
    params["output_zero_point"] = result.zero_point
    params |= named("a", smaller_than_one(site, a.scale / twice))
    params |= named("b", smaller_than_one(site, b.scale / twice))
    params |= named("output", smaller_than_one(site, twice / ((1 << ADD_BITS) * result.scale)))
    return Lowered(kind="add_s8", params=params | range_s8(site, result), operands=operands)


def mul(site: Site) -> Lowered:
    from stowplan.build.lower import arithmetic  # which imports this module

    if site.input(0).dtype in OTHERS or arithmetic.is_raw(site):
        return arithmetic.arithmetic(site)
    dtype = site.dtype(0, 1)
    params, operands = broadcast(site)
    if dtype == "float32":
        return Lowered(kind="mul_f32", params=params | range_f32(site), operands=operands)
    a, b = site.quantization(site.input(0)), site.quantization(site.input(1))
    result = site.quantization(site.output)
    params["a_zero_point"], params["b_zero_point"] = a.zero_point, b.zero_point
    params["output_zero_point"] = result.zero_point
    params |= named("output", factor(a.scale * b.scale / result.scale))
    return Lowered(kind="mul_s8", params=params | range_s8(site, result), operands=operands)


def named(name: str, value: Factor) -> dict[str, ParamValue]:
    return {f"{name}_multiplier": value.multiplier, f"{name}_shift": value.shift}


def smaller_than_one(site: Site, real: float) -> Factor:
    result = factor(real)
    if result.shift > 0:
        raise site.refusal("the scale of its output is too small beside those of its inputs")
    return result


def broadcast(site: Site) -> tuple[dict[str, ParamValue], tuple[Operand, ...]]:
    """Return the parameters that say which elements meet, and the two operands."""
    form, inside = site.output_form, SIZE_BYTES[site.input(0).dtype]
    size = SIZE_BYTES[site.output.dtype]
    if all(site.input(p).shape == site.output.shape for p in (0, 1)):
        # Of one shape: whatever the rows, equal positions meet.
        params: dict[str, ParamValue] = {"height": form.rows, "width": 1, "channels": form.row_bytes // size}
        for name in "ab":
            params |= _strides(name, 0, 1, 0, 1)
        read = Form(form.rows, form.row_bytes // size * inside)
        operands = tuple(site.operand(p, read) for p in (0, 1))
        _check_rows(site, read)
        return params, operands
    if form != site.layout.default(site.operator.outputs[0]):
        raise site.refusal("it broadcasts a tensor that is not cut into rows of its height")
    _, height, width, channels = nhwc(site.output.shape)
    params = {"height": height, "width": width, "channels": channels}
    return params, tuple(_operand(site, position, params) for position in (0, 1))


def _check_rows(site: Site, form: Form) -> None:
    for position in (0, 1):
        if site.graph.is_activation(site.operator.inputs[position]) and site.input_form(position) != form:
            raise site.refusal("its inputs are cut into different rows; put a copy between")


def _operand(site: Site, position: int, params: dict[str, ParamValue]) -> Operand:
    result, shape = site.output.shape, site.input(position).shape
    padded = (1,) * (len(result) - len(shape)) + shape
    if len(shape) > len(result) or any(a not in (1, b) for a, b in zip(padded, result, strict=True)):
        raise site.refusal(f"shape {list(shape)} cannot be broadcast to {list(result)}")
    images, height, width, channels = nhwc(padded)
    if images not in (1, nhwc(result)[0]):
        raise site.refusal(f"broadcast of {list(shape)} to {list(result)} repeats images in a pattern")
    size = SIZE_BYTES[site.input(position).dtype]
    form = Form(images * height, width * channels * size)
    params |= _strides(
        "ab"[position], height if images > 1 else 0, int(height > 1), channels if width > 1 else 0, int(channels > 1)
    )
    operand = site.operand(position, form)
    if operand.form is None and site.input_form(position) != form:
        raise site.refusal("an input that is broadcast is not cut into rows of its height")
    return operand


def _strides(name: str, image: int, row: int, column: int, channel: int) -> dict[str, ParamValue]:
    return {f"{name}_image": image, f"{name}_row": row, f"{name}_column": column, f"{name}_channel": channel}
