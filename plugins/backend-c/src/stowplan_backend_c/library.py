"""Builds the host library once and keeps it in the user's cache, under a key of sources, compiler and flags."""

from __future__ import annotations

import hashlib
import os
import stat
from contextlib import suppress
from pathlib import Path

from stowplan.cache.directory import cache_directory
from stowplan.errors import RuntimeFailure
from stowplan_backend_c.toolchain import Compiler, find_compiler, flags, library_suffix

HERE = Path(__file__).parent
BUILD_SECONDS = 600
"""A build takes seconds; a compiler that hangs must not hang us."""


def sources() -> tuple[Path, ...]:
    """Return all C files and headers of the host library, in a fixed order."""
    found = [*(HERE / "runtime").glob("*.[ch]"), *(HERE / "native").glob("*.[ch]")]
    return tuple(sorted(found, key=lambda path: path.name))


def host_library() -> Path:
    """Return the shared library's file, building it if need be.

    Safe with any number of processes at once: each builds under a name of its own and renames. Raises
    `RuntimeFailure` when there is no compiler or it fails.
    """
    compiler = find_compiler()
    name = f"stow-{_key(compiler)}{library_suffix()}"
    folder = _private_folder()
    library = folder / name
    if _is_ours(library):
        return library
    return _build(compiler, library)


def rebuilt_library(damaged: Path) -> Path:
    """Return the library again after `damaged` could not be loaded."""
    with suppress(OSError):
        damaged.unlink()
    return host_library()


def _key(compiler: Compiler) -> str:
    digest = hashlib.sha256()
    for part in (compiler.identity, *flags()):
        digest.update(b"%d:" % len(part) + part.encode("utf-8", "surrogateescape"))
    for path in sources():
        data = path.read_bytes()
        digest.update(b"%s:%d:" % (path.name.encode(), len(data)) + data)
    return digest.hexdigest()[:32]


def _private_folder() -> Path:
    """Return a folder that only this user can write to: what lies in it is loaded and run."""
    folder = cache_directory() / "native"
    with suppress(OSError):
        folder.mkdir(mode=0o700, exist_ok=True)
        if _is_ours(folder) and os.access(folder, os.W_OK | os.X_OK):
            return folder
    return _temporary_folder()


_temporary: list[Path] = []


def _temporary_folder() -> Path:
    """Return a folder for this process alone, when the cache cannot be used."""
    if not _temporary:
        import atexit
        import shutil
        import tempfile

        folder = Path(tempfile.mkdtemp(prefix="stowplan-"))
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
        _temporary.append(folder)
    return _temporary[0]


def _is_ours(path: Path) -> bool:
    """Say whether a file or folder exists, is this user's and nobody else may write to it."""
    try:
        status = path.stat()
    except OSError:
        return False
    if not hasattr(os, "getuid"):
        return True
    return status.st_uid == os.getuid() and not status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)


def _build(compiler: Compiler, library: Path) -> Path:
    import tempfile  # with subprocess below: a warm start, which builds nothing, does not pay for them

    handle, name = tempfile.mkstemp(prefix=".build-", suffix=library.suffix, dir=library.parent)
    os.close(handle)
    made = Path(name)
    try:
        _compile(compiler, made)
        made.chmod(0o700)
        _put(made, library)
    finally:
        with suppress(OSError):
            made.unlink()
    return library


def _put(made: Path, library: Path) -> None:
    with made.open("r+b") as file:
        os.fsync(file.fileno())
    try:
        made.replace(library)
    except PermissionError:
        # Windows keeps a loaded library from being replaced; then another process has put the same one there.
        if not library.is_file():
            raise


def _compile(compiler: Compiler, output: Path) -> None:
    import subprocess

    files = [str(path) for path in sources() if path.suffix == ".c"]
    command = [*compiler.command, *flags(), "-I", str(HERE / "runtime"), "-o", str(output), *files]
    try:
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=BUILD_SECONDS)
    except subprocess.TimeoutExpired:
        raise RuntimeFailure(f"{compiler.command[0]} did not finish within {BUILD_SECONDS} s; set CC") from None
    except OSError as err:
        raise RuntimeFailure(f"{compiler.command[0]} cannot be run: {err.strerror or err}; set CC") from err
    if done.returncode != 0:
        raise RuntimeFailure(f"{' '.join(compiler.command)} could not build the C runtime: {_first_error(done.stderr)}")


def _first_error(text: str) -> str:
    """Return the line of a compiler's output that says most."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return next((line for line in lines if "error" in line), lines[0] if lines else "it said nothing")
