"""Imports one plugin and collects its records, with every failure turned into a reason that names no traceback."""

from __future__ import annotations

import importlib
import importlib.util
import itertools
import os
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from types import ModuleType
from typing import Any

from stowplan.plugins.hooks import PROJECT
from stowplan.plugins.index import Offer, Stamp, stamp

KINDS = ("importer", "scheduler", "compressor", "backend", "profiler", "target")
MOST_RECORDS = 256  # a generator that never ends would otherwise hang every command
MOST_STAMPS = 400
METHODS = {
    "importer": ("sniff", "load", "describe"),
    "scheduler": ("schedule",),
    "compressor": ("compress", "decompress"),
    "backend": ("available", "accelerators", "coverage", "compile", "generate"),
    "profiler": ("attach",),
    "target": (),
}
"""What a record of each kind must be able to do, checked when it is offered and not in the middle of a build."""


class BrokenPluginError(Exception):
    """A plugin cannot be used; the text is a reason in one line."""


def import_plugin(module: str) -> ModuleType:
    """Import a plugin's module. Raises `BrokenPluginError` whatever goes wrong in it, `sys.exit` and hanging included.

    What it prints goes to standard error: standard output may be a document that somebody reads.
    """
    if not module:
        raise BrokenPluginError("its entry_points.txt is damaged")
    with _contained("its import"), redirect_stdout(sys.stderr):
        return importlib.import_module(module)


@contextmanager
def _contained(what: str) -> Iterator[None]:
    """Turn anything that a plugin raises, or taking too long, into `BrokenPluginError`."""
    from stowplan.plugins.patience import TookTooLongError, import_seconds, limit

    seconds = import_seconds()
    try:
        with limit(seconds):
            yield
    except (BrokenPluginError, KeyboardInterrupt):
        raise
    except TookTooLongError:
        raise BrokenPluginError(f"{what} did not end within {seconds:g} s") from None
    except BaseException as err:  # it must not end the command, whatever it calls its exceptions
        raise BrokenPluginError(one_line(err)) from err


def contract_of(module: ModuleType) -> int:
    """Return the contract that a plugin was written for. Raises `BrokenPluginError` when that is none of ours."""
    from stowplan.plugins.kinds import CONTRACT, OLDEST_CONTRACT

    found = getattr(module, "STOWPLAN_CONTRACT", 1)
    if type(found) is not int:
        raise BrokenPluginError(f"STOWPLAN_CONTRACT is {found!r}; write the number of the contract, {CONTRACT}"[:200])
    if found > CONTRACT:
        raise BrokenPluginError(
            f"it was written for contract {found} of stowplan, this one has {CONTRACT}: upgrade stowplan"
        )
    if found < OLDEST_CONTRACT:
        raise BrokenPluginError(
            f"it was written for contract {found} of stowplan, this one needs {OLDEST_CONTRACT}: upgrade the plugin"
        )
    return found


def collect(kind: str, call: Callable[[], Any]) -> tuple[Any, ...]:
    """Return the records of one kind that a plugin's hook gives. Raises `BrokenPluginError` for anything else."""
    hook = f"{PROJECT}_{kind}s"
    try:
        with _contained("it"):
            return _records(hook, call)
    except BrokenPluginError as err:
        raise err if hook in str(err) else BrokenPluginError(f"{hook} failed: {err}") from err


def _records(hook: str, call: Callable[[], Any]) -> tuple[Any, ...]:
    result = call()
    if hasattr(result, "__await__") or hasattr(result, "__aiter__"):
        _dispose(result)
        raise BrokenPluginError(f"{hook} is asynchronous; write a plain function that returns a list")
    if isinstance(result, (str, bytes)) or not hasattr(result, "__iter__"):
        raise BrokenPluginError(f"{hook} returned {type(result).__name__}, not a list of records")
    # Also runs a generator to its end, so that its errors appear here and not where a build iterates.
    records = tuple(itertools.islice(result, MOST_RECORDS + 1))
    if len(records) > MOST_RECORDS:
        raise BrokenPluginError(f"{hook} offers more than {MOST_RECORDS} records")
    return records


def describe(kind: str, record: Any) -> Offer:
    """Return what the index keeps of a record. Raises `BrokenPluginError` when it lacks what its kind has to have."""
    try:
        return _describe(kind, record)
    except BrokenPluginError:
        raise
    except Exception as err:  # a property of the record raised
        raise BrokenPluginError(f"a record of {PROJECT}_{kind}s failed: {one_line(err)}") from err


def stamps(module: str, broken: bool) -> tuple[Stamp, ...]:
    """Return the stamps that tell when a plugin must be looked at again: its hook module, or all it has if broken.

    What broke a plugin may be in any of its files, and mending it there must not need a cleared cache.
    """
    origin = _origin(module)
    if origin is None:
        return ()
    if not broken or origin.name != "__init__.py":
        return (stamp(str(origin)),)
    files = itertools.islice(origin.parent.rglob("*.py"), MOST_STAMPS)
    return tuple(stamp(str(file)) for file in sorted(files))


def one_line(err: BaseException) -> str:
    """Return an error as one short line."""
    text = " ".join(str(err).split())
    text = f"{type(err).__name__}: {text}" if text else type(err).__name__
    return text if len(text) <= 200 else text[:197] + "..."


def _describe(kind: str, record: Any) -> Offer:
    name = getattr(record, "name", None)
    if not isinstance(name, str) or not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,63}", name):
        raise BrokenPluginError(f"a record of {PROJECT}_{kind}s has no usable name ({name!r})"[:200])
    missing = [method for method in METHODS[kind] if not callable(getattr(record, method, None))]
    if missing:
        raise BrokenPluginError(f"{kind} {name!r} has no {missing[0]}()")
    suffixes = tuple(_suffixes(record)) if kind == "importer" else ()
    version = getattr(record, "version", "")
    return Offer(
        kind=kind,
        name=name,
        summary=_summary(record),
        suffixes=suffixes,
        version=version[:200] if isinstance(version, str) else "",
        external=callable(getattr(record, "external_files", None)),
    )


def _summary(record: Any) -> str:
    # A target has none: it is plain data of the flow.
    text = getattr(record, "summary", "")
    return " ".join(text.split())[:200] if isinstance(text, str) else ""


def _suffixes(record: Any) -> Iterator[str]:
    suffixes = getattr(record, "suffixes", None)
    if not isinstance(suffixes, (tuple, list)) or not suffixes:
        raise BrokenPluginError(f"importer {record.name!r} has no suffixes")
    for suffix in suffixes:
        if not isinstance(suffix, str) or not re.fullmatch(r"\.[a-z0-9._-]+", suffix):
            raise BrokenPluginError(f"importer {record.name!r} has the suffix {suffix!r}; write it like .tflite")
        yield suffix


def _dispose(result: Any) -> None:
    """Close a coroutine, or Python complains later that nobody awaited it."""
    if callable(close := getattr(result, "close", None)):
        close()


def _origin(module: str) -> Path | None:
    """Return a module's file without running it; for a dotted name that of its top package, for the same reason."""
    try:
        spec = importlib.util.find_spec(module.partition(".")[0])
    except (ImportError, ValueError):
        return None
    if spec is None:
        return None
    if spec.origin is None:  # a folder without __init__.py, which is still to come or was lost
        return next((Path(folder) / "__init__.py" for folder in spec.submodule_search_locations or ()), None)
    return Path(spec.origin) if os.path.isabs(spec.origin) else None
