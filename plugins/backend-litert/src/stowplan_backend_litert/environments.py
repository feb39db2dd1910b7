"""An environment: where accelerators are looked for, and which were found. One serves any number of models."""

from __future__ import annotations

import ctypes
import os
import sys
import threading
from collections.abc import Mapping, Sequence
from types import TracebackType

from stowplan.nouns import dataclass, field
from stowplan_backend_litert import layouts
from stowplan_backend_litert.calls import ask, ask_text, call, destroy
from stowplan_backend_litert.errors import ClosedError, LibraryUnavailableError, LiteRtError, OptionError
from stowplan_backend_litert.library import folder, library, version
from stowplan_backend_litert.quiet import captured

INTEL = os.path.join("vendors", "intel_openvino")


@dataclass(frozen=True)
class Accelerator:
    """One accelerator that LiteRT registered; `kind` is cpu, gpu or npu."""

    name: str
    kind: str


@dataclass
class _Native:
    handle: int
    accelerators: tuple[Accelerator, ...]
    log: str
    keep: list[bytes] = field(default_factory=list)


class Environment:
    """Folders for accelerators' libraries; LiteRT's own environments are made when a model asks for an accelerator.

    `runtime_dir` is where accelerators are looked for (default: beside LiteRT's library), `compiler_dir` and
    `dispatch_dir` where a vendor's NPU plugin and its dispatch library are (default: those in the wheel). A model that
    wants the CPU only does not pay for loading the others. An environment may be closed while models are open: they
    keep what they need.
    """

    def __init__(
        self,
        runtime_dir: str | os.PathLike[str] | None = None,
        *,
        compiler_dir: str | os.PathLike[str] | None = None,
        dispatch_dir: str | os.PathLike[str] | None = None,
    ) -> None:
        library()
        place = folder()
        assert place is not None  # else library() has raised
        self.runtime_dir = _directory(runtime_dir, place)
        self.compiler_dir = _directory(compiler_dir, os.path.join(place, INTEL, "compiler"))
        self.dispatch_dir = _directory(dispatch_dir, os.path.join(place, INTEL, "dispatch"))
        self._lock = threading.Lock()
        self._natives: dict[int, _Native] = {}
        self._users = 0
        self._closed = False

    def accelerators(self) -> tuple[Accelerator, ...]:
        """Return what LiteRT can register here, by loading all of it. A driver may still find no device."""
        return self._native(("npu", "gpu", "cpu")).accelerators

    def present(self, kind: str) -> bool:
        """Say whether an accelerator of a kind could be registered."""
        if kind == "npu" and not any("LiteRtDispatch" in name for name in _names(self.dispatch_dir)):
            return False  # LiteRT registers an NPU for any folder, and looks into it when it is too late
        return any(a.kind == kind for a in self._native((kind,)).accelerators)

    def log(self, kind: str) -> str:
        """Return what was printed while the accelerator of a kind was looked for."""
        return self._native((kind,)).log

    def supports(self) -> Mapping[str, bool | str]:
        """Return what the library says of this environment; a text is why it could not say."""
        handle = self._native(("gpu", "cpu")).handle
        questions = {
            "cl_gl_interop": "ClGlInterop", "ahwb_cl_interop": "AhwbClInterop", "ahwb_gl_interop": "AhwbGlInterop",
            "gpu_fp16": "FP16",
        }  # fmt: skip
        with captured():
            return {key: _supports(handle, name) for key, name in questions.items()}

    def close(self) -> None:
        """Let go; what open models use lives as long as they do. A second call does nothing."""
        with self._lock:
            self._closed = True
            self._release_unused()

    def __enter__(self) -> Environment:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __del__(self) -> None:
        if hasattr(self, "_natives"):
            self.close()

    def acquire(self, kinds: Sequence[str]) -> int:
        """Return LiteRT's handle for a model that may use these accelerators; the model calls `release` once."""
        handle = self._native(kinds).handle
        with self._lock:
            self._users += 1
        return handle

    def release(self) -> None:
        with self._lock:
            self._users -= 1
            self._release_unused()

    def _release_unused(self) -> None:
        if self._closed and self._users <= 0:
            for native in self._natives.values():
                destroy("Environment", native.handle)
            self._natives.clear()

    def _native(self, kinds: Sequence[str]) -> _Native:
        # The GPU is registered alone: a model's buffers then cannot end up with an accelerator that it did not ask for.
        mask = sum(layouts.ACCELERATORS[kind] for kind in set(kinds) | {"cpu"})
        with self._lock:
            if self._closed:
                raise ClosedError("this environment was closed; make another one")
            if mask not in self._natives:
                self._natives[mask] = self._create(mask)
            return self._natives[mask]

    def _create(self, mask: int) -> _Native:
        options: list[tuple[int, str | int]] = [(layouts.TAG_REGISTER, mask), (layouts.TAG_RUNTIME, self.runtime_dir)]
        if mask & layouts.ACCELERATORS["npu"]:
            options += [(layouts.TAG_COMPILER_PLUGINS, self.compiler_dir), (layouts.TAG_DISPATCH, self.dispatch_dir)]
        loud = mask != layouts.ACCELERATORS["cpu"]
        with captured() as output:
            handle, keep = _open([*options, (layouts.TAG_LOG, layouts.LOG_INFO if loud else layouts.LOG_SILENT)])
            if loud:
                silence()
        _check_layout(handle, mask)
        return _Native(handle, _registered(handle), output.text, keep)


