"""Whose a model is, and that one caller is in it at a time."""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any
from weakref import WeakSet

from stowplan.nouns import dataclass
from stowplan_backend_litert.errors import InUseError, NotOwnerError, OptionError

IN_USE = "compiled model is in use by another caller"


@dataclass(frozen=True)
class ProcessOwner:
    """A process as an owner; `started` tells it from a later one with the same number."""

    pid: int
    started: str = ""

    @classmethod
    def of(cls, pid: int) -> ProcessOwner:
        return cls(pid, _start_time(pid))

    def __str__(self) -> str:
        return f"process {self.pid}"

    def is_alive(self) -> bool:
        try:
            os.kill(self.pid, 0)
        except ProcessLookupError:
            return False
        except OSError:
            return True  # it is there, and not ours to signal
        return _start_time(self.pid) == self.started

    def is_caller(self, caller: Owner | None) -> bool:
        return caller == self if caller is not None else os.getpid() == self.pid


@dataclass(frozen=True)
class ThreadOwner:
    """A thread as an owner."""

    thread: threading.Thread

    def __str__(self) -> str:
        return f"thread {self.thread.name}"

    def is_alive(self) -> bool:
        return self.thread.is_alive()

    def is_caller(self, caller: Owner | None) -> bool:
        return caller == self if caller is not None else threading.current_thread() is self.thread


Owner = ProcessOwner | ThreadOwner


def as_owner(given: Any) -> Owner | None:
    """Return the owner that a thread, a process, a process's number or None stands for. Raises `OptionError`."""
    if given is None or isinstance(given, (ProcessOwner, ThreadOwner)):
        owner = given
    elif isinstance(given, threading.Thread):
        owner = ThreadOwner(given)
    elif isinstance(given, int) and not isinstance(given, bool):
        owner = ProcessOwner.of(given)
    elif isinstance(getattr(given, "pid", None), int):
        owner = ProcessOwner.of(given.pid)
    else:
        raise OptionError(f"owner is {given!r}: give a thread, a process, a process's number, or None for nobody")
    if owner is not None and not owner.is_alive():
        raise NotOwnerError(f"{owner} is not alive; a model cannot be handed to it")
    return owner


class Claim:
    """The claim on one model, and the one caller that may be in it. `with claim:` enters or refuses at once."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        # Bound here, since every run of a model that takes four microseconds enters and leaves.
        self._acquire: Callable[[bool], bool] = self.lock.acquire
        self.leave: Callable[[], None] = self.lock.release
        self._owner: Owner | None = None
        self.guarded = ctypes.c_char(b"\0")
        """Not 0 where a free lock is not enough to enter: the model has an owner, or is a child process's copy."""
        _claims.add(self)

    def enter(self, caller: Owner | None = None) -> None:
        if not self._acquire(False):
            raise InUseError(IN_USE)
        if self._owner is None:
            return
        try:
            self.check(caller)
        except NotOwnerError:
            self.lock.release()
            raise

    def forked(self) -> None:
        """Refuse every caller from now on: this is a child's copy, and LiteRT's threads stayed with the parent."""
        self._acquire = _refuse_child
        self.guarded.value = b"\1"

    def check(self, caller: Owner | None = None) -> None:
        """Raise `NotOwnerError` for a caller that may not use the model, without entering it."""
        if self._owner is not None and not self._admits(caller):
            raise NotOwnerError(f"compiled model belongs to another caller ({self._owner}); it can hand it over")

    @property
    def busy(self) -> bool:
        return self.lock.locked()

    def owner(self) -> Owner | None:
        """Return the owner; a claim ends with the thread or process that had it."""
        if self._owner is not None and not self._owner.is_alive():
            self._owner = None
        return self._owner

    def give(self, owner: Any, caller: Owner | None = None) -> None:
        """Hand the model over. Only its owner may; anybody may where there is none."""
        wanted = as_owner(owner)
        self.enter(caller)
        try:
            self._owner = wanted
            self.guarded.value = b"\0" if wanted is None else b"\1"
        finally:
            self.leave()

    def __enter__(self) -> None:
        self.enter()

    def __exit__(self, *_: object) -> None:
        self.leave()

    def _admits(self, caller: Owner | None) -> bool:
        owner = self.owner()
        return owner is None or owner.is_caller(caller)


_claims: WeakSet[Claim] = WeakSet()


def _refuse_child(_blocking: bool) -> bool:
    raise NotOwnerError("compiled model was made by another process; make it anew after a fork")


def _forked() -> None:
    for claim in list(_claims):
        claim.forked()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)  # asking for the process's number at each run costs a twentieth of it


def _start_time(pid: int) -> str:
    """Return when a process started, where the system tells: numbers are used again."""
    with suppress(OSError, IndexError), open(f"/proc/{pid}/stat", encoding="latin-1") as file:
        return file.read().rpartition(")")[2].split()[19]
    return ""
