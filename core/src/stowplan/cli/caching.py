"""The cache options that commands share, and the cache they ask for."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from stowplan.cli.output import safe
from stowplan.errors import UsageError

if TYPE_CHECKING:
    from stowplan.cache.layers import Layer, Layered
    from stowplan.cache.store import Store


def add_cache(parser: argparse.ArgumentParser) -> None:
    """Add what every command that builds takes."""
    group = parser.add_argument_group("cache")
    group.add_argument("--no-cache", action="store_true", help="neither look results up nor keep them")
    group.add_argument("--recache", action="store_true", help="build again and replace what the cache has")
    group.add_argument("--verify", action="store_true", help="build again and compare with what the cache has")
    add_folder(group)


def check_choice(arguments: argparse.Namespace, command: str) -> None:
    """Raise `UsageError` for options of which only one can be had."""
    chosen = [name for name in ("no_cache", "recache", "verify") if getattr(arguments, name)]
    if len(chosen) > 1:
        words = " and ".join(f"--{name.replace('_', '-')}" for name in chosen)
        raise UsageError(f"{words}: choose one (see stowplan {command} --help)")


def add_folder(parser: argparse._ActionsContainer) -> None:
    parser.add_argument("--cache-dir", metavar="FOLDER", help="where the cache is (otherwise STOWPLAN_CACHE_DIR)")
    parser.add_argument("--cache-read-only", action="store_true", help="use the cache, but change nothing in it")


def note(line: str) -> None:
    """Say something that is no error: what was built is right all the same."""
    print(f"Note: {safe(line)}", file=sys.stderr)


def name_folder(arguments: argparse.Namespace) -> None:
    """Tell this process and those it starts which folder to use; plugins keep things there, too."""
    if arguments.cache_dir:
        os.environ["STOWPLAN_CACHE_DIR"] = str(Path(arguments.cache_dir).absolute())


def choose_folder(arguments: argparse.Namespace) -> None:
    """Name the folder of a cache that will be used."""
    from stowplan.cache.upkeep import limit_bytes

    name_folder(arguments)
    limit_bytes()  # refuses a limit that is no size before any work is done


def open_store(arguments: argparse.Namespace) -> Store:
    """Return the cache on disk."""
    from stowplan.cache.store import Store

    choose_folder(arguments)
    return Store(read_only=read_only(arguments), report=note)


def open_cache(store: Store) -> Layered:
    """Return the disk, and behind it the team's cache where STOWPLAN_REMOTE_CACHE names one. Raises `UsageError`."""
    from stowplan.cache.layers import Layered

    return Layered([store, *remote_layer(store)])


def remote_layer(store: Store) -> list[Layer]:
    """Return the team's cache, or none. Raises `UsageError` for an address that is none."""
    if not os.environ.get("STOWPLAN_REMOTE_CACHE"):
        return []
    from stowplan.cache.remote import Remote

    return [Remote.from_environment(os.environ, store.folder, report=note)]


def read_only(arguments: argparse.Namespace) -> bool:
    return arguments.cache_read_only or read_only_by_environment()


def read_only_by_environment() -> bool:
    return os.environ.get("STOWPLAN_CACHE_READ_ONLY", "") not in ("", "0")
