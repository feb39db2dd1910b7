"""Operators that carry something from one run to the next: the two halves of SVDF."""

from __future__ import annotations

from stowplan.build.lower.fixed_point import factor, float32
from stowplan.build.lower.nodes import Lowered, ParamValue
from stowplan.build.lower.site import Site
from stowplan.flow.dtypes import SIZE_BYTES


def svdf_state(site: Site) -> Lowered:
    x, w, state = (site.input(position) for position in range(3))
    memory = site.operator.integer("memory")
    if len(w.shape) != 2 or len(x.shape) != 2 or x.shape[1] != w.shape[1]:
        raise site.refusal(f"weights {list(w.shape)} for an input of shape {list(x.shape)}")
    if state.shape != (x.shape[0], w.shape[0] * memory) or site.output.shape != state.shape:
        raise site.refusal(f"a state of shape {list(state.shape)} for {w.shape[0]} filters of {memory}")
    if x.dtype != "int8" or state.dtype not in ("int8", "int16") or site.output.dtype != state.dtype:
        raise site.refusal(f"of {x.dtype} with a state of {state.dtype} is not supported")
    source, kept = site.quantization(x), site.quantization(state)
    weights = site.weight_quantization(1, 1)
    scale = factor(float32(float32(source.scale * weights.scale) / kept.scale))
    params: dict[str, ParamValue] = {
        "features": w.shape[1], "filters": w.shape[0], "memory": memory, "state_bytes": SIZE_BYTES[state.dtype],
        "input_zero_point": source.zero_point, "multiplier": scale.multiplier, "shift": scale.shift,
        "weights": site.constant(1, "int8", "weights"),
    }  # fmt: skip
    return Lowered(kind="svdf_state", params=params, operands=(site.operand(0), site.operand(2)))


def svdf_output(site: Site) -> Lowered:
    state, w = site.input(0), site.input(1)
    rank, result = site.operator.integer("rank"), site.output
    if len(w.shape) != 2 or rank < 1 or w.shape[0] % rank or result.shape != (state.shape[0], w.shape[0] // rank):
        raise site.refusal(f"weights {list(w.shape)} of rank {rank} do not make {list(result.shape)}")
    if state.shape[1] != w.shape[0] * w.shape[1] or state.dtype != w.dtype or result.dtype != "int8":
        raise site.refusal(f"{state.dtype} {list(state.shape)} with weights of {w.dtype} is not supported")
    kept, weights, output = site.quantization(state), site.weight_quantization(1, 1), site.quantization(result)
    scale = factor(float32(float32(kept.scale * weights.scale) / output.scale))
    params: dict[str, ParamValue] = {
        "filters": w.shape[0], "memory": w.shape[1], "rank": rank, "state_bytes": SIZE_BYTES[state.dtype],
        "output_zero_point": output.zero_point, "multiplier": scale.multiplier, "shift": scale.shift,
        "weights": site.constant(1, w.dtype, "weights"),
        "bias": site.constant(2, "int32", "biases") if site.has(2) else None,
    }  # fmt: skip
    return Lowered(kind="svdf_output", params=params, operands=(site.operand(0),))
