"""The operators that convert, by their name in the schema."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from stowplan_importer_tflite.lower.convolution import conv_2d, depthwise_conv_2d, fully_connected
from stowplan_importer_tflite.lower.elementwise import add, dequantize, logistic, mul, quantize, relu, relu6, softmax
from stowplan_importer_tflite.lower.movement import concatenation, pad, reshape
from stowplan_importer_tflite.lower.pooling import average_pool_2d, max_pool_2d, mean
from stowplan_importer_tflite.site import Conversion, Site

LOWERINGS: Mapping[str, Callable[[Site], Conversion]] = {
    "ADD": add,
    "AVERAGE_POOL_2D": average_pool_2d,
    "CONCATENATION": concatenation,
    "CONV_2D": conv_2d,
    "DEPTHWISE_CONV_2D": depthwise_conv_2d,
    "DEQUANTIZE": dequantize,
    "FULLY_CONNECTED": fully_connected,
    "LOGISTIC": logistic,
    "MAX_POOL_2D": max_pool_2d,
    "MEAN": mean,
    "MUL": mul,
    "PAD": pad,
    "QUANTIZE": quantize,
    "RELU": relu,
    "RELU6": relu6,
    "RESHAPE": reshape,
    "SOFTMAX": softmax,
}
