"""Which function lowers which canonical operator."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from importlib import import_module

from stowplan.build.lower.nodes import Lowered
from stowplan.build.lower.site import Site
from stowplan.build.rows import Layout
from stowplan.flow.graph import Graph
from stowplan.flow.operators import ARITHMETIC, COMPARISONS, LOGICAL, UNARY_FLOAT

LOWERINGS: Mapping[str, str] = {
    "conv_2d": "convolution.conv_2d",
    "depthwise_conv_2d": "convolution.depthwise_conv_2d",
    "fully_connected": "dense.fully_connected",
    "add": "elementwise.add",
    "mul": "elementwise.mul",
    "average_pool_2d": "pooling.average_pool_2d",
    "max_pool_2d": "pooling.max_pool_2d",
    "mean": "pooling.mean",
    "softmax": "activation.softmax",
    "reshape": "shape.copy",
    "copy": "shape.copy",
    "pad": "movement.pad",
    "concatenation": "shape.concatenation",
    "relu": "activation.relu",
    "relu6": "activation.relu6",
    "logistic": "activation.logistic_",
    "quantize": "activation.quantize",
    "dequantize": "activation.dequantize",
    "rearrange": "movement.rearrange",
    "sample": "movement.rearrange",
    "pad_with": "movement.pad_with",
    "gather": "movement.gather",
    "select": "movement.select",
    "cast": "functions.cast",
    "clip": "functions.clip",
    "relu_n1_to_1": "functions.relu_n1_to_1",
    "logical_not": "functions.logical_not",
    **dict.fromkeys(UNARY_FLOAT, "functions.function"),
    **dict.fromkeys(ARITHMETIC, "arithmetic.arithmetic"),
    **dict.fromkeys((*COMPARISONS, *LOGICAL), "arithmetic.comparison"),
    "reduce": "reduction.reduce",
    "arg_max": "reduction.arg_extreme",
    "arg_min": "reduction.arg_extreme",
    "log_softmax": "reduction.along_runs",
    "l2_normalization": "reduction.along_runs",
    "resize_bilinear": "resize.resize_bilinear",
    "transpose_conv_2d": "integer_filter.transpose_conv_2d",
    "batch_matmul": "matrices.batch_matmul",
    "detection_postprocess": "detection.detection_postprocess",
    "lstm": "lstm.lstm",
    "bitcast": "shape.bitcast",
    "svdf_state": "recurrent.svdf_state",
    "svdf_output": "recurrent.svdf_output",
}
"""The function for each, as module and name: those of a model are imported, of fifteen modules a handful."""
OF_INT16 = frozenset({*UNARY_FLOAT, "relu", "relu6", "relu_n1_to_1", "clip", "logistic"})
"""Functions that int16 has other kernels for, or none."""


def lower(graph: Graph, layout: Layout, index: int) -> Lowered:
    """Return the node for the operator at `index`. Raises `UnsupportedError` naming it when there is no kernel."""
    site = Site(graph, layout, index)
    if site.operator.kind not in LOWERINGS:
        raise site.refusal(f"no kernel for {site.operator.kind}")
    if site.operator.kind in OF_INT16 and site.input().dtype == "int16":
        return _function("int16.function")(site)
    return _function(LOWERINGS[site.operator.kind])(site)


@cache
def _function(name: str) -> Callable[[Site], Lowered]:
    module, _, function = name.partition(".")
    found: Callable[[Site], Lowered] = getattr(import_module(f"stowplan.build.lower.{module}"), function)
    return found
