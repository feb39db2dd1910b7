"""The build hook of hatchling: `[tool.hatch.build.hooks.stowplan]` and the models of [tool.stowplan]."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from hatchling.plugin import hookimpl

from stowplan.errors import StowplanError, UsageError
from stowplan_setuptools.ending import line
from stowplan_setuptools.making import Result, make, packaged, source_files
from stowplan_setuptools.settings import Settings


class StowplanHook(BuildHookInterface):  # type: ignore[type-arg]
    """Puts plans into wheels, models into sdists; an editable install gets plans among its sources."""

    PLUGIN_NAME = "stowplan"
    _made: tempfile.TemporaryDirectory[str] | None = None

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        try:
            self._add(version, build_data)
        except StowplanError as err:
            self.app.abort(line(err))

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        if self._made is not None:
            self._made.cleanup()

    def _add(self, version: str, build_data: dict[str, Any]) -> None:
        root = Path(self.root)
        jobs = packaged(root, {})
        sources = source_files(jobs, root)
        if self.target_name == "sdist":
            build_data["force_include"].update({str(root / name): name for name in sources})
        if self.target_name != "wheel":
            return
        if version == "editable":
            make(jobs, {job.package: self._package_folder(job.package) for job in jobs}, Settings().terms)
            return
        self._made = tempfile.TemporaryDirectory()
        folders = {job.package: Path(self._made.name, *job.package.split(".")) for job in jobs}
        for package in folders:
            self._package_folder(package)  # refuses one that is not there
        for result in make(jobs, folders, Settings().terms):
            build_data["force_include"].update(_included(result))

    def _package_folder(self, package: str) -> Path:
        """Return the folder of a package among the sources. Raises `UsageError`."""
        inside = "/".join(package.split("."))
        for source, target in self._sources().items():
            if f"{inside}/".startswith(target):
                folder = Path(self.root, source, inside[len(target) :])
                if folder.is_dir():
                    return folder
        raise UsageError(f"{Path(self.root, 'pyproject.toml')}: no package {package} among the files of the wheel")

    def _sources(self) -> dict[str, str]:
        """Return hatchling's folders of sources and what they are in the wheel, ending in a slash or empty."""
        sources: dict[str, str] = dict(self.build_config.sources)
        return {**sources, "": ""}


def _included(result: Result) -> dict[str, str]:
    inside = "/".join(result.job.package.split("."))
    return {str(file): f"{inside}/{file.name}" for file in result.files}


@hookimpl
def hatch_register_build_hook() -> type[StowplanHook]:
    return StowplanHook
