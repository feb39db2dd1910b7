"""How a build ends that is refused: one line with the text and the word of the command line."""

from __future__ import annotations

import sys
from typing import NoReturn

from stowplan.errors import StowplanError


def line(err: StowplanError) -> str:
    return f"error: stowplan: {err} ({err.code})"


def stop(err: StowplanError) -> NoReturn:
    """End the process with one line. No exception of setuptools: an editable build prints the traceback of those."""
    sys.exit(line(err))
