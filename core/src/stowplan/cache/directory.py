"""Where stowplan keeps what it can make again: one private folder per user."""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False  # the warm path of the command line cannot afford `typing`
if TYPE_CHECKING:
    from pathlib import Path


def cache_directory() -> Path:
    """Return the cache folder, made with access for its owner only if it is not there yet.

    A folder that cannot be made is no error here: whoever writes into it has to live without a cache.
    """
    from pathlib import Path

    folder = Path(cache_location() or _without_home())
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError:  # a read-only home; the caller's own write will fail and be contained there
        return folder
    return folder


def cache_location() -> str:
    """Return where the cache folder is or would be; empty on a machine that has no home for us.

    STOWPLAN_CACHE_DIR names it outright; otherwise XDG_CACHE_HOME or the platform's own place is used, the same as
    `platformdirs` says (a test compares them), which would cost the warm path more than all the rest of it.
    """
    named = os.environ.get("STOWPLAN_CACHE_DIR")
    if named:
        return os.path.abspath(named)
    xdg = os.environ.get("XDG_CACHE_HOME", "")
    if os.path.isabs(xdg):  # the specification says to ignore a relative one
        return os.path.join(xdg, "stowplan")
    home = os.path.expanduser("~")
    if not os.path.isabs(home):  # no HOME and no entry in the password database, as in some containers
        return ""
    if sys.platform == "darwin":
        return os.path.join(home, "Library", "Caches", "stowplan")
    if sys.platform == "win32":
        local = os.environ.get("LOCALAPPDATA") or os.path.join(home, "AppData", "Local")
        return os.path.join(local, "stowplan", "Cache")
    return os.path.join(home, ".cache", "stowplan")


def _without_home() -> str:
    """Return a folder of this process alone: a name others can guess, in a folder they can write to, is not private."""
    import tempfile

    return tempfile.mkdtemp(prefix="stowplan-")
