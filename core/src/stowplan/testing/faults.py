"""What a check says: a fault, addressed to the plugin's author, or why it cannot be asked here."""

from __future__ import annotations

from typing import NoReturn
from unittest import SkipTest as Skipped


class Fault(AssertionError):
    """A plugin breaks the contract. The text says what it did, with what, and what to do instead."""

    def __init__(self, what: str) -> None:
        super().__init__(f"Plugin author: {what}")


def skip(reason: str) -> NoReturn:
    """Leave a check out and say why; pytest counts it as skipped, and so does `stowplan plugins check`."""
    raise Skipped(reason)


__all__ = ["Fault", "Skipped", "skip"]