def environment(runtime_dir: str | os.PathLike[str] | None = None) -> Environment:
    """Return an environment that looks for accelerators in `runtime_dir`, by default beside LiteRT's library."""
    return Environment(runtime_dir)


def platform_support(env: Environment | None = None) -> dict[str, bool | str]:
    """Return which kinds of buffer this platform can reach, and with `env` what the library says at run time.

    The first part is fixed when LiteRT is compiled and no symbol tells it: these are the published builds' answers.
    """
    library()
    mac, linux = sys.platform == "darwin", sys.platform.startswith("linux")
    answers: dict[str, bool | str] = dict(
        metal=mac, opencl=linux, opengl=False, ahwb=False, ion=False, dmabuf=False, fastrpc=False,
        sync_fence=linux or mac,
    )  # fmt: skip
    return answers if env is None else {**answers, **env.supports()}


def set_log_level(level: int) -> None:
    """Set how much LiteRT prints. The level is global to the process; making an environment is what sets it."""
    handle, _ = _open([(layouts.TAG_REGISTER, layouts.ACCELERATORS["cpu"]), (layouts.TAG_LOG, level)])
    destroy("Environment", handle)


def silence() -> None:
    set_log_level(layouts.LOG_SILENT)


def _directory(given: str | os.PathLike[str] | None, default: str) -> str:
    if given is None:
        return default
    path = os.fspath(given)
    if not os.path.isdir(path):
        raise OptionError(f"{path}: is no folder; accelerators are looked for there")
    return path


def _names(folder: str) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:  # the wheel has none for this platform
        return []


def _open(options: Sequence[tuple[int, str | int]]) -> tuple[int, list[bytes]]:
    keep: list[bytes] = []
    array = (layouts.EnvironmentOption * len(options))()
    for slot, (tag, value) in zip(array, options, strict=True):
        slot.tag = tag
        if isinstance(value, str):
            keep.append(os.fsencode(value))
            slot.value.type, slot.value.value.text = layouts.TEXT, keep[-1]
        else:
            slot.value.type, slot.value.value.integer = layouts.INTEGER, value
    handle: int = ask("CreateEnvironment", len(options), array)
    return handle, keep


def _check_layout(handle: int, mask: int) -> None:
    """Read an option back: the one way to ask the library whether its structs are the ones we know."""
    options = ask("GetEnvironmentOptions", handle)
    value = layouts.Any()
    call("GetEnvironmentOptionsValue", options, layouts.TAG_REGISTER, ctypes.byref(value))
    if value.type != layouts.INTEGER or value.value.integer != mask:
        raise LibraryUnavailableError(f"ai-edge-litert {version()} lays its structs out in another way than 2.3")


def _registered(handle: int) -> tuple[Accelerator, ...]:
    kinds = {number: kind for kind, number in layouts.ACCELERATORS.items()}
    found = []
    for index in range(ask("GetNumAccelerators", handle, kind=ctypes.c_size_t)):
        accelerator = ask("GetAccelerator", handle, index)
        support = ask("GetAcceleratorHardwareSupport", accelerator, kind=ctypes.c_int)
        found.append(Accelerator(ask_text("GetAcceleratorName", accelerator), kinds.get(support, str(support))))
    return tuple(found)


def _supports(handle: int, name: str) -> bool | str:
    try:
        return bool(ask(f"EnvironmentSupports{name}", handle, kind=ctypes.c_bool))
    except LiteRtError as err:
        return str(err)
