"""Writes a new plugin package, complete and working: what `stowplan plugins new` does.

The templates are text in `templates/`, with words between @ signs. `plugins/_template` of the checkout is what
comes out for each kind under the name acme; there it is linted, typed and read.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from stowplan.errors import UsageError
from stowplan.nouns import dataclass
from stowplan.plugins.kinds import CONTRACT
from stowplan.version import VERSION

TEMPLATES = Path(__file__).with_name("templates")
LONGEST_NAME = 40


@dataclass(frozen=True, kw_only=True)
class Kind:
    """What differs between the packages of two kinds beside their sources."""

    work: str
    description: str
    usage: str
    needs: tuple[str, ...] = ()


KINDS = {
    "importer": Kind(
        work="read",
        description="Reads models in the format @name@ for stowplan.",
        usage="`stowplan compile model.@name@ -m 32K -o model.stow` reads such models then.",
        needs=("stowplan-backend-c", "stowplan-scheduler-stream"),
    ),
    "scheduler": Kind(
        work="place",
        description="The scheduler @name@ for stowplan: whole tensors, first fit.",
        usage="`stowplan compile model.tflite -m 256K --scheduler @name@ -o model.stow` takes it then.",
    ),
    "compressor": Kind(
        work="runs",
        description="Packs weights for stowplan as run lengths, under the name @name@.",
        usage="Plans can be made with it once the C runtime has its decoder; `stowplan plugins check` tells.",
    ),
    "backend": Kind(
        work="interpret",
        description="The backend @name@ for stowplan: interprets plans of tables in Python.",
        usage="It runs what its `coverage` takes: int8 functions of single elements, and reshapes.",
    ),
    "profiler": Kind(
        work="recording",
        description="The profiler @name@ for stowplan: times whole runs.",
        usage="`stowplan.plugins.host.host().profilers()` has it then; `attach` it to a compiled model.",
        needs=("stowplan-backend-c",),
    ),
}


def package(kind: str, name: str) -> Mapping[str, bytes]:
    """Return the files of a new plugin by path in its folder. Raises `UsageError` for a name that cannot be one."""
    if not re.fullmatch(r"[a-z][a-z0-9]*(-[a-z0-9]+)*", name) or len(name) > LONGEST_NAME:
        raise UsageError(
            f"{name[:60]}: is no name for a plugin. Write at most {LONGEST_NAME} lower-case letters, digits and single "
            "dashes, a letter first"
        )
    module = name.replace("-", "_")
    source, tests = f"src/stowplan_{kind}_{module}", "tests"
    work = KINDS[kind].work
    files = {
        "pyproject.toml": "common/pyproject.toml.txt",
        "README.md": "common/README.md.txt",
        f"{source}/__init__.py": f"{kind}/__init__.py.txt",
        f"{source}/{work}.py": f"{kind}/{work}.py.txt",
        f"{tests}/test_conformance.py": f"{kind}/test_conformance.py.txt",
    }
    if kind == "importer":
        files[f"{tests}/models/example.{name}"] = "importer/example.txt"
    written = {path: _filled((TEMPLATES / file).read_text("utf-8"), kind, name) for path, file in files.items()}
    return {**{path: text.encode() for path, text in written.items()}, f"{source}/py.typed": b""}


def _filled(text: str, kind: str, name: str) -> str:
    facts, (major, minor, _) = KINDS[kind], VERSION.split(".")
    bounds = {"version": f"{major}.{minor}", "next": f"{major}.{int(minor) + 1}"}
    words = {
        "description": facts.description, "usage": facts.usage, "work": facts.work,
        "needs": "".join(f', "{need}>={bounds["version"]},<{bounds["next"]}"' for need in facts.needs),
        "kind": kind, "name": name, "module": name.replace("-", "_"),
        "Class": "".join(part.capitalize() for part in name.split("-")), "contract": str(CONTRACT), **bounds,
    }  # fmt: skip
    for word, value in words.items():  # texts first: they have words of their own
        text = text.replace(f"@{word}@", value)
    return text
