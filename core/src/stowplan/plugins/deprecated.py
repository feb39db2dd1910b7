"""What plugins may still use and what will go, and when: one table, looked at when a plugin is scanned."""

from __future__ import annotations

from collections.abc import Iterable
from types import ModuleType
from typing import Any

from stowplan.nouns import dataclass
from stowplan.plugins.hooks import PROJECT


@dataclass(frozen=True, kw_only=True)
class Deprecation:
    """`what` is a hook (`stowplan_...`), or an attribute of a kind's records (`importer.read`).

    It works until `removed_in`; the tests fail when a version gets there and it is still in the table.
    """

    what: str
    since: str
    removed_in: str
    instead: str

    @property
    def message(self) -> str:
        return f"{self.what} is deprecated since {self.since} and goes in {self.removed_in}: {self.instead}"


DEPRECATIONS: tuple[Deprecation, ...] = ()
"""Nothing yet: contract 1 is the first."""


def used(module: ModuleType, records: Iterable[tuple[str, Any]]) -> tuple[str, ...]:
    """Return a message for each deprecated thing that a plugin uses. `records` are pairs of kind and record."""
    there = list(records)
    return tuple(d.message for d in DEPRECATIONS if _uses(d.what, module, there))


def overdue(version: str) -> tuple[str, ...]:
    """Return what should be gone in a version."""
    return tuple(d.what for d in DEPRECATIONS if _number(d.removed_in) <= _number(version))


def _uses(what: str, module: ModuleType, records: Iterable[tuple[str, Any]]) -> bool:
    kind, _, attribute = what.partition(".")
    if not attribute:
        return hasattr(getattr(module, what, None), f"{PROJECT}_impl")
    return any(kind == found and hasattr(record, attribute) for found, record in records)


def _number(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))
