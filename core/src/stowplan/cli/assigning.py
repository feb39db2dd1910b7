"""Which file is for which tensor: `[NAME=]FILE` options, where one tensor needs no name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from stowplan.cli.arrays import check_suffix, describe
from stowplan.errors import UsageError
from stowplan.plugins.kinds import Port


def assign(options: Sequence[str], ports: Sequence[Port], option: str, role: str = "") -> dict[str, Path]:
    """Map port names to files. One port needs no name; with several each file has to say which. Raises `UsageError`.

    `option` is what the user typed, `role` what its ports are ("input").
    """
    role = role or option
    names = [port.name for port in ports]
    files: dict[str, Path] = {}
    for text in options:
        name, path = _split(text, names, option, role)
        if name in files:
            raise UsageError(f"--{option}: {name} is given twice")
        check_suffix(path, option)
        files[name] = path
    return files


def require_all(files: Mapping[str, Path], ports: Sequence[Port], option: str = "input") -> None:
    """Raise `UsageError` that names the ports without a file."""
    missing = [port for port in ports if port.name not in files]
    if missing:
        wanted = ", ".join(f"{port.name} ({describe(port)})" for port in missing)
        raise UsageError(f"no file for input {wanted}: give --{option} {missing[0].name}=FILE, .npy or .bin")


def _split(text: str, names: Sequence[str], option: str, role: str) -> tuple[str, Path]:
    # A name may hold "=", and so may a path: a known name decides.
    for name in sorted(names, key=len, reverse=True):
        if text.startswith(name + "="):
            return name, Path(text[len(name) + 1 :])
    if "=" in text and not Path(text).exists():
        raise UsageError(f'--{option} {text}: no {role} "{text.partition("=")[0]}"; the plan has {_listed(names)}')
    if len(names) != 1:
        raise UsageError(f"--{option} {text}: the plan has {_listed(names)}; say which: --{option} NAME={text}")
    return names[0], Path(text)


def _listed(names: Sequence[str]) -> str:
    return f"{len(names)} ({', '.join(names)})" if names else "none"
