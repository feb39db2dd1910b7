"""Makes a distribution of setuptools build its models: one more sub-command of `build`, and two commands adjusted."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import setuptools

from stowplan.build.project import Job, has_table
from stowplan.errors import StowplanError, UsageError
from stowplan_setuptools.command import ATTRIBUTE, COMMAND, build_stowplan, jobs_of
from stowplan_setuptools.ending import stop
from stowplan_setuptools.making import packaged
from stowplan_setuptools.settings import current
from stowplan_setuptools.sources import archive, manifest

FLOOR = 65
"""The first setuptools whose editable builds ask sub-commands the way ours answers."""
_log = logging.getLogger(__name__)


def attach(distribution: Any, path: Path) -> None:
    """Give a distribution the models of its project file. Ends the build for a table that is wrong."""
    if hasattr(distribution, ATTRIBUTE):
        return  # setuptools may finalize a distribution twice
    setattr(distribution, ATTRIBUTE, _jobs(path))
    if jobs_of(distribution):
        distribution.get_command_class = partial(_command_class, distribution.get_command_class, {})


def _command_class(find: Callable[[str], Any], known: dict[str, Any], name: str) -> Any:
    """Return the class of a command, adjusted where it is one of ours.

    Not put into `cmdclass`: setuptools replaces that by the project's own after plugins have been asked.
    """
    if name == COMMAND:
        return build_stowplan
    if name not in known:
        found = find(name)
        known[name] = type(name, (found,), ADJUSTED[name](found)) if name in ADJUSTED else found
    return known[name]


def _jobs(path: Path) -> tuple[Job, ...]:
    if not _is_ours(path):
        return ()
    try:
        _check_setuptools()
        jobs = packaged(path.parent, current().options)
    except StowplanError as err:
        stop(err)
    if not jobs:
        _log.warning("stowplan: no model of %s has a package, so no wheel gets a plan", path)
    return jobs


def _is_ours(path: Path) -> bool:
    try:
        return has_table(path)
    except UsageError:
        return False  # what is no TOML is for setuptools to say


def _check_setuptools() -> None:
    major = int(setuptools.__version__.partition(".")[0])
    if major < FLOOR:
        raise UsageError(
            f"setuptools {setuptools.__version__} is too old; write setuptools>={FLOOR} in build-system.requires"
        )


def _build(base: Any) -> dict[str, Any]:
    """Return what `build` gets: our sub-command, last. A list of its own, for the base's is shared by all builds."""
    return {"sub_commands": [*base.sub_commands, (COMMAND, None)]}


ADJUSTED: Mapping[str, Callable[[Any], dict[str, Any]]] = {"build": _build, "egg_info": manifest, "sdist": archive}
