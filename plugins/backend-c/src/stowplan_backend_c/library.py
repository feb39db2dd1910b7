"""The host library: the runtime's C files, compiled for this machine on first use."""

from __future__ import annotations

from pathlib import Path

from stowplan.native.library import NativeLibrary

HERE = Path(__file__).parent
LIBRARY = NativeLibrary(
    name="stow",
    folders=(HERE / "runtime", HERE / "native"),
    flags=(
        # A fused multiply-add rounds once where the source says twice: floats would depend on how rows were split.
        "-ffp-contract=off",
        "-DSTOW_COUNTERS=1",
        "-DSTOW_WITH_PREPARED=1",
    ),
)
