"""Fully connected operators, on one vector or on the vectors of each row."""

from __future__ import annotations

from stowplan.build.lower.filters import filter_f32, filter_s8
from stowplan.build.lower.integer_filter import fully_connected_int, general
from stowplan.build.lower.nodes import Lowered, ParamValue
from stowplan.build.lower.site import Site
from stowplan.flow.dtypes import SIZE_BYTES


def fully_connected(site: Site) -> Lowered:
    if general(site):
        return fully_connected_int(site)
    dtype = site.dtype(0, 1)
    shape = site.input(1).shape
    if len(shape) != 2 or min(shape) < 1:
        raise site.refusal(f"weights of shape {list(shape)} are not a matrix")
    outputs, features = shape
    params: dict[str, ParamValue] = {"features": features, "outputs": outputs, "batched": int(_batched(site))}
    _check_shapes(site, outputs, features)
    if dtype == "float32":
        return Lowered(kind="fully_connected_f32", params=params | filter_f32(site), operands=(site.operand(),))
    params |= filter_s8(site, channel_axis=0)
    return Lowered(kind="fully_connected_s8", params=params, operands=(site.operand(),))


def _batched(site: Site) -> bool:
    return site.layout.batched(site.operator)


def _check_shapes(site: Site, outputs: int, features: int) -> None:
    source, result = site.input(), site.output
    vectors, rest = divmod(source.elements, features)
    fits = not rest and vectors > 0 and result.shape[-1:] == (outputs,) and result.elements == vectors * outputs
    if not fits:
        shapes = f"{list(source.shape)} to {list(result.shape)}"
        raise site.refusal(f"{shapes} does not fit weights of shape {[outputs, features]}")
    row, vector = site.input_form().row_bytes, features * SIZE_BYTES[source.dtype]
    if _batched(site) and row % vector and vector % row:
        raise site.refusal("its vectors do not lie along rows of its input; reshape the input to [N, features] first")
