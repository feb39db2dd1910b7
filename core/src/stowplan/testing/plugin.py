"""Finds the plugin under test by its entry point, as users' commands do, and calls it with every failure contained."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from stowplan.plugins.host import Host
from stowplan.plugins.index import Plugin
from stowplan.plugins.loading import one_line
from stowplan.plugins.patience import TookTooLongError, limit
from stowplan.testing.faults import Fault, Skipped

Answer = TypeVar("Answer")


def find(entry: str) -> tuple[Host, Plugin]:
    """Return a host that looks at one plugin only, and the plugin. Raises `Fault` where it is missing or broken."""
    if not entry:
        raise Fault('the test class names no plugin. Set `plugin = "importer-acme"`, the name of your entry point.')
    host = Host({"STOWPLAN_PLUGINS": entry})
    found = [plugin for plugin in host.plugins if plugin.entry == entry]
    if not found:
        raise Fault(
            f'no installed distribution has the entry point "{entry}" in the group "stowplan". Declare it under '
            f"[project.entry-points.stowplan] in pyproject.toml, and install with: pip install -e ."
        )
    if len(found) > 1:
        titles = " and ".join(plugin.title for plugin in found)
        raise Fault(f'two distributions have the entry point "{entry}": {titles}. Rename yours.')
    if found[0].state != "ok":
        raise Fault(f"the plugin {entry} is {found[0].state}: {found[0].reason}.")
    return host, found[0]


def record_of(entry: str, kind: str, name: str) -> Any:
    """Return the record under test: the one of that kind and name, or the only one of that kind."""
    host, plugin = find(entry)
    names = [offer.name for offer in plugin.offers if offer.kind == kind]
    if not names:
        raise Fault(f"{entry} offers no {kind}. Return one from a function stowplan_{kind}s marked with @hook.")
    if not name and len(names) > 1:
        raise Fault(f"{entry} offers several {kind}s ({', '.join(names)}). Write a test class for each, with its name.")
    if name and name not in names:
        raise Fault(f'{entry} offers no {kind} "{name}", but {", ".join(names)}.')
    return host.record(plugin, kind, name or names[0])


def ask(
    what: str, function: Callable[..., Answer], *arguments: Any, seconds: float, allow: tuple[type[Exception], ...] = ()
) -> Answer:
    """Call a plugin. What it raises beside `allow`, or taking longer than `seconds`, is a `Fault` that names the call.

    `what` is the call in words, such as `load(model.acme)`.
    """
    try:
        with limit(seconds):
            return function(*arguments)
    except (Fault, Skipped):
        raise
    except TookTooLongError:
        raise Fault(
            f"{what} did not return within {seconds:g} s. Bound your loops, and never wait for input."
        ) from None
    except allow:
        raise
    except (Exception, SystemExit) as err:
        wanted = " or ".join(kind.__name__ for kind in allow)
        advice = f"Raise {wanted} with what is wrong and how to fix it" if wanted else "It has to succeed here"
        raise Fault(f"{what} raised {one_line(err)}. {advice}.") from err
