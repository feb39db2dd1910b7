"""Builds shared libraries of C once and keeps them in the user's cache, under a key of sources, compiler and flags."""

from __future__ import annotations

import hashlib
import os
import stat
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stowplan.cache.directory import cache_directory
from stowplan.errors import PluginError, RuntimeFailure
from stowplan.native.toolchain import FLAGS, Compiler, find_compiler, flags, library_suffix
from stowplan.nouns import dataclass

if TYPE_CHECKING:
    import ctypes
    from collections.abc import Sequence

    Signature = tuple[str, Any, tuple[Any, ...]]
    """A function's name, result type and argument types, in ctypes' terms."""

ROOM_BYTES = 16 * 1024**2
"""What a library and the compiler's leftovers may take."""
BUILD_SECONDS = 600
"""A build takes seconds; a compiler that hangs must not hang us."""

READY = "STOWPLAN_NATIVE"
READY_ADVICE = f"build the libraries of {READY} again from what is installed (Bazel: bazel sync --configure)"


def ready_made() -> str:
    """Return the folder of libraries that somebody else built, or nothing."""
    return os.environ.get(READY, "")


@dataclass(frozen=True, kw_only=True)
class NativeLibrary:
    """The C files of some folders as one shared library; `flags` are the options beside those of any library."""

    name: str
    folders: tuple[Path, ...]
    flags: tuple[str, ...] = ()

    def path(self) -> Path:
        """Return the library's file, building it if need be.

        A folder named by STOWPLAN_NATIVE has it ready-made, with its options in a file beside it; it is trusted to be
        of these very sources: a build tool compiled them.
        Safe with any number of processes at once: each builds under a name of its own and renames. Raises
        `RuntimeFailure` when there is no compiler or it fails.
        """
        if ready_made():
            return self._ready(ready_made())
        compiler = find_compiler()
        name = f"{self.name}-{self._key(compiler)}{library_suffix()}"
        library = _private_folder() / name
        if not _is_ours(library) and not _has_room(library.parent):
            library = _temporary_folder() / name  # a full disk under the cache is no reason to refuse a model
        return library if _is_ours(library) else self._build(compiler, library)

    def load(self, signatures: Sequence[Signature]) -> ctypes.CDLL:
        """Return the loaded library with its functions declared, built first if need be.

        What cannot be loaded (cut off by a full disk, say) is built once more. Raises `RuntimeFailure`.
        """
        path = self.path()
        try:
            return _loaded(path, signatures)
        except (OSError, AttributeError) as err:
            if ready_made():
                raise PluginError(f"{path}: cannot be loaded: {err}; {READY_ADVICE}") from err
            path = self.rebuilt(path)
        try:
            return _loaded(path, signatures)
        except (OSError, AttributeError) as err:
            raise RuntimeFailure(f"{self.name} was built but cannot be loaded: {err}") from err

    def rebuilt(self, damaged: Path) -> Path:
        """Return the library again after `damaged` could not be loaded."""
        with suppress(OSError):
            damaged.unlink()
        return self.path()

    def _ready(self, folder: str) -> Path:
        """Return a library that somebody else built. Raises `PluginError`, which no scheduler passes over."""
        path = Path(folder, f"{self.name}{library_suffix()}").absolute()
        if not path.is_file():
            raise PluginError(f"{path}: is not there; {READY_ADVICE}")
        try:
            options = path.with_suffix(".options").read_text("utf-8").split()
        except OSError:
            options = []
        if options != self.options():
            raise PluginError(f"{path}: was built with other options than {' '.join(self.options())}; {READY_ADVICE}")
        return path

    def sources(self) -> tuple[Path, ...]:
        """Return all C files and headers, in a fixed order."""
        found = [path for folder in self.folders for path in folder.glob("*.[ch]")]
        return tuple(sorted(found, key=lambda path: path.name))

    def options(self) -> list[str]:
        """Return the options that the results of the compiled code depend on."""
        return [*FLAGS, *self.flags]

    def _key(self, compiler: Compiler) -> str:
        digest = hashlib.sha256()
        for part in (compiler.identity, *flags(), *self.flags):
            digest.update(b"%d:" % len(part) + part.encode("utf-8", "surrogateescape"))
        for path in self.sources():
            data = path.read_bytes()
            digest.update(b"%s:%d:" % (path.name.encode(), len(data)) + data)
        return digest.hexdigest()[:32]

    def _build(self, compiler: Compiler, library: Path) -> Path:
        import tempfile  # with subprocess below: a warm start, which builds nothing, does not pay for them

        handle, name = tempfile.mkstemp(prefix=".build-", suffix=library.suffix, dir=library.parent)
        os.close(handle)
        made = Path(name)
        try:
            self._compile(compiler, made)
            made.chmod(0o700)
            _put(made, library)
        finally:
            with suppress(OSError):
                made.unlink()
        return library

    def _compile(self, compiler: Compiler, output: Path) -> None:
        import subprocess

        files = [str(path) for path in self.sources() if path.suffix == ".c"]
        includes = [word for folder in self.folders for word in ("-I", str(folder))]
        command = [*compiler.command, *flags(), *self.flags, *includes, "-o", str(output), *files]
        try:
            done = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=BUILD_SECONDS)
        except subprocess.TimeoutExpired:
            raise RuntimeFailure(f"{compiler.command[0]} did not finish within {BUILD_SECONDS} s; set CC") from None
        except OSError as err:
            raise RuntimeFailure(f"{compiler.command[0]} cannot be run: {err.strerror or err}; set CC") from err
        if done.returncode != 0:
            why = _first_error(done.stderr)
            raise RuntimeFailure(f"{' '.join(compiler.command)} could not build {self.name}: {why}")


def _loaded(path: Path, signatures: Sequence[Signature]) -> ctypes.CDLL:
    import ctypes

    library = ctypes.CDLL(str(path))
    for name, result, arguments in signatures:
        function = getattr(library, name)
        function.restype = result
        function.argtypes = list(arguments)
    return library


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


def _has_room(folder: Path) -> bool:
    import shutil

    try:
        return shutil.disk_usage(folder).free >= ROOM_BYTES
    except OSError:
        return True  # whoever writes there will see


def _is_ours(path: Path) -> bool:
    """Say whether a file or folder exists, is this user's and nobody else may write to it."""
    try:
        status = path.stat()
    except OSError:
        return False
    if not hasattr(os, "getuid"):
        return True
    return status.st_uid == os.getuid() and not status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)


def _put(made: Path, library: Path) -> None:
    with made.open("r+b") as file:
        os.fsync(file.fileno())
    try:
        made.replace(library)
    except PermissionError:
        # Windows keeps a loaded library from being replaced; then another process has put the same one there.
        if not library.is_file():
            raise


def _first_error(text: str) -> str:
    """Return the line of a compiler's output that says most."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return next((line for line in lines if "error" in line), lines[0] if lines else "it said nothing")
