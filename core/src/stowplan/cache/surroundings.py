"""What surrounds a command and may change what it does: machine, interpreter, search path, variables. Light."""

from __future__ import annotations

import os
import sys

from stowplan.version import VERSION

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

WATCHED_VARIABLES = ("CC", "PATH", "PYTHONPATH")
IGNORED_VARIABLES = ("STOWPLAN_REMOTE", "STOWPLAN_DEBUG")


def surroundings(path: Sequence[str]) -> list[str]:
    """Return what notes of earlier commands are told apart by; `path` is where Python looks for modules."""
    variables = [
        f"{name}={value}"
        for name, value in sorted(os.environ.items())
        if name in WATCHED_VARIABLES or (name.startswith("STOWPLAN_") and not name.startswith(IGNORED_VARIABLES))
    ]
    machine = os.uname()[1:] if hasattr(os, "uname") else ()  # a cache in a shared home is seen by several
    return [VERSION, sys.version, sys.prefix, *machine, *path, "", *variables]
