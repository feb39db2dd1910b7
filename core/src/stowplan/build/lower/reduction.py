"""Sums, means and extremes over any axes, places of extremes, and what normalizes runs along the last axis."""

from __future__ import annotations

from math import prod

from stowplan.build.lower.fixed_point import factor
from stowplan.build.lower.nodes import Lowered, ParamValue
from stowplan.build.lower.pooling import per_element
from stowplan.build.lower.site import Site
from stowplan.flow.dtypes import SIZE_BYTES
from stowplan.flow.operators import REDUCTIONS
from stowplan.planfile.layout import DTYPE_CODES

AXES = 4
MAX_SUMMED = 1 << 15
"""A sum of more int16 values could overflow 32 bits."""


def reduce(site: Site) -> Lowered:
    name, axes = site.operator.text("function"), site.operator.integers("axes")
    shape = site.input().shape
    if name not in REDUCTIONS or any(not 0 <= axis < len(shape) for axis in axes):
        raise site.refusal(f"{name} of {list(shape)} over {list(axes)} is not supported")
    kept = _steps(site, [axis for axis in range(len(shape)) if axis not in axes])
    gone = _steps(site, [axis for axis in range(len(shape)) if axis in axes])
    if prod(size for size, _ in kept) != site.output.elements:
        raise site.refusal(f"its output has shape {list(site.output.shape)}")
    params: dict[str, ParamValue] = {"function": REDUCTIONS.index(name), "dtype": DTYPE_CODES[_dtype(site, name)]}
    for word, steps in (("kept", kept), ("gone", gone)):
        params |= {f"{word}{i}": size for i, (size, _) in enumerate(steps)}
        params |= {f"{word}_step{i}": step for i, (_, step) in enumerate(steps)}
    params |= _scaling(site, name, prod(size for size, _ in gone))
    return Lowered(kind="reduce", params=params, operands=(site.operand(),))


def _dtype(site: Site, name: str) -> str:
    dtype = site.one_dtype("float32", "int8", "int16", "int32", "int64", "bool")
    quantized = dtype in ("int8", "int16")
    if (name in ("any", "all")) != (dtype == "bool") or (quantized and name == "prod"):
        raise site.refusal(f"{name} of {dtype} is not supported")
    if name == "mean" and dtype in ("int32", "int64"):
        raise site.refusal(f"mean of {dtype} is not supported")
    return dtype


def _scaling(site: Site, name: str, count: int) -> dict[str, ParamValue]:
    none: dict[str, ParamValue] = dict(input_zero_point=0, output_zero_point=0, multiplier=0, shift=0)
    if site.input().dtype not in ("int8", "int16"):
        return none
    if name not in ("mean", "sum"):
        site.same_quantization()
        return none
    if count > MAX_SUMMED:
        raise site.refusal(f"a {name} of {count} integers; at most {MAX_SUMMED} are supported")
    source, result = site.quantization(site.input()), site.quantization(site.output)
    scaled = factor(source.scale / result.scale)
    if name == "mean":
        scaled = per_element(scaled, count)
    return dict(
        input_zero_point=source.zero_point, output_zero_point=result.zero_point,
        multiplier=scaled.multiplier, shift=scaled.shift,
    )  # fmt: skip


def _steps(site: Site, axes: list[int]) -> list[tuple[int, int]]:
    """Return (size, step) of some axes of the input, neighbours joined, filled up to four with (1, 0)."""
    shape = site.input().shape
    found: list[tuple[int, int]] = []
    for axis in axes:
        size, step = shape[axis], prod(shape[axis + 1 :])
        if size == 1:
            continue
        if found and found[-1][1] == size * step:
            found[-1] = (found[-1][0] * size, step)
        else:
            found.append((size, step))
    if len(found) > AXES:
        raise site.refusal("it alternates between too many axes")
    return [(1, 0)] * (AXES - len(found)) + found


def arg_extreme(site: Site) -> Lowered:
    shape = site.input().shape
    if not shape or site.output.elements * shape[-1] != site.input().elements:
        raise site.refusal(f"it does not make {list(site.output.shape)} of {list(shape)}")
    source, result = site.input().dtype, site.output.dtype
    if result not in ("int32", "int64") or source not in ("float32", "int8", "uint8", "int16", "int32"):
        raise site.refusal(f"from {source} to {result} is not supported")
    params = dict(
        depth=shape[-1], largest=int(site.operator.kind == "arg_max"),
        dtype=DTYPE_CODES[source], to=DTYPE_CODES[result],
    )  # fmt: skip
    return Lowered(kind="arg_extreme", params=params, operands=(site.operand(),))


def along_runs(site: Site) -> Lowered:
    """Lower `log_softmax` and `l2_normalization`, which work on whole runs along the last axis."""
    kind, shape = site.operator.kind, site.input().shape
    dtype = site.one_dtype(*(("float32", "int8") if kind == "l2_normalization" else ("float32",)))
    if not shape or shape != site.output.shape:
        raise site.refusal("along the last axis only, of one shape")
    form = site.input_form()
    if form != site.output_form or form.row_bytes % (shape[-1] * SIZE_BYTES[dtype]):
        raise site.refusal("its input is not cut into rows of whole runs")
    if dtype == "int8":
        result = site.quantization(site.output)
        if (result.scale, result.zero_point) != (1 / 128, 0):
            raise site.refusal("its int8 output needs scale 1/128 and zero point 0")
        params = {"depth": shape[-1], "input_zero_point": site.quantization(site.input()).zero_point}
        return Lowered(kind="l2_normalization_s8", params=params, operands=(site.operand(),))
    return Lowered(kind=f"{kind}_f32", params={"depth": shape[-1]}, operands=(site.operand(),))
