"""The kernels' sources compile without a warning, whichever of them are left out, and need little stack."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from stowplan.native.toolchain import find_compiler
from stowplan.planfile.kinds import NODE_KINDS

RUNTIME = Path(__file__).parents[1] / "src" / "stowplan_backend_c" / "runtime"
SOURCES = [str(path) for path in sorted(RUNTIME.glob("stow_*.c"))]
STRICT = ("-std=c11", "-Wall", "-Wextra", "-Wconversion", "-Wshadow", "-Wstrict-prototypes", "-Werror")
STACK_BYTES = 1280
"""Compiled for this 64-bit machine, with whatever was put inline. What runs need on boards is measured there."""


def compiles(*options: str, folder: Path | None = None) -> None:
    command = [*find_compiler().command, *STRICT, *options, "-I", str(RUNTIME), *SOURCES]
    done = subprocess.run(command, capture_output=True, text=True, cwd=folder, timeout=300)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("kind", NODE_KINDS)
def test_each_kernel_builds_alone(kind: str) -> None:
    others = [f"-DSTOW_WITH_{name.upper()}=0" for name in NODE_KINDS if name != kind]
    compiles("-fsyntax-only", *others)


def test_no_kernel_needs_more_stack_than_a_small_device_has(tmp_path: Path) -> None:
    compiles("-O2", "-fstack-usage", "-DSTOW_WITH_SET_SSE2=0", "-c", folder=tmp_path)
    reports = [line.split("\t") for file in tmp_path.glob("*.su") for line in file.read_text().splitlines()]
    if not reports:
        pytest.skip("this compiler does not report stack usage")
    assert all(kind in ("static", "dynamic,bounded") for _, _, kind in reports), "no array of variable length"
    largest = max(reports, key=lambda report: int(report[1]))
    assert int(largest[1]) <= STACK_BYTES, largest
