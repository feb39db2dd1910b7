"""`stowplan plugins`: what is installed and whether it works (list), does it keep the contract (check), a new one."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from stowplan.cli.options import add_json
from stowplan.cli.output import columns, painted, print_json, safe
from stowplan.errors import UsageError
from stowplan.plugins.host import host
from stowplan.plugins.index import Plugin
from stowplan.plugins.known import KINDS_TO_WRITE

ACTIONS = ("list", "check", "new")
KEYS = ("kind", "name", "provider", "version", "state", "load_us", "contract", "summary")


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("action", choices=ACTIONS, nargs="?", default="list", help="list (default), check or new")
    parser.add_argument(
        "what", metavar="NAME", nargs="*", help="check: the entry point of a plugin; new: its kind, then its name"
    )
    parser.add_argument(
        "--model", metavar="FILE", action="append", default=[], help="check: a model that importers and profilers get"
    )
    parser.add_argument("--seconds", metavar="S", type=float, help="check: what one call may take (default 60)")
    parser.add_argument(
        "-o", "--output", metavar="FOLDER", type=Path, help="new: where to write it (default: its name)"
    )
    add_json(parser)


def run(arguments: argparse.Namespace) -> int:
    _check_unused(arguments)
    return {"list": _list, "check": _check, "new": _new}[arguments.action](arguments)


def _check_unused(arguments: argparse.Namespace) -> None:
    """Refuse words and options that would change nothing."""
    wanted = {"list": 0, "check": 1, "new": 2}[arguments.action]
    if len(arguments.what) != wanted:
        need = {"list": "takes no name", "check": "needs the name of a plugin", "new": "needs a kind and a name"}
        raise UsageError(f"plugins {arguments.action} {need[arguments.action]} (see stowplan plugins --help)")
    owners = {"--model": ("check", arguments.model), "--seconds": ("check", arguments.seconds is not None),
              "--output": ("new", arguments.output)}  # fmt: skip
    for option, (action, given) in owners.items():
        if given and arguments.action != action:
            raise UsageError(f"{option}: only plugins {action} takes it")


def _list(arguments: argparse.Namespace) -> int:
    rows = _rows(host().plugins)
    if arguments.json:
        print_json(dict(report=1, plugins=[dict(zip(KEYS, row, strict=True)) for row in rows]))
    elif rows:
        shown = [(*row[:5], f"{row[5] / 1000:.1f} ms" if row[4] != "blocked" else "", row[7]) for row in rows]
        heading = ("kind", "name", "provider", "version", "state", "load", "")
        print("\n".join(columns([heading, *shown], indent="", right=frozenset({5}))))
    else:
        print("no plugins are installed")
    return 0


def _rows(plugins: tuple[Plugin, ...]) -> list[tuple[Any, ...]]:
    """One row per offer, and one for each plugin that is broken or blocked or only observes."""
    claims: dict[tuple[str, str], list[Plugin]] = {}
    for plugin in plugins:
        for offer in plugin.offers:
            claims.setdefault((offer.kind, offer.name), []).append(plugin)
    rows = []
    for plugin in plugins:
        middle = (plugin.load_us, plugin.contract)
        end = (plugin.provider, plugin.version)
        if plugin.state != "ok":
            rows.append(("plugin", plugin.entry, *end, plugin.state, *middle, plugin.reason))
        elif not plugin.offers:
            rows.append(("observer", plugin.entry, *end, *_health(plugin, [], middle, "")))
        for offer in plugin.offers:
            rivals = [other for other in claims[offer.kind, offer.name] if other is not plugin]
            rows.append((offer.kind, offer.name, *end, *_health(plugin, rivals, middle, offer.summary)))
    return sorted(rows)


def _health(plugin: Plugin, rivals: Sequence[Plugin], middle: tuple[int, int], summary: str) -> tuple[Any, ...]:
    if rivals:
        return ("clash", *middle, f"also offered by {', '.join(p.title for p in rivals)}; block all but one")
    if plugin.deprecated:
        return ("deprecated", *middle, "; ".join(plugin.deprecated))
    return ("ok", *middle, summary)


def _check(arguments: argparse.Namespace) -> int:
    from stowplan.testing.run import check_plugin

    seconds = 60.0 if arguments.seconds is None else arguments.seconds
    if not 0 < seconds <= 86400:
        raise UsageError(f"--seconds {seconds:g}: write seconds, more than 0 and at most 86400")
    for model in arguments.model:
        if not Path(model).is_file():
            raise UsageError(f"--model {model}: no such file")
    verdicts = []
    for verdict in check_plugin(_named(arguments.what[0]), arguments.model, seconds):
        verdicts.append(verdict)
        if not arguments.json:
            print("\n".join(_told(verdict)), flush=True)
    counts = {state: sum(v.state == state for v in verdicts) for state in ("ok", "skipped", "fault")}
    if arguments.json:
        print_json(dict(report=1, plugin=arguments.what[0], **counts, checks=verdicts))
    else:
        print(f"{counts['ok']} ok, {counts['skipped']} skipped, {counts['fault']} at fault")
    return 1 if counts["fault"] else 0


def _told(verdict: Any) -> list[str]:
    from stowplan.testing.run import words

    style = {"ok": "green", "fault": "red"}.get(verdict.state)
    state = f"{verdict.state:<7}"
    line = f"{painted(state, style) if style else state}  {verdict.kind} {safe(verdict.name)} {words(verdict.check)}"
    return [line, *([f"         {safe(verdict.why)}"] if verdict.why else [])]


def _named(name: str) -> Plugin:
    """Return the plugin of an entry point or a distribution. Raises `UsageError` with those there are."""
    import difflib

    plugins = host().plugins
    found = [p for p in plugins if p.entry == name] or [p for p in plugins if p.provider == name]
    if found:
        return found[0]
    names = sorted({plugin.entry for plugin in plugins})
    near = difflib.get_close_matches(name, names, n=1)
    there = f"did you mean {near[0]}?" if near else f"installed are {', '.join(names) or 'none'}"
    raise UsageError(f'no plugin "{name[:100]}": {there}')


def _new(arguments: argparse.Namespace) -> int:
    from stowplan.cli.output import make_folder, write_files
    from stowplan.plugins.scaffold import package

    kind, name = arguments.what
    if kind not in KINDS_TO_WRITE:
        raise UsageError(f'no kind "{kind[:40]}": kinds are {", ".join(KINDS_TO_WRITE)}')
    files = package(kind, name)
    folder = arguments.output or Path(f"stowplan-{kind}-{name}")
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UsageError(f"{folder}: is there already and not empty; choose another with -o FOLDER")
    for path in sorted({(folder / file).parent for file in files}):
        make_folder(path)
    write_files({folder / file: data for file, data in files.items()})
    if arguments.json:
        print_json(dict(report=1, folder=str(folder), files=sorted(files)))
    else:
        print(f"wrote {safe(str(folder))}: {len(files)} files. Now:")
        print(f"  cd {safe(str(folder))}\n  pip install -e '.[test]'\n  pytest")
    return 0
