"""What a C compiler and this processor are, in words and digests that mean the same on every machine."""

from __future__ import annotations

import hashlib
import os
import subprocess
from functools import cache
from pathlib import Path

from stowplan.errors import RuntimeFailure
from stowplan.native.library import ready_made
from stowplan.native.toolchain import Compiler, find_compiler, library_suffix

CPUINFO = Path("/proc/cpuinfo")
NATIVE = ("-march=native", "-mcpu=native", "-mtune=native")
ASK_SECONDS = 20


def host_identity(options: tuple[str, ...] = ()) -> tuple[dict[str, str], tuple[str, ...]]:
    """Return which compiler makes programs for this machine and for which processor; and the files to watch for that.

    Without a compiler the facts say so: whoever needs one has an error of its own. The processor is the architecture
    alone, unless an option asks for code for exactly this one. Libraries that are ready-made stand for themselves.
    """
    if ready_made():
        return _ready(Path(ready_made()))
    try:
        compiler = find_compiler()
    except RuntimeFailure as err:
        return {"compiler": "none", "why": str(err), "processor": architecture()}, ()
    facts = compiler_facts(compiler)
    words = (*compiler.command[1:], *options)
    return {**facts, "options": " ".join(words), "processor": processor(words)}, (program(compiler),)


def _ready(folder: Path) -> tuple[dict[str, str], tuple[str, ...]]:
    files = tuple(sorted(path for path in folder.glob(f"*{library_suffix()}") if path.is_file()))
    digests = {path.stem: hashlib.sha256(path.read_bytes()).hexdigest() for path in files}
    return {**digests, "compiler": "ready-made", "processor": architecture()}, tuple(map(str, files))


def compiler_facts(compiler: Compiler) -> dict[str, str]:
    """Return a compiler's own first line about itself, and the digest of its program."""
    return dict(_facts(compiler.command, compiler.identity))


def program(compiler: Compiler) -> str:
    return os.path.realpath(compiler.command[0])


def processor(options: tuple[str, ...]) -> str:
    """Return what code compiled with these options runs on: an architecture, or exactly this processor."""
    if not set(options) & set(NATIVE):
        return architecture()
    return f"{architecture()} {this_processor()}"


def architecture() -> str:
    return os.uname().machine if hasattr(os, "uname") else os.environ.get("PROCESSOR_ARCHITECTURE", "unknown")


def this_processor() -> str:
    """Return this machine's processor: its name, and the digest of what it can do."""
    try:
        text = CPUINFO.read_text("utf-8", "replace")
    except OSError:
        import platform

        return platform.processor() or "unknown"
    found: dict[str, str] = {}
    for line in text.splitlines():
        name, _, value = line.partition(":")
        found.setdefault(name.strip().lower(), value.strip())
    abilities = found.get("flags") or found.get("features") or ""
    return f"{found.get('model name', 'unknown')} {hashlib.sha256(abilities.encode()).hexdigest()[:16]}"


@cache
def _facts(command: tuple[str, ...], _identity: str) -> tuple[tuple[str, str], ...]:
    path = os.path.realpath(command[0])
    try:
        digest = hashlib.sha256(Path(path).read_bytes()).hexdigest()
    except OSError:
        digest = "unreadable"
    return (("compiler", _version(command)), ("program", digest))


def _version(command: tuple[str, ...]) -> str:
    try:
        done = subprocess.run([*command, "--version"], capture_output=True, timeout=ASK_SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return "unknown"
    lines = done.stdout.decode("utf-8", "replace").splitlines()
    return lines[0].strip()[:200] if lines else "unknown"
