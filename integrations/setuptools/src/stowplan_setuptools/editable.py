"""`rebuild("my-project")`: compiles the models of an editable install again, without installing it again."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from stowplan_setuptools.making import Result


def rebuild(distribution: str) -> list[Result]:
    """Bring the plans of an editable install up to date with its models and its table.

    Returns one result per model; `status` says whether it was built, restored from the cache, or unchanged. Works
    whatever backend installed it. Raises `UsageError` for what is not installed as editable, `StowplanError` for a
    model that is refused.
    """
    from stowplan_setuptools.making import make, packaged
    from stowplan_setuptools.settings import Settings

    root = project_folder(distribution)
    jobs = packaged(root, {})
    folders = {job.package: _package_folder(job.package, distribution) for job in jobs}
    return make(jobs, folders, Settings().terms)


def project_folder(distribution: str) -> Path:
    """Return the folder that an editable install was made from. Raises `UsageError`."""
    import json
    from importlib import metadata
    from urllib.parse import urlsplit
    from urllib.request import url2pathname

    from stowplan.errors import UsageError

    try:
        origin = metadata.distribution(distribution).read_text("direct_url.json")
    except (metadata.PackageNotFoundError, ValueError):
        raise UsageError(f"{distribution}: is not installed; install it with pip install -e FOLDER") from None
    found = json.loads(origin or "{}")
    if not found.get("dir_info", {}).get("editable"):
        raise UsageError(f"{distribution}: is not an editable install; install it with pip install -e FOLDER")
    folder = Path(url2pathname(urlsplit(found["url"]).path))
    if not folder.is_dir():
        raise UsageError(f"{distribution}: its folder {folder} is gone; install it again")
    return folder


def _package_folder(package: str, distribution: str) -> Path:
    """Return where the files of a package lie. Raises `UsageError` when it cannot be found.

    A strict install has links there; the files they lead to are the ones to write.
    """
    from importlib.util import find_spec

    from stowplan.errors import UsageError

    try:
        spec = find_spec(package)
    except ImportError:
        spec = None
    if spec is None or not spec.submodule_search_locations:
        raise UsageError(f"{package}: no such package can be imported; install {distribution} again")
    folder = Path(next(iter(spec.submodule_search_locations)))
    return next((path.resolve().parent for path in sorted(folder.glob("*.stow")) if path.is_symlink()), folder)
