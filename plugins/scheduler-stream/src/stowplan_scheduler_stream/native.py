"""The scheduler's C code, built on first use like the runtime; without a C compiler greedy ways have to do."""

from __future__ import annotations

import ctypes
from functools import lru_cache
from pathlib import Path

from stowplan.errors import RuntimeFailure
from stowplan.native.library import NativeLibrary
from stowplan_scheduler_stream.packer import Packer

LIBRARY = NativeLibrary(name="stowplan-stream", folders=(Path(__file__).parent / "native",))

_SEARCH_ARGUMENTS = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)
_SIGNATURES = (("order_search", ctypes.c_int, _SEARCH_ARGUMENTS), ("order_cuts", ctypes.c_int, _SEARCH_ARGUMENTS))


@lru_cache(maxsize=1)
def library() -> ctypes.CDLL | None:
    """Return the compiled code, or None on a machine that cannot build it."""
    try:
        return LIBRARY.load(_SIGNATURES)
    except RuntimeFailure:
        return None


@lru_cache(maxsize=1)
def packer() -> Packer | None:
    """Return the compiled packer, or None on a machine that cannot build it."""
    native = library()
    return None if native is None else Packer(native)
