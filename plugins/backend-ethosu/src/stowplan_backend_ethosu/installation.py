"""Where Vela is installed, found without importing it: that would take longer than it takes to compile."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

from stowplan.errors import RuntimeFailure

REMEDY = "pip install 'stowplan-backend-ethosu[vela]'"


def folder() -> Path:
    """Return the folder of the package `ethosu`. Raises `RuntimeFailure` when it or its compiler is missing."""
    try:
        spec = find_spec("ethosu")
    except (ImportError, ValueError):
        spec = None
    for place in map(Path, spec.submodule_search_locations or () if spec else ()):
        if any(place.glob("regor*")):
            return place
    raise RuntimeFailure(f"Vela is not installed: {REMEDY}")


def default_config() -> Path:
    """Return the configuration file that comes with Vela."""
    path = folder() / "config_files" / "Arm" / "vela.ini"
    if not path.is_file():
        raise RuntimeFailure(f"Vela's config_files/Arm/vela.ini is missing: {REMEDY} --force-reinstall")
    return path


def version() -> str:
    """Return Vela's version, or "unknown" for a copy without metadata."""
    from importlib.metadata import PackageNotFoundError
    from importlib.metadata import version as of

    try:
        return of("ethos-u-vela")
    except PackageNotFoundError:
        return "unknown"
