"""Prints the folder of `stowplanConfig.cmake`."""

from __future__ import annotations

from stowplan_cmake import cmake_dir

print(cmake_dir())
