"""The C structs and numbers of LiteRT's interface as ctypes has them, with the sizes they must come out at."""

from __future__ import annotations

import ctypes

POINTER = ctypes.c_void_p


class AnyValue(ctypes.Union):
    """The payload of `Any`, told apart by its type."""

    _fields_ = [
        ("truth", ctypes.c_bool),
        ("integer", ctypes.c_int64),
        ("real", ctypes.c_double),
        ("text", ctypes.c_char_p),
        ("pointer", POINTER),
    ]


class Any(ctypes.Structure):
    """A value of one of several types."""

    _fields_ = [("type", ctypes.c_int), ("value", AnyValue)]


class EnvironmentOption(ctypes.Structure):
    """One option of an environment."""

    _fields_ = [("tag", ctypes.c_int), ("value", Any)]


class Layout(ctypes.Structure):
    """A shape; the rank is in the low seven bits of the first word."""

    _fields_ = [("rank_bits", ctypes.c_uint32), ("dims", ctypes.c_int32 * 8), ("strides", ctypes.c_uint32 * 8)]

    @property
    def rank(self) -> int:
        return int(self.rank_bits) & 0x7F

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.dims[: min(self.rank, 8)])


class RankedType(ctypes.Structure):
    """Element type and shape of a tensor."""

    _fields_ = [("element_type", ctypes.c_int), ("layout", Layout)]


class MemoryUse(ctypes.Structure):
    """Part of a profiler event."""

    _fields_ = [("total", ctypes.c_size_t), ("in_use", ctypes.c_size_t), ("private", ctypes.c_size_t)]


class ProfilerEvent(ctypes.Structure):
    """One record of the profiler; times in microseconds."""

    _fields_ = [
        ("tag", ctypes.c_char_p),
        ("type", ctypes.c_int),
        ("start_us", ctypes.c_uint64),
        ("duration_us", ctypes.c_uint64),
        ("memory_before", MemoryUse),
        ("memory_after", MemoryUse),
        ("node", ctypes.c_uint64),
        ("subgraph", ctypes.c_uint64),
        ("source", ctypes.c_int),
    ]


class Metric(ctypes.Structure):
    """One counter of an accelerator."""

    _fields_ = [("name", ctypes.c_char_p), ("value", Any)]


class PerTensorQuantization(ctypes.Structure):
    """Scale and zero point of a whole tensor."""

    _fields_ = [("scale", ctypes.c_float), ("zero_point", ctypes.c_int64)]


SIZES = {
    Any: 16, EnvironmentOption: 24, Layout: 68, RankedType: 72, MemoryUse: 24, ProfilerEvent: 104, Metric: 24,
    PerTensorQuantization: 16,
}  # fmt: skip
"""What the 64-bit library of the versions below uses."""

TESTED_VERSIONS = ("2.3.",)
"""Versions whose layouts were checked. The interface promises no stability, so others are refused unless asked for."""

BOOL, INTEGER, REAL, TEXT = 1, 2, 3, 8
"""Types of `Any`."""

TAG_COMPILER_PLUGINS, TAG_DISPATCH, TAG_RUNTIME, TAG_REGISTER, TAG_LOG = 0, 1, 22, 24, 25
"""Tags of `EnvironmentOption`."""

LOG_INFO, LOG_SILENT = 1, 4
ACCELERATORS = {"cpu": 1, "gpu": 2, "npu": 4}
PRECISIONS = {"default": 0, "fp16": 1, "fp32": 2, "fp16_with_fp32_accum": 3}
ELEMENTS = {
    1: "float32", 2: "int32", 3: "uint8", 4: "int64", 5: "string", 6: "bool", 7: "int16", 8: "complex64", 9: "int8",
    10: "float16", 11: "float64", 13: "uint64", 16: "uint32", 17: "uint16", 18: "int4", 19: "bfloat16", 20: "int2",
    21: "uint4", 22: "float8_e4m3fn", 23: "float8_e5m2",
}  # fmt: skip
HOST_MEMORY = 1
PER_TENSOR = 1
