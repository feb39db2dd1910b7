"""Which function lowers which canonical operator."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from stowplan.build.lower import activation, convolution, dense, elementwise, pooling, shape
from stowplan.build.lower.nodes import Lowered
from stowplan.build.lower.site import Site
from stowplan.build.rows import Layout
from stowplan.flow.graph import Graph

LOWERINGS: Mapping[str, Callable[[Site], Lowered]] = {
    "conv_2d": convolution.conv_2d,
    "depthwise_conv_2d": convolution.depthwise_conv_2d,
    "fully_connected": dense.fully_connected,
    "add": elementwise.add,
    "mul": elementwise.mul,
    "average_pool_2d": pooling.average_pool_2d,
    "max_pool_2d": pooling.max_pool_2d,
    "mean": pooling.mean,
    "softmax": activation.softmax,
    "reshape": shape.copy,
    "copy": shape.copy,
    "pad": shape.pad,
    "concatenation": shape.concatenation,
    "relu": activation.relu,
    "relu6": activation.relu6,
    "logistic": activation.logistic_,
    "quantize": activation.quantize,
    "dequantize": activation.dequantize,
}


def lower(graph: Graph, layout: Layout, index: int) -> Lowered:
    """Return the node for the operator at `index`. Raises `UnsupportedError` naming it when there is no kernel."""
    site = Site(graph, layout, index)
    lowering = LOWERINGS.get(site.operator.kind)
    if lowering is None:
        raise site.refusal(f"no kernel for {site.operator.kind}")
    return lowering(site)
