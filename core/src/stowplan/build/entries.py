"""The models of a project file as one list, whether it names them in a table or in an array of tables."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePath
from typing import Any

from stowplan.errors import UsageError
from stowplan.nouns import dataclass

ALONE = ""
"""The target of a model that has memories of its own."""


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One model as the file has it, under its key or its number there."""

    name: str
    file: Path
    label: str
    values: Mapping[str, Any]

    @property
    def where(self) -> str:
        return f"{self.file}: models.{self.label}"

    @property
    def package(self) -> str:
        package: str = self.values.get("package", "")
        return package


def entries(path: Path, table: Mapping[str, Any], name_form: str) -> Iterator[Entry]:
    """Yield the models of a table that the schema has passed, in its order. Raises `UsageError`."""
    models = table["models"]
    if isinstance(models, list):
        for index, values in enumerate(models):
            name = _name(values, f"{path}: models.{index}", name_form)
            yield Entry(name=name, file=path, label=str(index), values=values)
        return
    for name, given in models.items():
        values = {"path": given} if isinstance(given, str) else given
        if "name" in values:
            raise UsageError(f"{path}: models.{name}.name: in a table the key is the name; leave it out")
        yield Entry(name=name, file=path, label=name, values=values)


def targets_of(entry: Entry, table: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the targets to compile an entry for, `ALONE` for memories of its own. Raises `UsageError`."""
    own, known = entry.values, table.get("targets", {})
    if "memory" in own:
        if "targets" in own:
            raise UsageError(f"{entry.where}: has memory and targets; leave one of them out")
        return (ALONE,)
    if "flash" in own:
        raise UsageError(f"{entry.where}.flash: goes with memory; write memory as well, or flash of a target")
    if not known:
        raise UsageError(f"{entry.where}: memory is missing, and the file has no targets")
    found = tuple(own.get("targets", known))
    for target in found:
        if target not in known:
            raise UsageError(f"{entry.where}.targets: no target {target!r}; known are {', '.join(known)}")
    if entry.package and len(found) != 1:
        raise UsageError(
            f"{entry.where}: a package gets one plan of a model, here are {len(found)}; write memory, or one of targets"
        )
    return found


def machine_of(entry: Entry, target: str, table: Mapping[str, Any]) -> tuple[Mapping[str, Any], str]:
    """Return the memories an entry is compiled for, and where the file has them."""
    if target == ALONE:
        return {key: entry.values[key] for key in ("memory", "flash") if key in entry.values}, entry.where
    machine: Mapping[str, Any] = table["targets"][target]
    return machine, f"{entry.file}: targets.{target}"


def _name(values: Mapping[str, Any], where: str, form: str) -> str:
    name: str = values.get("name", PurePath(values["path"]).stem)
    if not re.fullmatch(form, name):
        raise UsageError(
            f"{where}: name is missing, and that of the file, {name[:60]!r}, does not have the form {form}"
        )
    return name
