"""The CMake package of stowplan; `python -m stowplan_cmake` prints where it is, for `-Dstowplan_DIR=`."""

from __future__ import annotations

from pathlib import Path


def cmake_dir() -> Path:
    """Return the folder of `stowplanConfig.cmake`."""
    return Path(__file__).parent / "cmake"
