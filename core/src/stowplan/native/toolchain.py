"""Finds a C compiler on this machine, and says what it is without running it."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from stowplan.errors import RuntimeFailure
from stowplan.nouns import dataclass

FLAGS = ("-std=c11", "-O2", "-shared")


@dataclass(frozen=True, kw_only=True)
class Compiler:
    """A command that compiles C; `identity` changes whenever the program behind it is another one."""

    command: tuple[str, ...]
    identity: str


def find_compiler() -> Compiler:
    """Return $CC, else cc, gcc or clang, else the compiler in the `ziglang` package.

    Raises `RuntimeFailure` when there is none, or when $CC names one that does not exist.
    """
    chosen = os.environ.get("CC", "").strip()
    if chosen:
        return named_compiler(chosen)
    for name in ("cc", "gcc", "clang"):
        path = _which(name)
        if path is not None:
            return Compiler(command=(path,), identity=_identity(path))
    return _zig()


def flags() -> tuple[str, ...]:
    """Return the options that make a shared library."""
    return FLAGS if sys.platform == "win32" else (*FLAGS, "-fPIC")


def library_suffix() -> str:
    return {"win32": ".dll", "darwin": ".dylib"}.get(sys.platform, ".so")


def named_compiler(chosen: str) -> Compiler:
    """Return the compiler of a command line such as `clang --target=armv7m-none-eabi`. Raises `RuntimeFailure`."""
    import shlex

    try:
        words = shlex.split(chosen, posix=os.name != "nt")
    except ValueError as err:
        raise RuntimeFailure(f"CC={chosen}: cannot be split into words ({err}); correct CC or unset it") from err
    path = _which(words[0])
    if path is None:
        raise RuntimeFailure(f"CC={chosen}: there is no program {words[0]}; correct CC or unset it")
    return Compiler(command=(path, *words[1:]), identity="\0".join([_identity(path), *words[1:]]))


def _which(name: str) -> str | None:
    """As `shutil.which`, whose module brings along every kind of archive: 2 ms of each command."""
    if os.name == "nt" or os.path.dirname(name):
        import shutil

        return shutil.which(name)
    found = (os.path.join(folder, name) for folder in os.get_exec_path())
    return next((path for path in found if os.path.isfile(path) and os.access(path, os.X_OK)), None)


def _zig() -> Compiler:
    import importlib.util

    found = importlib.util.find_spec("ziglang")
    if found is None or not found.submodule_search_locations:
        raise RuntimeFailure(
            "no C compiler found (looked for $CC, cc, gcc, clang): install one, or `pip install ziglang`, "
            "which brings one"
        )
    program = Path(found.submodule_search_locations[0]) / ("zig.exe" if sys.platform == "win32" else "zig")
    if not program.is_file():
        raise RuntimeFailure(f"the ziglang package has no {program.name}: reinstall it, or install a C compiler")
    return Compiler(command=(str(program), "cc"), identity=_identity(str(program)))


def _identity(path: str) -> str:
    """Path, size and time of change: running `--version` would cost more than all the rest of a warm start."""
    real = os.path.realpath(path)
    status = os.stat(real)
    return f"{real}\0{status.st_size}\0{status.st_mtime_ns}"
