"""The host library as ctypes sees it: one signature for each function that Python calls."""

from __future__ import annotations

import ctypes
from functools import lru_cache

from stowplan.nouns import dataclass
from stowplan_backend_c.library import LIBRARY

_POINTER = ctypes.c_void_p
_SIGNATURES: tuple[tuple[str, type | None, tuple[type, ...]], ...] = (
    ("stow_open", ctypes.c_int, (_POINTER, _POINTER, ctypes.c_size_t)),
    ("stow_check_digest", ctypes.c_int, (_POINTER, ctypes.c_size_t)),
    ("stow_bind", ctypes.c_int, (_POINTER, _POINTER, _POINTER, ctypes.c_size_t, _POINTER, ctypes.c_size_t)),
    ("stow_invoke", ctypes.c_int, (_POINTER,)),
    ("stow_begin", ctypes.c_int, (_POINTER,)),
    ("stow_push_rows", ctypes.c_int, (_POINTER, ctypes.c_uint32, _POINTER, ctypes.c_uint32)),
    ("stow_waiting_for", ctypes.c_uint32, (_POINTER,)),
    ("stow_rows_wanted", ctypes.c_uint32, (_POINTER,)),
    ("stow_input", _POINTER, (_POINTER, ctypes.c_uint32)),
    ("stow_output", _POINTER, (_POINTER, ctypes.c_uint32)),
    ("stow_status_text", ctypes.c_char_p, (ctypes.c_int,)),
    ("stow_lz4_decode", ctypes.c_int, (_POINTER, ctypes.c_uint32, _POINTER, ctypes.c_uint32)),
    ("stow_range_decode", ctypes.c_int, (_POINTER, ctypes.c_uint32, _POINTER, ctypes.c_uint32)),
    ("stow_host_plan_bytes", ctypes.c_size_t, ()),
    ("stow_host_context_bytes", ctypes.c_size_t, ()),
    ("stow_host_fault", ctypes.c_uint32, (_POINTER,)),
    ("stow_host_slow_read_bytes", ctypes.c_uint64, (_POINTER,)),
    ("stow_host_slow_written_bytes", ctypes.c_uint64, (_POINTER,)),
    ("stow_host_watch", None, (_POINTER, _POINTER)),
    ("stow_host_clock_ns", ctypes.c_uint64, ()),
    ("stow_host_prepare_bytes", ctypes.c_size_t, (_POINTER, ctypes.c_char_p)),
    ("stow_host_prepare", ctypes.c_char_p, (_POINTER, ctypes.c_char_p, _POINTER)),
)


@dataclass(frozen=True)
class Runtime:
    """The loaded library. Its functions hold no state and may be called from any thread."""

    library: ctypes.CDLL

    def text(self, status: int) -> str:
        """Return a status in words."""
        text: bytes = self.library.stow_status_text(status)
        return text.decode("ascii")

    def new_plan(self) -> ctypes.Array[ctypes.c_char]:
        return ctypes.create_string_buffer(self.library.stow_host_plan_bytes())

    def new_context(self) -> ctypes.Array[ctypes.c_char]:
        return ctypes.create_string_buffer(self.library.stow_host_context_bytes())


@lru_cache(maxsize=1)
def runtime() -> Runtime:
    """Return the host library, compiled first if need be. Raises `RuntimeFailure` when that is not possible."""
    return Runtime(LIBRARY.load(_SIGNATURES))
