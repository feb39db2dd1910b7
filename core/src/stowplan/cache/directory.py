"""Where stowplan keeps what it can make again: one private folder per user."""

from __future__ import annotations

import os
import sys
import tempfile
from contextlib import suppress
from pathlib import Path


def cache_directory() -> Path:
    """Return the cache folder, made with access for its owner only if it is not there yet.

    STOWPLAN_CACHE_DIR names it outright; otherwise XDG_CACHE_HOME or the platform's own place is used. A folder that
    cannot be made is no error here: whoever writes into it has to live without a cache.
    """
    folder = _chosen()
    with suppress(OSError):  # a read-only home; the caller's own write will fail and be contained there
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return folder


def _chosen() -> Path:
    named = os.environ.get("STOWPLAN_CACHE_DIR")
    if named:
        return Path(named).absolute()
    xdg = os.environ.get("XDG_CACHE_HOME", "")
    if os.path.isabs(xdg):  # the specification says to ignore a relative one
        return Path(xdg) / "stowplan"
    home = _home()
    if home is None:
        return _without_home()
    if sys.platform == "darwin":
        return home / "Library" / "Caches" / "stowplan"
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or home / "AppData" / "Local") / "stowplan" / "Cache"
    return home / ".cache" / "stowplan"


def _home() -> Path | None:
    try:
        return Path.home()
    except RuntimeError:  # no HOME and no entry in the password database, as in some containers
        return None


def _without_home() -> Path:
    """Return a folder of this process alone: a name others can guess, in a folder they can write to, is not private."""
    return Path(tempfile.mkdtemp(prefix="stowplan-"))
