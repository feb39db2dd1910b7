"""Plugins we know of by name: those bundled with the checkout, and what to install when one is missing."""

from __future__ import annotations

BUNDLED = frozenset(
    {
        "backend-c",
        "backend-ethosu",
        "backend-litert",
        "backend-mlir",
        "compressor-lz4",
        "compressor-range",
        "importer-onnx",
        "importer-tflite",
        "profiler-host",
        "profiler-qemu",
        "scheduler-greedy",
        "scheduler-stream",
    }
)
"""Entry points of the plugins that belong to stowplan itself; each is published as `stowplan-` and its name."""

KINDS_TO_WRITE = ("importer", "scheduler", "compressor", "backend", "profiler")
"""Kinds of plugin that the conformance kit knows and `stowplan plugins new` writes."""

SUFFIXES = {".onnx": "importer-onnx", ".tflite": "importer-tflite"}
"""Model formats by file name ending, and the plugin that reads each."""


def distribution(entry: str) -> str:
    """Return the distribution that a bundled plugin is published as."""
    return f"stowplan-{entry}"


def how_to_install(kind: str, name: str) -> str:
    """Return how to get a missing plugin, or nothing when we do not know of one."""
    entry = f"{kind}-{name}"
    return f" Install it with: pip install {distribution(entry)}" if entry in BUNDLED else ""
