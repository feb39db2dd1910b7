"""Products of two computed matrices, in batches."""

from __future__ import annotations

from math import prod

from stowplan.build.lower.fixed_point import factor
from stowplan.build.lower.movement import stretched
from stowplan.build.lower.nodes import Lowered, ParamValue
from stowplan.build.lower.site import Site
from stowplan.flow.dtypes import RANGE
from stowplan.planfile.layout import DTYPE_CODES

BATCH_AXES = 3


def batch_matmul(site: Site) -> Lowered:
    dtype = site.output.dtype
    if {site.input(0).dtype, site.input(1).dtype} != {dtype} or dtype not in ("float32", "int8", "int16"):
        raise site.refusal("products of computed matrices are supported in float32, int8 and int16")
    a, b, result = site.input(0).shape, site.input(1).shape, site.output.shape
    if min(len(a), len(b), len(result)) < 2 or len(result) - 2 > BATCH_AXES:
        raise site.refusal(f"{list(a)} times {list(b)} is not supported")
    m, k = _size_and_step(a, bool(site.operator.attributes["adjoint_x"]))
    k_too, n = _size_and_step(b, bool(site.operator.attributes["adjoint_y"]))
    if k[0] != k_too[0] or result[-2:] != (m[0], n[0]):
        raise site.refusal(f"{list(a)} times {list(b)} does not make {list(result)}")
    batch = (1,) * (BATCH_AXES - len(result) + 2) + result[:-2]
    params: dict[str, ParamValue] = {f"batch{axis}": size for axis, size in enumerate(batch)}
    params |= dict(m=m[0], n=n[0], k=k[0])
    for name, shape in (("a", a), ("b", b)):
        steps = stretched(shape[:-2], batch)
        if steps is None:
            raise site.refusal(f"{list(a)} times {list(b)} does not make {list(result)}")
        params |= {f"{name}_step{axis}": step * prod(shape[-2:]) for axis, step in enumerate(steps)}
    params |= dict(a_row=m[1], a_column=k[1], b_row=k_too[1], b_column=n[1])
    operands = (site.operand(0), site.operand(1))
    if dtype == "float32":
        return Lowered(kind="batch_matmul_f32", params=params, operands=operands)
    return Lowered(kind="batch_matmul_int", params=params | _scaling(site), operands=operands)


def _scaling(site: Site) -> dict[str, ParamValue]:
    a, b, result = (site.quantization(tensor) for tensor in (site.input(0), site.input(1), site.output))
    scale, (least, most) = factor(a.scale * b.scale / result.scale), RANGE[site.output.dtype]
    return {
        "dtype": DTYPE_CODES[site.output.dtype], "a_zero_point": a.zero_point, "b_zero_point": b.zero_point,
        "output_zero_point": result.zero_point, "multiplier": scale.multiplier, "shift": scale.shift,
        "act_min": least, "act_max": most,
    }  # fmt: skip


def _size_and_step(shape: tuple[int, ...], exchanged: bool) -> tuple[tuple[int, int], tuple[int, int]]:
    """Return (size, step) of a matrix's rows and of its columns, exchanged if asked for."""
    rows, columns = (shape[-2], shape[-1]), (shape[-1], 1)
    return (columns, rows) if exchanged else (rows, columns)
