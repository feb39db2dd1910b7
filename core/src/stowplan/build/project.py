"""The project file: models times targets, with options; read, checked, and multiplied out into jobs."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from stowplan.build.entries import Entry, entries, machine_of, targets_of
from stowplan.build.request import CompileRequest
from stowplan.build.schema import problems, project_schema
from stowplan.errors import UsageError
from stowplan.nouns import dataclass
from stowplan.units import parse_pools, parse_shape, parse_size

NAMES = ("stowplan.toml", "pyproject.toml")
MOST_JOBS = 100_000
MOST_SHOWN = 5


@dataclass(frozen=True, kw_only=True)
class Job:
    """One model for one target: what to compile, and where its plan goes.

    `package` is the Python package whose wheel gets the plan, "" for none; `with_c` puts C beside it there.
    """

    name: str
    model: str
    target: str
    request: CompileRequest
    output: Path
    package: str = ""
    with_c: bool = False


@dataclass(frozen=True, kw_only=True)
class Project:
    """A project file and its jobs, in the file's order."""

    path: Path
    jobs: tuple[Job, ...]


def find_project(folder: Path) -> Path:
    """Return the project file in a folder: `stowplan.toml`, else a `pyproject.toml` with our table.

    Raises `UsageError` when there is neither.
    """
    for name in NAMES:
        path = folder / name
        if path.is_file() and (name != "pyproject.toml" or has_table(path)):
            return path
    raise UsageError(f"{folder}: no stowplan.toml, and no pyproject.toml with [tool.stowplan]; name one with --project")


def read_project(path: Path, overrides: Mapping[str, Any] | None = None) -> Project:
    """Return a project, with options that win over all of its own.

    Raises `UsageError` with everything that is wrong with its file.
    """
    table = _table(path)
    wrong = problems(table, project_schema())
    if wrong:
        more = f"; and {len(wrong) - MOST_SHOWN} more" if len(wrong) > MOST_SHOWN else ""
        raise UsageError(f"{path}: {'; '.join(wrong[:MOST_SHOWN])}{more}")
    jobs = tuple(_jobs(path, table, overrides or {}))
    twice = _first_twice([str(job.output) for job in jobs])
    if twice:
        raise UsageError(f"{path}: two jobs would write {twice}; rename one of their models or targets")
    return Project(path=path, jobs=jobs)


def has_table(path: Path) -> bool:
    """Say whether a `pyproject.toml` has our table. Raises `UsageError` for what is no TOML."""
    tool = _parsed(path).get("tool", {})
    return isinstance(tool, dict) and "stowplan" in tool


def _table(path: Path) -> dict[str, Any]:
    document = _parsed(path)
    if path.name != "pyproject.toml":
        return document
    found = document.get("tool", {})
    if not isinstance(found, dict) or not isinstance(found.get("stowplan"), dict):
        raise UsageError(f"{path}: has no table [tool.stowplan]")
    table: dict[str, Any] = found["stowplan"]
    return table


def _parsed(path: Path) -> dict[str, Any]:
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    try:
        parsed: dict[str, Any] = tomllib.loads(path.read_text("utf-8"))
    except OSError as err:
        raise UsageError(f"{path}: cannot be read: {err.strerror or err}") from err
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as err:
        raise UsageError(f"{path}: is no TOML: {' '.join(str(err).split())[:200]}") from err
    return parsed


def _jobs(path: Path, table: Mapping[str, Any], overrides: Mapping[str, Any]) -> Iterator[Job]:
    count = 0
    for entry in entries(path, table, project_schema()["$defs"]["name"]["pattern"]):
        for target in targets_of(entry, table):
            count += 1
            if count > MOST_JOBS:
                raise UsageError(f"{path}: more than {MOST_JOBS} plans; split the project")
            yield _job(path, table, entry, target, overrides)


def _job(path: Path, table: Mapping[str, Any], entry: Entry, target: str, overrides: Mapping[str, Any]) -> Job:
    machine, where = machine_of(entry, target, table)
    own = entry.values.get("options", {})
    options = {**table.get("options", {}), **machine.get("options", {}), **own, **overrides}
    shapes = [f"{tensor}:{shape}" for tensor, shape in entry.values.get("input_shapes", {}).items()]
    request = CompileRequest(
        model_path=path.parent / entry.values["path"],
        pools=parse_pools([machine["memory"]], f"{where}.memory"),
        flash_bytes=parse_size(machine["flash"], f"{where}.flash") if "flash" in machine else None,
        compressor=options.get("compress", "none"),
        xip=options.get("xip", False),
        keep_names=options.get("keep_names", False),
        prove=options.get("prove", True),
        scheduler=options.get("scheduler", "stream"),
        backend=options.get("backend", "c"),
        input_shapes=dict(parse_shape(shape, f"{entry.where}.input_shapes") for shape in shapes),
        optimal=options.get("optimal", False),
        recompute=float(options.get("recompute", 1)),
        stream_inputs=tuple(entry.values.get("stream_inputs", ())),
        target_label=target,
    )
    return Job(
        name=f"{entry.name}@{target}" if target else entry.name,
        model=entry.name,
        target=target,
        request=request,
        output=path.parent / table.get("output", "build") / target / f"{entry.name}.stow",
        package=entry.package,
        with_c=entry.values.get("c", False),
    )


def _first_twice(names: list[str]) -> str:
    seen: set[str] = set()
    for name in names:
        if name.lower() in seen:  # two names that differ in case are one file on some systems
            return name
        seen.add(name.lower())
    return ""
