"""Finds LiteRT's shared library, loads it once, and checks that it is one whose interface we know."""

from __future__ import annotations

import ctypes
import os
import struct
import sys
from functools import lru_cache

from stowplan_backend_litert.errors import LibraryUnavailableError
from stowplan_backend_litert.layouts import SIZES, TESTED_VERSIONS

FILE = {"darwin": "libLiteRt.dylib", "win32": "libLiteRt.dll"}.get(sys.platform, "libLiteRt.so")
ANY_VERSION = "STOWPLAN_LITERT_ANY_VERSION"
REMEDY = "install it with: pip install 'ai-edge-litert>=2.3,<2.4'"
_P, _INT, _SIZE, _TEXT, _BOOL = ctypes.c_void_p, ctypes.c_int, ctypes.c_size_t, ctypes.c_char_p, ctypes.c_bool

FUNCTIONS: dict[str, tuple[type, ...]] = {
    "CreateEnvironment": (_INT, _P, _P),
    "GetEnvironmentOptions": (_P, _P),
    "GetEnvironmentOptionsValue": (_P, _INT, _P),
    "GetNumAccelerators": (_P, _P),
    "GetAccelerator": (_P, _SIZE, _P),
    "GetAcceleratorName": (_P, _P),
    "GetAcceleratorHardwareSupport": (_P, _P),
    "EnvironmentSupportsClGlInterop": (_P, _P),
    "EnvironmentSupportsAhwbClInterop": (_P, _P),
    "EnvironmentSupportsAhwbGlInterop": (_P, _P),
    "EnvironmentSupportsFP16": (_P, _P),
    "CreateModelFromBuffer": (_P, _P, _SIZE, _P),
    "GetNumModelSignatures": (_P, _P),
    "GetModelSignature": (_P, _SIZE, _P),
    "GetSignatureKey": (_P, _P),
    "GetSignatureSubgraph": (_P, _P),
    "GetNumSubgraphOps": (_P, _P),
    "GetNumSignatureInputs": (_P, _P),
    "GetNumSignatureOutputs": (_P, _P),
    "GetSignatureInputName": (_P, _SIZE, _P),
    "GetSignatureOutputName": (_P, _SIZE, _P),
    "GetSignatureInputTensorByIndex": (_P, _SIZE, _P),
    "GetSignatureOutputTensorByIndex": (_P, _SIZE, _P),
    "GetTensorTypeId": (_P, _P),
    "GetRankedTensorType": (_P, _P),
    "GetQuantizationTypeId": (_P, _P),
    "GetPerTensorQuantization": (_P, _P),
    "CreateOptions": (_P,),
    "SetOptionsHardwareAccelerators": (_P, _INT),
    "CreateOpaqueOptions": (_TEXT, _P, _P, _P),
    "AddOpaqueOptions": (_P, _P),
    "CreateCompiledModel": (_P, _P, _P, _P),
    "GetCompiledModelInputBufferRequirements": (_P, _SIZE, _SIZE, _P),
    "GetCompiledModelOutputBufferRequirements": (_P, _SIZE, _SIZE, _P),
    "GetCompiledModelInputTensorLayout": (_P, _SIZE, _SIZE, _P),
    "GetCompiledModelOutputTensorLayouts": (_P, _SIZE, _SIZE, _P, _BOOL),
    "CompiledModelResizeInputTensor": (_P, _SIZE, _SIZE, _P, _SIZE),
    "GetNumTensorBufferRequirementsSupportedBufferTypes": (_P, _P),
    "GetTensorBufferRequirementsSupportedTensorBufferType": (_P, _INT, _P),
    "GetTensorBufferRequirementsBufferSize": (_P, _P),
    "CreateManagedTensorBufferFromRequirements": (_P, _P, _P, _P),
    "CreateTensorBufferFromHostMemory": (_P, _P, _SIZE, _P, _P),
    "GetTensorBufferPackedSize": (_P, _P),
    "LockTensorBuffer": (_P, _P, _INT),
    "UnlockTensorBuffer": (_P,),
    "RunCompiledModel": (_P, _SIZE, _SIZE, _P, _SIZE, _P),
    "CompiledModelIsFullyAccelerated": (_P, _P),
    "CompiledModelIsNonCpuFullyAccelerated": (_P, _P),
    "CompiledModelGetProfiler": (_P, _P),
    "StartProfiler": (_P,),
    "StopProfiler": (_P,),
    "ResetProfiler": (_P,),
    "GetNumProfilerEvents": (_P, _P),
    "GetProfilerEvents": (_P, _INT, _P),
    "CreateMetrics": (_P,),
    "GetNumMetrics": (_P, _P),
    "GetMetric": (_P, _INT, _P),
    "CompiledModelStartMetricsCollection": (_P, _INT),
    "CompiledModelStopMetricsCollection": (_P, _P),
    "CompiledModelGetErrorMessages": (_P, _P),
    "CompiledModelClearErrors": (_P,),
    "SetCompiledModelCancellationFunction": (_P, _P, _P),
}
"""Arguments of each function that returns a status, without the prefix that all of them share."""

