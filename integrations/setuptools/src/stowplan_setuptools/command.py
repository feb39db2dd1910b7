"""`build_stowplan`: the sub-command of setuptools' `build` that compiles the models of [tool.stowplan]."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

from setuptools import Command

from stowplan.build.project import Job
from stowplan.errors import StowplanError, UsageError
from stowplan_setuptools.ending import stop
from stowplan_setuptools.making import PROJECT, file_names, make, remove, source_files
from stowplan_setuptools.record import Place, record, recorded
from stowplan_setuptools.settings import current
from stowplan_setuptools.sources import epoch

COMMAND = "build_stowplan"
ATTRIBUTE = "stowplan_jobs"
"""Of a distribution: the models for its packages."""
_log = logging.getLogger(__name__)


def jobs_of(distribution: Any) -> tuple[Job, ...]:
    jobs: tuple[Job, ...] = getattr(distribution, ATTRIBUTE, ())
    return jobs


class build_stowplan(Command):  # type: ignore[misc, unused-ignore]  # noqa: N801 (a command is named as its class)
    """Compiles models into the packages they belong to; in place for an editable install.

    It is the last sub-command: a plan of an earlier editable install, which `build_py` may have copied as package data,
    is written over.
    """

    description = "compile the models of [tool.stowplan] into their packages"
    user_options: ClassVar[Any] = [("build-lib=", "d", "directory to put plans in")]

    def initialize_options(self) -> None:
        self.build_lib: Any = None
        self.build_base: Any = None
        self.editable_mode = False

    def finalize_options(self) -> None:
        self.set_undefined_options("build_py", ("build_lib", "build_lib"))
        self.set_undefined_options("build", ("build_base", "build_base"))
        self.jobs = jobs_of(self.distribution)

    def run(self) -> None:
        try:
            os.environ["SOURCE_DATE_EPOCH"] = str(epoch())  # what writes the wheel asks for it
            self._check_packages()
            self._remove_what_is_gone()
            folders = {job.package: self._folder(job.package) for job in self.jobs}
            make(self.jobs, folders, current().terms, _log.info)
        except StowplanError as err:
            stop(err)

    def get_source_files(self) -> list[str]:
        try:
            return list(source_files(self.jobs, Path()))
        except StowplanError as err:
            stop(err)

    def get_outputs(self) -> list[str]:
        return [self._built(*place) for place in self._places()]

    def get_output_mapping(self) -> dict[str, str]:
        if not self.editable_mode:
            return {}
        return {self._built(*place): self._in_place(*place) for place in self._places()}

    def in_place_files(self) -> list[str]:
        """Return what editable installs put, or would put, among the sources: no file of an sdist."""
        places = {*self._places(), *recorded(self._record(editable=True))}
        return sorted(self._in_place(*place) for place in places)

    def _places(self) -> Iterator[Place]:
        for job in self.jobs:
            for name in file_names(job):
                yield job.package, name

    def _folder(self, package: str) -> Path:
        return Path(self._in_place(package) if self.editable_mode else self._built(package))

    def _built(self, package: str, *name: str) -> str:
        return os.path.join(self.build_lib, *package.split("."), *name)

    def _in_place(self, package: str, *name: str) -> str:
        return os.path.join(self.get_finalized_command("build_py").get_package_dir(package), *name)

    def _record(self, *, editable: bool) -> Path:
        return Path(self.build_base, "stowplan", "in_place.json" if editable else "built.json")

    def _check_packages(self) -> None:
        known = self.distribution.packages or []
        for job in self.jobs:
            if job.package not in known:
                raise UsageError(_no_package(job, known))

    def _remove_what_is_gone(self) -> None:
        """Remove the files of models that the table has no more: those we made, and copies of them in the build."""
        now = set(self._places())
        in_place, built = (recorded(self._record(editable=editable)) for editable in (True, False))
        remove(Path(self._in_place(*place)) for place in in_place if place not in now)
        remove(Path(self._built(*place)) for place in {*in_place, *built} - now)
        record(self._record(editable=self.editable_mode), now)


def _no_package(job: Job, known: list[str]) -> str:
    there = f"packages are {', '.join(sorted(known))}" if known else "the distribution has no packages"
    return f"{PROJECT}: model {job.model}: no package {job.package}; {there}"
