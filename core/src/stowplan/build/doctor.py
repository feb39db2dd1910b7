"""What this machine has of all that stowplan can use: found where, in which version, or how to get it."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
from collections.abc import Iterator

from stowplan.errors import StowplanError
from stowplan.nouns import dataclass
from stowplan.plugins.host import Host
from stowplan.plugins.loading import one_line
from stowplan.plugins.patience import TookTooLongError, limit

OK, MISSING, FAULT = "ok", "missing", "fault"
"""A fault is what keeps the tool from its work; what is missing is only needed for some of it."""
BACKEND_SECONDS = 20.0
PROGRAM_SECONDS = 20.0

PROGRAMS = (
    ("firmware", "arm-none-eabi-gcc", "--board cortex-...", "apt install gcc-arm-none-eabi libnewlib-arm-none-eabi"),
    ("firmware", "riscv64-unknown-elf-gcc", "--board rv32",
     "apt install gcc-riscv64-unknown-elf picolibc-riscv64-unknown-elf"),
    ("emulators", "qemu-system-arm", "--board cortex-...", "apt install qemu-system-arm"),
    ("emulators", "qemu-system-riscv32", "--board rv32", "apt install qemu-system-misc"),
    ("build systems", "cmake", "docs/cmake.md", "apt install cmake, or pip install cmake"),
    ("build systems", "meson", "integrations/meson", "pip install meson"),
    ("build systems", "bazel", "docs/bazel.md", "see bazel.build/install"),
)  # fmt: skip
PACKAGES = (
    ("onnx", "ONNX models", "pip install stowplan-importer-onnx"),
    ("lz4", "packed weights", "pip install stowplan-compressor-lz4"),
    ("ai-edge-litert", "accelerate, profile --on", "pip install 'stowplan-backend-litert[runtime]'"),
    ("ortools", "an exact packer", "pip install 'stowplan-scheduler-stream[cp-sat]'"),
    ("tflite-micro", "verify, beside the rival", "pip install tflite-micro"),
    ("numpy", "models with text or dictionaries as weights", "pip install numpy"),
)
NEEDED = (("scheduler", "stream"), ("backend", "c"))


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One thing: where it belongs, its name, its state, its version or place, and what to do where it is not ok."""

    area: str
    name: str
    state: str
    found: str = ""
    advice: str = ""


def findings(plugins: Host) -> Iterator[Finding]:
    """Yield everything, what is needed first. Nothing a plugin does ends it."""
    yield Finding(area="python", name=platform.python_implementation(), state=OK, found=platform.python_version())
    yield _compiler()
    yield _cache()
    yield from _plugins(plugins)
    yield from _backends(plugins)
    for area, name, purpose, how in PROGRAMS:
        yield _program(area, name, purpose, how)
    for name, purpose, how in PACKAGES:
        yield _package(name, purpose, how)


def _compiler() -> Finding:
    from stowplan.errors import RuntimeFailure
    from stowplan.native.toolchain import find_compiler

    try:
        command = find_compiler().command
    except RuntimeFailure as err:
        return Finding(area="compiler", name="C compiler", state=FAULT, advice=str(err))
    version = _version(*command)
    if version is None:
        return Finding(
            area="compiler", name="C compiler", state=FAULT, found=" ".join(command), advice="does not run; set CC"
        )
    return Finding(area="compiler", name="C compiler", state=OK, found=f"{version} ({' '.join(command)})")


def _cache() -> Finding:
    from stowplan.cache.directory import cache_directory

    try:
        folder = cache_directory()
        probe = folder / f".doctor-{os.getpid()}"
        probe.write_bytes(b"")
        probe.unlink()
    except (OSError, StowplanError) as err:
        advice = f"cannot be written ({one_line(err)}); nothing is remembered. Set STOWPLAN_CACHE_DIR"
        return Finding(area="cache", name="folder", state=MISSING, advice=advice)
    return Finding(area="cache", name="folder", state=OK, found=str(folder))


def _plugins(plugins: Host) -> Iterator[Finding]:
    for plugin in plugins.plugins:
        state = {"ok": OK, "broken": FAULT}.get(plugin.state, MISSING)
        yield Finding(area="plugins", name=plugin.entry, state=state, found=plugin.title, advice=plugin.reason)
    for kind, name in NEEDED:
        if not plugins.offered(kind, name):
            advice = f"pip install stowplan-{kind}-{name}"
            yield Finding(area="plugins", name=f"{kind}-{name}", state=FAULT, advice=advice)
    if not plugins.offered("importer"):
        advice = "no model can be read: pip install stowplan-importer-tflite"
        yield Finding(area="plugins", name="importer", state=FAULT, advice=advice)


def _backends(plugins: Host) -> Iterator[Finding]:
    for plugin, offer in plugins.offered("backend"):
        try:
            with limit(BACKEND_SECONDS):
                backend = plugins.record(plugin, "backend", offer.name)
                there = backend.available()
                names = ", ".join(backend.accelerators()) if there.ok else ""
        except TookTooLongError:
            yield Finding(
                area="accelerators", name=offer.name, state=FAULT, advice=f"no answer in {BACKEND_SECONDS:g} s"
            )
        except (Exception, SystemExit) as err:  # one backend's trouble must not hide the others
            yield Finding(area="accelerators", name=offer.name, state=FAULT, advice=one_line(err))
        else:
            state = OK if there.ok else MISSING
            yield Finding(area="accelerators", name=offer.name, state=state, found=names, advice=there.why)


def _program(area: str, name: str, purpose: str, how: str) -> Finding:
    path = shutil.which(name)
    if path is None:
        return Finding(area=area, name=name, state=MISSING, advice=f"for {purpose}: {how}")
    version = _version(path)
    if version is None:
        return Finding(area=area, name=name, state=MISSING, found=path, advice=f"does not run; for {purpose}: {how}")
    return Finding(area=area, name=name, state=OK, found=f"{version} ({path})")


def _version(*command: str) -> str | None:
    """Return the first line of what a program says of itself; None when it does not run."""
    try:
        done = subprocess.run(
            [*command, "--version"], capture_output=True, text=True, errors="replace", timeout=PROGRAM_SECONDS,
            check=False, stdin=subprocess.DEVNULL,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired):
        return None
    lines = (done.stdout or done.stderr).strip().splitlines()
    return lines[0].strip()[:100] if done.returncode == 0 and lines else None


def _package(name: str, purpose: str, how: str) -> Finding:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return Finding(area="packages", name=name, state=OK, found=version(name))
    except PackageNotFoundError:
        return Finding(area="packages", name=name, state=MISSING, advice=f"for {purpose}: {how}")
