"""What a model can be compiled with, checked, and how LiteRT wants to be told."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence

from stowplan.nouns import dataclass
from stowplan_backend_litert.calls import ask, c_library, call, copied_text
from stowplan_backend_litert.errors import OptionError
from stowplan_backend_litert.layouts import ACCELERATORS, PRECISIONS

NPU_DEVICES = {"default": None, "cpu": 0, "gpu": 1, "npu": 2}
"""Which device Intel's plugin compiles for; on its CPU device the whole NPU path runs where there is no NPU."""
MOST_THREADS = 256
MOST_PARTS = 64


@dataclass(frozen=True, kw_only=True)
class CompileOptions:
    """Options of `CompiledModel`, in the order of the caller's preference where there is one."""

    accelerators: tuple[str, ...] = ("cpu",)
    precision: str = "default"
    profile: bool = False
    signature: int | str = 0
    max_model_bytes: int = 0
    threads: int = 1
    npu_device: str = "default"
    only_this_signature: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "accelerators", _accelerators(self.accelerators))
        _choice("precision", self.precision, tuple(PRECISIONS))
        _choice("npu_device", self.npu_device, tuple(NPU_DEVICES))
        _whole("threads", self.threads, 1, MOST_THREADS)
        _whole("max_model_bytes", self.max_model_bytes, 0, 2**63)
        if isinstance(self.signature, bool) or not isinstance(self.signature, (int, str)):
            raise OptionError(f"signature is {self.signature!r}: give its key or its index")


def native_options(options: CompileOptions, kinds: Sequence[str], profile: bool, signature: str) -> int:
    """Return LiteRT's options object for one attempt; the caller destroys it."""
    handle: int = ask("CreateOptions")
    call("SetOptionsHardwareAccelerators", handle, sum(ACCELERATORS[kind] for kind in set(kinds)))
    _add(handle, "runtime_options_string", _runtime(options, profile, signature))
    _add(handle, "xnnpack", f"num_threads = {options.threads}\n")
    if PRECISIONS[options.precision]:
        _add(handle, "gpu_options", f"precision = {PRECISIONS[options.precision]}\n")
    device = NPU_DEVICES[options.npu_device]
    if device is not None:
        # One entry for each part that its compiler may cut a model into; a part without one gets the default device.
        _add(handle, "intel_openvino", "".join(f"graph.{n}.graph_backend = {device}\n" for n in range(MOST_PARTS)))
    return handle


def _runtime(options: CompileOptions, profile: bool, signature: str) -> str:
    text = "error_reporter_mode = 2\n"  # into a buffer that can be read afterwards
    if profile:
        text += "enable_profiling = true\n"
    if options.only_this_signature and signature.isidentifier():
        text += f'selected_signature_keys = ["{signature}"]\n'
    return text


def _add(options: int, identifier: str, text: str) -> None:
    free = ctypes.cast(c_library().free, ctypes.c_void_p)
    opaque = ctypes.c_void_p()
    call("CreateOpaqueOptions", identifier.encode(), copied_text(text), free, ctypes.byref(opaque))
    call("AddOpaqueOptions", options, opaque)


def _accelerators(given: object) -> tuple[str, ...]:
    if isinstance(given, str) or not isinstance(given, Sequence):
        raise OptionError(f'accelerators is {given!r}: give a sequence such as ("npu", "gpu", "cpu")')
    names = tuple(dict.fromkeys(given))
    if not names:
        raise OptionError("accelerators is empty: name at least one of npu, gpu, cpu")
    for name in names:
        _choice("accelerators", name, tuple(ACCELERATORS))
    return names


def _choice(option: str, given: object, known: tuple[str, ...]) -> None:
    if given not in known:
        raise OptionError(f"{option}: no {given!r}; known are {', '.join(known)}")


def _whole(option: str, given: object, least: int, most: int) -> None:
    if not isinstance(given, int) or isinstance(given, bool) or not least <= given <= most:
        raise OptionError(f"{option} is {given!r}: give a whole number of at least {least}")
