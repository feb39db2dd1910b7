"""Calls into LiteRT: a status becomes an exception, and memory that LiteRT hands over is freed."""

from __future__ import annotations

import ctypes
from functools import lru_cache
from typing import Any

from stowplan_backend_litert.errors import STATUS, LiteRtError
from stowplan_backend_litert.library import library

READ, WRITE = 0, 1


def call(name: str, *arguments: Any, error: type[LiteRtError] = LiteRtError, what: str = "") -> None:
    """Call a function. Raises `error`, whose message begins with `what`, when its status is not 0."""
    status: int = getattr(library(), f"LiteRt{name}")(*arguments)
    if status != 0:
        raise failure(name, status, error, what)


def failure(name: str, status: int, error: type[LiteRtError], what: str = "", text: str = "") -> LiteRtError:
    """Return the error for a status that is not 0."""
    reason = text or f"{STATUS.get(status, f'status {status}')} in LiteRt{name}"
    return error(f"{what or 'LiteRT failed'}: {reason}", status=status, text=text)


def ask(name: str, *arguments: Any, kind: Any = ctypes.c_void_p, error: type[LiteRtError] = LiteRtError) -> Any:
    """Call a function whose last argument receives its answer, and return that."""
    answer = kind()
    call(name, *arguments, ctypes.byref(answer), error=error)
    return answer.value


def ask_text(name: str, *arguments: Any) -> str:
    """Return a name that lives in the model: a file may hold any bytes there."""
    found: bytes | None = ask(name, *arguments, kind=ctypes.c_char_p)
    return (found or b"").decode("utf-8", "replace")


def take_text(name: str, *arguments: Any) -> str:
    """Return a text that LiteRT allocated for us, and free it."""
    address = ctypes.c_void_p()
    call(name, *arguments, ctypes.byref(address))
    if not address.value:
        return ""
    try:
        return ctypes.string_at(address.value).decode("utf-8", "replace")
    finally:
        c_library().free(address)


def destroy(name: str, handle: int | None) -> None:
    if handle:
        getattr(library(), f"LiteRtDestroy{name}")(handle)


@lru_cache(maxsize=1)
def c_library() -> ctypes.CDLL:
    """Return the C library that LiteRT allocates from."""
    found = ctypes.CDLL(None)
    found.free.argtypes, found.free.restype = [ctypes.c_void_p], None
    found.fflush.argtypes = [ctypes.c_void_p]
    found.strdup.argtypes, found.strdup.restype = [ctypes.c_char_p], ctypes.c_void_p
    return found


def copied_text(text: str) -> int:
    """Return the address of a copy that LiteRT may free."""
    address: int = c_library().strdup(text.encode())
    return address
