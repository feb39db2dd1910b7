"""Makes the files of the models that go into packages; all build backends come through here."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from stowplan.build.jobs import Outcome, Terms, Workshop
from stowplan.build.matrix import local_shop
from stowplan.build.project import Job, read_project
from stowplan.cli.output import make_folder, write_file
from stowplan.cli.sources import generated, identifier
from stowplan.errors import InternalFault, OutputError, StowplanError, UsageError
from stowplan.flow.model import Model
from stowplan.nouns import dataclass, replace
from stowplan.plugins.kinds import SourceOptions

PROJECT = Path("pyproject.toml")
Folders = Mapping[str, Path]
Told = Callable[[str], None]


class ModelFailed(StowplanError):
    """A model of the table was refused; code and text are those of the command line."""

    def __init__(self, outcome: Outcome) -> None:
        super().__init__(f"{outcome.name}: {outcome.message}")
        self.code = outcome.code
        self.exit_code = outcome.exit_code


@dataclass(frozen=True, kw_only=True)
class Result:
    """The files of one model that are in place, and the word for what was done: built, restored, unchanged, ..."""

    job: Job
    status: str
    files: tuple[Path, ...]


def packaged(root: Path, options: Mapping[str, object]) -> tuple[Job, ...]:
    """Return the models that a project puts into its packages. Raises `UsageError` for what is wrong with the table.

    Two models may not give one file of a package, whatever folders `stowplan build` would keep them apart by.
    """
    path = root / PROJECT
    jobs = tuple(job for job in read_project(path, options).jobs if job.package)
    seen: set[tuple[str, str]] = set()
    for job in jobs:
        place = (job.package, job.model.lower())
        if place in seen:
            raise UsageError(f"{path}: two models {job.model} go into package {job.package}; rename one")
        seen.add(place)
    return jobs


def file_names(job: Job) -> tuple[str, ...]:
    """Return the names of a job's files in its package."""
    return tuple(f"{job.model}.{suffix}" for suffix in (("stow", "c", "h") if job.with_c else ("stow",)))


def source_files(jobs: Iterable[Job], root: Path) -> tuple[str, ...]:
    """Return what an sdist needs to build the jobs, relative to the project. Raises for what it could not have."""
    found: dict[str, None] = {}
    for job in jobs:
        for path in _inputs(job.request.model_path):
            relative = os.path.relpath(path, root)
            if relative.startswith(os.pardir) or os.path.isabs(relative):
                raise UsageError(
                    f"{root / PROJECT}: model {job.model}: {path} lies outside the project, so no sdist can have it; "
                    "move it into the project"
                )
            found[relative.replace(os.sep, "/")] = None
    return tuple(found)


def make(jobs: Sequence[Job], folders: Folders, terms: Terms, told: Told = lambda line: None) -> list[Result]:
    """Write the files of each job into the folder of its package, which is made if need be.

    What is up to date stays untouched. Raises `ModelFailed` for the first model that is refused, `OutputError` for a
    file that cannot be written; then no file of that model or of a later one is left, so that nothing old is taken for
    good.
    """
    shop = local_shop(terms)
    results: list[Result] = []
    try:
        for job in jobs:
            results.append(_made(job, folders[job.package], shop, told))
    except BaseException:
        for job in jobs[len(results) :]:
            with suppress(OutputError):  # what is not ours, a folder of that name say, is what the error is about
                remove(folders[job.package] / name for name in file_names(job))
        raise
    finally:
        shop.finish()
    return results


def remove(files: Iterable[Path]) -> None:
    """Remove files, those that are there. Raises `OutputError`."""
    for file in files:
        try:
            file.unlink(missing_ok=True)
        except OSError as err:
            raise OutputError(f"{file}: cannot be removed: {err.strerror or err}") from err


def _inputs(model: Path) -> tuple[Path, ...]:
    from stowplan.build.incremental import external_files
    from stowplan.plugins.host import host

    return (model, *external_files(Model.read(model), host()))


def _made(job: Job, folder: Path, shop: Workshop, told: Told) -> Result:
    make_folder(folder)
    names = file_names(job)
    plan = folder / names[0]
    placed = replace(job, output=plan)
    outcome = shop.unchanged(placed) or shop.run(placed)
    if outcome.status == "failed":
        raise ModelFailed(outcome)
    if job.with_c:
        _write_c(plan, job)
    told(f"stowplan: {job.model}: {outcome.status} {plan}")
    for line in outcome.diagnostics:
        told(f"stowplan: {job.model}: warning: {line}")
    return Result(job=job, status=outcome.status, files=tuple(folder / name for name in names))


def _write_c(plan: Path, job: Job) -> None:
    """Write what `stowplan codegen PLAN` would; a file that is right already keeps its time."""
    source = plan.with_suffix(".c")
    options = SourceOptions(name=identifier(source.stem), format="core")
    try:
        files = generated(plan.read_bytes(), source, options, job.request.backend)
    except StowplanError:
        raise
    except Exception as err:  # of the backend's plugin: a build ends with one line all the same
        what = f"{type(err).__name__}: {' '.join(str(err).split())[:300]}"
        raise InternalFault(f"{job.name}: internal fault: backend {job.request.backend}: {what}") from err
    for path, data in files.items():
        if not path.is_file() or path.read_bytes() != data:
            write_file(path, data)
