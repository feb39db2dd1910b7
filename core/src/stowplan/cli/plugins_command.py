"""`stowplan plugins list`: which plugins are installed, what they offer, and which do not work and why."""

from __future__ import annotations

import argparse
from collections import Counter

from stowplan.cli.options import add_json
from stowplan.cli.output import columns, print_json
from stowplan.plugins.host import host
from stowplan.plugins.index import Plugin


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("action", choices=("list",), nargs="?", default="list", help="list (default)")
    add_json(parser)


def run(arguments: argparse.Namespace) -> int:
    rows = _rows(host().plugins)
    if arguments.json:
        keys = ("kind", "name", "provider", "version", "state", "summary")
        print_json(dict(report=1, plugins=[dict(zip(keys, row, strict=True)) for row in rows]))
    elif rows:
        print("\n".join(columns([("kind", "name", "provider", "version", "state", ""), *rows], indent="")))
    else:
        print("no plugins are installed")
    return 0


def _rows(plugins: tuple[Plugin, ...]) -> list[tuple[str, str, str, str, str, str]]:
    """One row per offer, and one for each plugin that is broken or blocked; "clash" where two offer one name."""
    claims = Counter((o.kind, o.name) for p in plugins for o in p.offers)
    rows = []
    for plugin in plugins:
        end = (plugin.provider, plugin.version)
        if plugin.state != "ok":
            rows.append(("plugin", plugin.entry, *end, plugin.state, plugin.reason))
        elif not plugin.offers:
            rows.append(("observer", plugin.entry, *end, plugin.state, ""))
        for offer in plugin.offers:
            state = "ok" if claims[offer.kind, offer.name] == 1 else "clash"
            rows.append((offer.kind, offer.name, *end, state, offer.summary))
    return sorted(rows)
