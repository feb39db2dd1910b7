"""`stowplan cache`: what the cache holds and has saved, what an output was made from, whether all of it is sound."""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from stowplan.cache import key as keys
from stowplan.cache import subjects, upkeep
from stowplan.cache.entry import Damaged, Record
from stowplan.cache.store import Store
from stowplan.cli.caching import add_folder, open_store
from stowplan.cli.options import add_json
from stowplan.cli.output import columns, print_json
from stowplan.errors import StowplanError, UsageError
from stowplan.units import format_size, parse_size

if TYPE_CHECKING:
    from stowplan.cache.index import Row

ACTIONS = ("stats", "explain", "verify", "prune", "clear")
SHORTEST_KEY = 6


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("action", choices=ACTIONS, help="stats, explain, verify, prune or clear")
    parser.add_argument(
        "what", metavar="KEY-or-FILE", nargs="*", help="explain: an output, a model, or one or two keys"
    )
    parser.add_argument("--size", metavar="SIZE", help="prune: down to this size (otherwise to the cache's limit)")
    parser.add_argument("--older-than", metavar="DAYS", type=float, help="prune: entries not used for so many days")
    parser.add_argument("--target", metavar="NAME", help="prune: entries for a target of a project")
    add_json(parser)
    add_folder(parser)


def run(arguments: argparse.Namespace) -> int:
    store = open_store(arguments)
    if arguments.what and arguments.action != "explain":
        raise UsageError(f"{arguments.what[0]}: only explain takes a key or a file")
    action = {"stats": _stats, "explain": _explain, "verify": _verify, "prune": _prune, "clear": _clear}
    return action[arguments.action](arguments, store)


def _stats(arguments: argparse.Namespace, store: Store) -> int:
    stats = upkeep.statistics(store)
    counters = stats.counters
    found, missed = counters["hit"] + counters["warm"], counters["miss"]
    rate = f"{100 * found / (found + missed):.1f} %" if found + missed else "none asked"
    if arguments.json:
        print_json(dict(report=1, folder=str(store.folder), **vars(stats)))
        return 0
    rows = [
        ("folder", str(store.folder)),
        ("entries", str(stats.entries)),
        ("size", f"{format_size(stats.size_bytes)} of {format_size(stats.limit_bytes)}"),
        ("found", f"{found} ({counters['warm']} of them unchanged)"),
        ("missed", str(missed)),
        ("rate", rate),
        ("saved", f"{counters['saved_ns'] / 1e9:.1f} s of work"),
    ]
    print("\n".join(columns(rows, indent="")))
    return 0


def _explain(arguments: argparse.Namespace, store: Store) -> int:
    if len(arguments.what) == 2:
        old, new = (_record(store, word).document for word in arguments.what)
        return _show_differences(arguments, subjects.changed(old, new))
    if len(arguments.what) != 1:
        raise UsageError("explain: name an output, a model, or one or two keys")
    word = arguments.what[0]
    found = _subjects(store, word)
    if found:
        return _show_subjects(arguments, found)
    record = _record(store, word)
    labels = [(label, keys.shown(value)) for label, value in keys.leaves(record.document)]
    if arguments.json:
        print_json(dict(report=1, key=record.key, document=record.document))
    else:
        print("\n".join([f"key {record.key}", *columns(labels)]))
    return 0


def _subjects(store: Store, word: str) -> list[subjects.Subject]:
    """Return the outputs that a file is: itself, or all those made from a model of that name and content."""
    exact = subjects.recall(store.folder, os.path.abspath(word))
    if exact is not None:
        return [exact]
    path = Path(word)
    if not path.is_file():
        return []
    source = {"name": path.name}
    made = [s for s in subjects.recalled(store.folder) if s.document.get("source", {}).get("name") == source["name"]]
    return sorted(made, key=lambda subject: subject.name)


def _show_subjects(arguments: argparse.Namespace, found: Sequence[subjects.Subject]) -> int:
    if arguments.json:
        outputs = [dict(output=s.name, key=s.key, reasons=s.reasons, document=s.document) for s in found]
        print_json(dict(report=1, outputs=outputs))
        return 0
    for subject in found:
        reasons = subject.reasons or ("no input changed",)
        print("\n".join([f"{subject.name}", *columns([("key", subject.key), *(("because", r) for r in reasons)])]))
    return 0


def _show_differences(arguments: argparse.Namespace, found: Sequence[keys.Difference]) -> int:
    if arguments.json:
        print_json(dict(report=1, differences=[vars(difference) for difference in found]))
    else:
        print("\n".join(map(str, found)) or "the two keys are of the same inputs")
    return 0


def _record(store: Store, word: str) -> Record:
    """Return the record of a key, of which the first digits are enough. Raises `StowplanError`."""
    if len(word) < SHORTEST_KEY or not set(word) <= set("0123456789abcdef"):
        raise StowplanError(f"{word}: neither an output or model that was built, nor a key")
    matching = [key for key in store.all_keys() if key.startswith(word)]
    if len(matching) != 1:
        raise StowplanError(f"{word}: {'several entries begin' if matching else 'no entry begins'} so")
    try:
        record = store.record(matching[0])
    except Damaged as err:
        raise StowplanError(
            f"cache entry {matching[0][:12]}... is damaged ({err}); stowplan cache verify removes it"
        ) from err
    if record is None:
        raise StowplanError(f"{word}: the entry is gone")
    return record


def _verify(arguments: argparse.Namespace, store: Store) -> int:
    """Read every byte; what is damaged goes, so that it is built again."""
    count = sum(1 for _ in store.all_keys())
    found = upkeep.damaged(store)
    swept = upkeep.drop(store, lambda key, record, row: key in found)
    if arguments.json:
        print_json(dict(report=1, entries=count, damaged=found, **vars(swept)))
    else:
        for key, why in found.items():
            print(f"cache entry {key[:12]}... was damaged ({why}); removed")
        print(f"{count} entries read, {len(found)} damaged, {_swept(swept)}")
    return 1 if found and store.read_only else 0


def _prune(arguments: argparse.Namespace, store: Store) -> int:
    if arguments.older_than is not None and not 0 <= arguments.older_than < 1e6:
        raise UsageError(f"--older-than {arguments.older_than}: write a number of days")
    swept = upkeep.Swept()
    if arguments.older_than is not None or arguments.target:
        before_ns = None if arguments.older_than is None else time.time_ns() - int(arguments.older_than * 86400e9)
        swept = upkeep.drop(store, lambda key, record, row: _is_chosen(record, row, before_ns, arguments.target))
    else:
        limit = parse_size(arguments.size, "--size") if arguments.size else upkeep.limit_bytes()
        swept = upkeep.keep_small(store, limit)
    return _tell(arguments, swept)


def _is_chosen(record: Record | None, row: Row | None, before_ns: int | None, target: str | None) -> bool:
    if record is None:
        return True
    old = before_ns is None or (row is not None and row.used_ns < before_ns)
    described = record.document.get("target", {})
    return old and (not target or target in (described.get("label"), described.get("name")))


def _clear(arguments: argparse.Namespace, store: Store) -> int:
    swept = upkeep.drop(store, lambda key, record, row: True)
    subjects.forget(store.folder)
    return _tell(arguments, swept)


def _tell(arguments: argparse.Namespace, swept: upkeep.Swept) -> int:
    if arguments.json:
        print_json(dict(report=1, **vars(swept)))
    else:
        print(_swept(swept))
    return 0


def _swept(swept: upkeep.Swept) -> str:
    return f"{swept.entries} entries removed, {swept.leftovers} leftovers swept, {format_size(swept.freed_bytes)} freed"
