"""Which MLIR and which converter are installed, found without importing them, which would load 300 MB."""

from __future__ import annotations

import os
import platform
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path

from stowplan.errors import RuntimeFailure

REMEDY = "pip install --no-deps torch-mlir tosa-converter-for-tflite"
LIBRARY = "libTorchMLIRAggregateCAPI"
_DISTRIBUTIONS = {"torch_mlir": "torch-mlir", "tosa_converter_for_tflite": "tosa-converter-for-tflite"}


def require(*packages: str) -> None:
    """Raise `RuntimeFailure` for a package that is not installed."""
    for package in packages:
        if _place(package) is None:
            raise RuntimeFailure(f"{_DISTRIBUTIONS[package]} is not installed: {REMEDY}")


def versions() -> dict[str, str]:
    """Return the releases of both packages, "unknown" for a copy without metadata."""
    return {name: _version(name) for name in _DISTRIBUTIONS.values()}


def llvm_revision() -> str:
    """Return what tells the LLVM inside torch-mlir from any other: its release and the digest of its library.

    The digest is the one that the wheel records of itself. Raises `RuntimeFailure` without torch-mlir.
    """
    require("torch_mlir")
    return f"torch-mlir {_version('torch-mlir')}@{_recorded() or _computed()}"


def processor() -> str:
    """Return what LLVM makes code for on this machine, as a digest: architecture, model, and its instructions."""
    from hashlib import sha256

    words = [platform.machine(), platform.processor()]
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        lines = []
    names = ("vendor_id", "cpu family", "model", "model name", "flags", "Features", "CPU part", "isa")
    words += dict.fromkeys(line for line in lines if line.partition(":")[0].strip() in names)
    return sha256("\n".join(words).encode()).hexdigest()[:16]


def _place(package: str) -> Path | None:
    try:
        spec = find_spec(package)
    except (ImportError, ValueError):
        return None
    places = list(spec.submodule_search_locations or ()) if spec else []
    return Path(places[0]) if places else None


def _version(distribution: str) -> str:
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return "unknown"


def _recorded() -> str:
    try:
        files = metadata.files("torch-mlir") or []
    except metadata.PackageNotFoundError:
        return ""
    hashes = [file.hash.value for file in files if file.name.startswith(LIBRARY) and file.hash is not None]
    return hashes[0][:16] if hashes else ""


def _computed() -> str:
    from hashlib import sha256

    place = _place("torch_mlir")
    for name in sorted(os.listdir(place / "_mlir_libs")) if place else []:
        if name.startswith(LIBRARY):
            return sha256((Path(str(place)) / "_mlir_libs" / name).read_bytes()).hexdigest()[:16]
    return "unknown"
