"""Packages: generated sources with what a build system or an ecosystem wants around them, from templates/packages."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from stowplan.errors import UsageError
from stowplan.nouns import dataclass
from stowplan.plugins.kinds import SourceOptions
from stowplan_backend_c.amalgam import pruned

TEMPLATES = Path(__file__).parent / "templates" / "packages"


@dataclass(frozen=True)
class _Package:
    """Where an ecosystem wants headers and the self test's source, and whether its builds can include a binary."""

    headers: str = "include"
    selftest: str = ""
    binary: bool = True


_PACKAGES = {
    "cmake": _Package(selftest="examples/selftest.c"),
    "zephyr": _Package(),
    "esp-idf": _Package(),
    "arduino": _Package(headers="src", binary=False),
    "platformio": _Package(selftest="examples/selftest/main.c", binary=False),
}
PACKAGES = tuple(_PACKAGES)


def package(files: Mapping[str, bytes], values: Mapping[str, str], options: SourceOptions) -> dict[str, bytes]:
    """Return a package's files by their path in it, `/` between folders.

    `files` are the generated sources, `values` the words of templates. Raises `UsageError` for a binary where the
    ecosystem's builds do not let a source say where one lies.
    """
    kind = _PACKAGES[options.package]
    if options.weights == "bin" and not kind.binary:
        raise UsageError(f"--weights bin: {options.package} libraries cannot say where a binary lies; use --weights c")
    placed = {f"{kind.headers if name.endswith('.h') else 'src'}/{name}": data for name, data in files.items()}
    sources = sorted(path for path in placed if path.endswith(".c"))
    words = dict(values) | dict(
        SOURCES=" ".join(sources),
        SOURCES_ABOVE=" ".join(f"../{path}" for path in sources),
        QUOTED_SOURCES=" ".join(f'"{path}"' for path in sources),
    )
    settings = {"STOW_WITH_BINARY": options.weights == "bin", "STOW_WITH_SELFTEST": options.selftest}
    if kind.selftest:
        placed[kind.selftest] = _filled(TEMPLATES / "selftest.c.in", words, settings)
    folder = TEMPLATES / options.package
    for template in sorted(folder.rglob("*.in")):
        path = template.relative_to(folder).as_posix().removesuffix(".in")
        placed[path] = _filled(template, words, settings)
    return placed


def _filled(template: Path, words: Mapping[str, str], settings: Mapping[str, bool]) -> bytes:
    text = pruned(template.read_text("utf-8"), settings)
    return re.sub(r"@([A-Z_]+)@", lambda match: words[match[1]], text).encode()