DESTROYED = ("Environment", "Model", "Options", "CompiledModel", "TensorBuffer", "Metrics")


def folder() -> str | None:
    """Return the folder of the installed package, or None. Finds it without importing it: that would bring numpy."""
    from importlib.util import find_spec

    try:
        spec = find_spec("ai_edge_litert")
    except (ImportError, ValueError):
        return None
    places = list(spec.submodule_search_locations or ()) if spec else []
    return places[0] if places else None


def available() -> bool:
    """Say whether LiteRT's shared library is installed, without loading it."""
    place = folder()
    return place is not None and os.path.isfile(os.path.join(place, FILE))


def version() -> str:
    """Return the version of the installed package as its metadata folder has it; "" when that cannot be found."""
    place = folder()
    if place is None:
        return ""
    start, end = "ai_edge_litert-", ".dist-info"
    found = sorted(n for n in os.listdir(os.path.dirname(place)) if n.startswith(start) and n.endswith(end))
    return found[-1][len(start) : -len(end)] if found else ""


@lru_cache(maxsize=1)
def library() -> ctypes.CDLL:
    """Return the library, checked. Raises `LibraryUnavailableError`."""
    place = folder()
    if place is None or not available():
        raise LibraryUnavailableError(f"LiteRT is not installed here ({FILE} of ai-edge-litert); {REMEDY}")
    check_platform()
    check_version(version())
    return load(os.path.join(place, FILE))


def check_platform(system: str = sys.platform) -> None:
    """Raise `LibraryUnavailableError` where our structs cannot have the layout that the library uses."""
    if system == "win32":
        raise LibraryUnavailableError("this plugin knows LiteRT on Linux and macOS only; use one of those")
    wrong = [kind.__name__ for kind, size in SIZES.items() if ctypes.sizeof(kind) != size]
    if wrong or struct.calcsize("P") != 8 or sys.byteorder != "little":
        raise LibraryUnavailableError(f"LiteRT's interface has another layout on this platform ({', '.join(wrong)})")


def check_version(found: str) -> None:
    """Raise `LibraryUnavailableError` for a version whose layouts nobody checked: guessing would corrupt memory."""
    if found.startswith(TESTED_VERSIONS) or os.environ.get(ANY_VERSION) == "1":
        return
    raise LibraryUnavailableError(
        f"ai-edge-litert {found or 'of an unknown version'} has not been tried with this plugin; {REMEDY}, or set "
        f"{ANY_VERSION}=1 to try it all the same"
    )


def load(path: str) -> ctypes.CDLL:
    """Load the library at `path` and declare its functions. Raises `LibraryUnavailableError`."""
    try:
        # Global, since the accelerators that it loads later expect to find its symbols.
        loaded = ctypes.CDLL(path, mode=getattr(ctypes, "RTLD_GLOBAL", 0))
    except OSError as err:
        raise LibraryUnavailableError(f"{os.path.basename(path)} cannot be loaded: {err}; {REMEDY}") from err
    names = [*FUNCTIONS, *(f"Destroy{name}" for name in DESTROYED)]
    missing = [name for name in names if not hasattr(loaded, f"LiteRt{name}")]
    if missing:
        raise LibraryUnavailableError(f"{os.path.basename(path)} has no function LiteRt{missing[0]}; {REMEDY}")
    for name, arguments in FUNCTIONS.items():
        function = getattr(loaded, f"LiteRt{name}")
        function.argtypes, function.restype = list(arguments), ctypes.c_int
    for name in DESTROYED:
        function = getattr(loaded, f"LiteRtDestroy{name}")
        function.argtypes, function.restype = [ctypes.c_void_p], None
    return loaded
