"""The cache options that commands share, and the cache they ask for."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from stowplan.cli.output import safe

if TYPE_CHECKING:
    from stowplan.cache.layers import Layer, Layered
    from stowplan.cache.store import Store


def add_cache(parser: argparse.ArgumentParser) -> None:
    """Add what every command that builds takes."""
    group = parser.add_argument_group("cache")
    group.add_argument("--no-cache", action="store_true", help="neither look results up nor keep them")
    group.add_argument("--recache", action="store_true", help="build again and replace what the cache has")
    add_folder(group)


def add_folder(parser: argparse._ActionsContainer) -> None:
    parser.add_argument("--cache-dir", metavar="FOLDER", help="where the cache is (otherwise STOWPLAN_CACHE_DIR)")
    parser.add_argument("--cache-read-only", action="store_true", help="use the cache, but change nothing in it")


def note(line: str) -> None:
    """Say something that is no error: what was built is right all the same."""
    print(f"Note: {safe(line)}", file=sys.stderr)


def open_store(arguments: argparse.Namespace) -> Store:
    """Return the cache on disk. The folder asked for also holds what plugins keep, so it is told to everyone."""
    from stowplan.cache.store import Store

    if arguments.cache_dir:
        os.environ["STOWPLAN_CACHE_DIR"] = str(Path(arguments.cache_dir).absolute())
    return Store(read_only=read_only(arguments), report=note)


def open_cache(arguments: argparse.Namespace, store: Store) -> Layered:
    """Return the disk, and behind it the team's cache where STOWPLAN_REMOTE_CACHE names one. Raises `UsageError`."""
    from stowplan.cache.layers import Layered

    layers: list[Layer] = [store]
    if os.environ.get("STOWPLAN_REMOTE_CACHE"):
        from stowplan.cache.remote import Remote

        layers.append(Remote.from_environment(os.environ, store.folder, report=note))
    return Layered(layers)


def read_only(arguments: argparse.Namespace) -> bool:
    return arguments.cache_read_only or os.environ.get("STOWPLAN_CACHE_READ_ONLY", "") not in ("", "0")
