"""The typed facade through which everything else sees plugins, and the only module that touches pluggy."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache, cached_property, partial
from types import ModuleType
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from stowplan.errors import PluginError
from stowplan.plugins import index
from stowplan.plugins.deprecated import used
from stowplan.plugins.hooks import PROJECT
from stowplan.plugins.index import Offer, Plugin
from stowplan.plugins.known import SUFFIXES, distribution, how_to_install
from stowplan.plugins.loading import (
    KINDS,
    BrokenPluginError,
    collect,
    contract_of,
    describe,
    import_plugin,
    one_line,
    stamps,
)

if TYPE_CHECKING:
    from pluggy import HookCaller, PluginManager

    from stowplan.flow.model import Model
    from stowplan.flow.target import Target
    from stowplan.plugins.discovery import Entry
    from stowplan.plugins.kinds import Backend, Compressor, Importer, Profiler, Scheduler

Record = TypeVar("Record", covariant=True)
WATCHERS: list[Callable[[str, tuple[str, ...], Mapping[str, Any]], None]] = []
"""Told of each call of a hook: its name, the modules that answer, what they are given. Only tests have a use for it."""


class Offers(Mapping[str, Record], Generic[Record]):
    """All records of one kind by name, sorted. Names come from the index; a record's plugin is imported when asked for.

    Asking for a name that nobody offers raises `PluginError` with what is there instead.
    """

    def __init__(self, host: Host, kind: str, owners: Mapping[str, Plugin]) -> None:
        self._host = host
        self._kind = kind
        self._owners = owners

    def __getitem__(self, name: str) -> Record:
        if name not in self._owners:
            raise PluginError(self._host.absence(self._kind, name, list(self)))
        record: Record = self._host.record(self._owners[name], self._kind, name)
        return record

    def __contains__(self, name: object) -> bool:
        return name in self._owners

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(self._owners))

    def __len__(self) -> int:
        return len(self._owners)


class Host:
    """The plugins of this environment. Make one with `host()`; it reads the index, or scans and writes it."""

    def __init__(self, environment: Mapping[str, str] | None = None) -> None:
        self._environment = os.environ if environment is None else environment
        self._records: dict[str, Mapping[tuple[str, str], Any]] = {}
        self._told: dict[str, None] = {}

    def importers(self) -> Mapping[str, Importer]:
        return self._offers("importer")

    def schedulers(self) -> Mapping[str, Scheduler]:
        return self._offers("scheduler")

    def compressors(self) -> Mapping[str, Compressor]:
        return self._offers("compressor")

    def backends(self) -> Mapping[str, Backend]:
        return self._offers("backend")

    def profilers(self) -> Mapping[str, Profiler]:
        return self._offers("profiler")

    def targets(self) -> Mapping[str, Target]:
        return self._offers("target")

    def importer_for(self, model: Model) -> Importer:
        """Return the importer for a model: by suffix, and by content where several importers share the suffix."""
        suffix = model.path.suffix.lower()
        matches = [(p, o) for p, o in self._offered("importer") if suffix in o.suffixes]
        if not matches:
            raise PluginError(self._no_importer(model))
        importers = self.importers()
        if len(matches) > 1:
            matches = [(p, o) for p, o in matches if self._sniffs(p, o.name, model.data)] or matches
        if len(matches) > 1:
            both = ", ".join(f"{o.name} ({p.title})" for p, o in matches)
            raise PluginError(f"{model.name}: several importers read it: {both}. Uninstall or block all but one.")
        return importers[matches[0][1].name]

    def offered(self, kind: str, name: str = "") -> tuple[tuple[Plugin, Offer], ...]:
        """Return who offers what of a kind, or of one name, without importing anybody."""
        return tuple((p, o) for p, o in self._offered(kind) if not name or o.name == name)

    @property
    def observed(self) -> bool:
        """Whether some plugin wants to be told of events."""
        return any(plugin.state == "ok" and plugin.observes for plugin in self.plugins)

    @property
    def warnings(self) -> tuple[str, ...]:
        """What was said on standard error so far, for those who replay a build."""
        return tuple(self._told)

    def provider_version(self, kind: str, name: str) -> str:
        """Return `distribution version` of the plugin that offers a record, without importing it."""
        offers = self._owners(kind)
        if name not in offers:
            raise PluginError(self.absence(kind, name, sorted(offers)))
        return offers[name].title

    def event(self, name: str, facts: Mapping[str, object]) -> None:
        """Tell observing plugins that something happened. What they raise is reported and goes no further."""
        for plugin in self.plugins:
            if plugin.state == "ok" and plugin.observes:
                self._notify(plugin, name, facts)

    @cached_property
    def plugins(self) -> tuple[Plugin, ...]:
        """Every installed plugin, broken and blocked ones included."""
        from stowplan.plugins.discovery import Selection, search_path

        selection = Selection.from_environment(self._environment)
        path = search_path()
        file = index.location(path, repr(selection))
        plugins = index.load(file, path)
        if plugins is None:
            plugins = self._scan(selection)
            index.save(file, path, plugins)
        for plugin in plugins:
            if plugin.state == "broken":
                self._warn_skipped(plugin)
        return plugins

    def record(self, plugin: Plugin, kind: str, name: str) -> Any:
        """Return one record, importing its plugin. Raises `PluginError` when the plugin no longer offers it."""
        if plugin.module not in self._records:
            try:
                self._records[plugin.module] = _gather(import_plugin(plugin.module))[0]
            except BrokenPluginError as err:
                raise PluginError(f'{kind} "{name}" of {plugin.title} could not be loaded: {err}') from err
        records = self._records[plugin.module]
        if (kind, name) not in records:
            raise PluginError(f'{plugin.title} no longer offers the {kind} "{name}"; install it again')
        return records[kind, name]

    def absence(self, kind: str, name: str, names: list[str]) -> str:
        """Return the message for a name that no working plugin offers."""
        for plugin in self.plugins:
            if plugin.state != "ok" and plugin.entry in (name, f"{kind}-{name}"):
                return f'{kind} "{name}" is installed ({plugin.title}) but {plugin.state}: {plugin.reason}'
        near = _close_matches(name, names, n=1)
        there = f"installed are {', '.join(names)}." if names else "none is installed."
        guess = f" Did you mean {near[0]}?" if near else ""
        return f'no {kind} "{name}": {there}{guess}{how_to_install(kind, name)}'

    def _offers(self, kind: str) -> Offers[Any]:
        return Offers(self, kind, self._owners(kind))

    def _owners(self, kind: str) -> dict[str, Plugin]:
        """Map each name of a kind to the one plugin that offers it. Raises `PluginError` when two do."""
        owners: dict[str, Plugin] = {}
        for plugin, offer in self._offered(kind):
            if offer.name in owners:
                both = f"{owners[offer.name].title} and {plugin.title}"
                raise PluginError(
                    f'two plugins offer the {kind} "{offer.name}": {both}. Uninstall one, or name one of them in '
                    f"STOWPLAN_PLUGINS_BLOCK."
                )
            owners[offer.name] = plugin
        return owners

    def _offered(self, kind: str) -> list[tuple[Plugin, Offer]]:
        return [(p, o) for p in self.plugins if p.state == "ok" for o in p.offers if o.kind == kind]

    def _scan(self, selection: Any) -> tuple[Plugin, ...]:
        import stowplan.plugins.kinds  # noqa: F401 (what plugins share is not counted as the first one's load time)
        from stowplan.plugins.discovery import find_entries

        _manager()
        return tuple(self._examine(entry, selection.admits(entry)) for entry in find_entries())

    def _examine(self, entry: Entry, admitted: bool) -> Plugin:
        facts: dict[str, Any] = dict(
            entry=entry.name,
            module=entry.module,
            provider=entry.provider,
            version=entry.version,
            requires=entry.requires,
        )
        if not admitted:
            return Plugin(**facts, state="blocked", reason="left out by STOWPLAN_PLUGINS or STOWPLAN_PLUGINS_BLOCK")
        began = time.perf_counter_ns()
        try:
            module = import_plugin(entry.module)
            facts.update(contract=contract_of(module))
            records, offers, observes = _gather(module, checked=True)
        except BrokenPluginError as err:
            return Plugin(**facts, state="broken", reason=str(err), stamps=stamps(entry.module, broken=True))
        self._records[entry.module] = records
        facts.update(
            load_us=(time.perf_counter_ns() - began) // 1000,
            deprecated=used(module, [(kind, record) for (kind, _), record in records.items()]),
        )
        return Plugin(**facts, state="ok", offers=offers, observes=observes, stamps=stamps(entry.module, broken=False))

    def _sniffs(self, plugin: Plugin, name: str, data: bytes) -> bool:
        importer: Importer = self.record(plugin, "importer", name)
        try:
            return bool(importer.sniff(data))
        except Exception as err:  # another plugin's sniff must not decide whether this model can be read
            self._warn(f"{plugin.title} failed to look at the model and is passed over: {one_line(err)}")
            return False

    def _no_importer(self, model: Model) -> str:
        from stowplan.planfile.reader import is_plan

        if is_plan(model.data):
            return f"{model.name} is a plan, not a model: stowplan inspect, report and run take it"
        suffixes = sorted({s for _, o in self._offered("importer") for s in o.suffixes})
        wanted = SUFFIXES.get(model.path.suffix.lower(), "")
        for plugin in self.plugins:
            if plugin.state != "ok" and plugin.entry == wanted:
                return f"no importer for {model.name}: {plugin.title} is {plugin.state}: {plugin.reason}"
        if not suffixes:
            remedy = f"Install one: pip install {distribution(wanted or 'importer-tflite')}"
            return f"no importer for {model.name}: none is installed. {remedy}"
        message = f"no importer for {model.name}: known suffixes are {', '.join(suffixes)}."
        fitting = next((o for p, o in self._offered("importer") if self._sniffs(p, o.name, model.data)), None)
        if fitting is not None:
            renamed = model.path.with_suffix(fitting.suffixes[0]).name
            return f"{message} Its content looks like {fitting.name}: rename it to {renamed}."
        near = _close_matches(model.path.suffix.lower(), suffixes, n=1, cutoff=0.5)
        return f"{message} Did you mean {model.path.with_suffix(near[0]).name}?" if near else message

    def _notify(self, plugin: Plugin, name: str, facts: Mapping[str, object]) -> None:
        try:
            manager = _manager()
            manager.register(import_plugin(plugin.module), name=plugin.module)
            manager.hook.stowplan_event(name=name, facts=dict(facts))
        except (Exception, SystemExit) as err:  # an observer has no say in the outcome
            self._warn(f"{plugin.title} failed to observe {name} and is passed over: {one_line(err)}")

    def _warn_skipped(self, plugin: Plugin) -> None:
        self._warn(
            f"plugin {plugin.entry} ({plugin.title}) is skipped: {plugin.reason}. Reinstall it, or silence this with "
            f"STOWPLAN_PLUGINS_BLOCK={plugin.entry}"
        )

    def _warn(self, line: str) -> None:
        if line not in self._told:
            self._told[line] = None
            print(f"Warning: {line}", file=sys.stderr)


@cache
def host() -> Host:
    """Return the host of this process."""
    return Host()


def _manager() -> PluginManager:
    """Return a pluggy manager that knows our hooks. Imported late: a warm `--version` or refusal needs none of it."""
    import pluggy

    from stowplan.plugins import hooks

    manager = pluggy.PluginManager(PROJECT)
    manager.add_hookspecs(hooks)
    for watcher in WATCHERS:
        manager.add_hookcall_monitoring(partial(_told, watcher), lambda *_: None)
    return manager


def _told(
    watcher: Callable[..., None], hook: str, implementations: Sequence[Any], arguments: Mapping[str, Any]
) -> None:
    watcher(hook, tuple(implementation.plugin_name for implementation in implementations), arguments)


def _gather(module: ModuleType, checked: bool = False) -> tuple[Mapping[tuple[str, str], Any], tuple[Offer, ...], bool]:
    """Return a plugin's records by (kind, name), what the index keeps of them, and whether it observes events.

    Each plugin gets a manager of its own: when one hook raises, pluggy names no culprit and asks nobody after it.
    Raises `BrokenPluginError`.
    """
    manager = _manager()
    try:
        manager.register(module, name=module.__name__)
        if checked:
            _check_names(module, manager)
    except (Exception, SystemExit) as err:
        raise err if isinstance(err, BrokenPluginError) else BrokenPluginError(one_line(err)) from err
    records: dict[tuple[str, str], Any] = {}
    offers = []
    for kind in KINDS:
        caller = getattr(manager.hook, f"{PROJECT}_{kind}s")
        if not caller.get_hookimpls():
            continue
        for record in collect(kind, partial(_only_answer, caller)):
            offer = describe(kind, record)
            if (kind, offer.name) in records:
                raise BrokenPluginError(f'it offers the {kind} "{offer.name}" twice')
            records[kind, offer.name] = record
            offers.append(offer)
    observes = bool(manager.hook.stowplan_event.get_hookimpls())
    if checked and not records and not observes:
        raise BrokenPluginError("it implements no hook")
    return records, tuple(offers), observes


def _only_answer(caller: HookCaller) -> Any:
    """Return what the one plugin of a manager answers; pluggy drops a None, which then shows as no answer at all."""
    return next(iter(caller()), None)


def _check_names(module: ModuleType, manager: PluginManager) -> None:
    """Raise `BrokenPluginError` for a marked function whose name is no hook: pluggy would accept and never call it."""
    known = [name for name in vars(manager.hook) if name.startswith(PROJECT + "_")]
    for caller in manager.get_hookcallers(manager.get_plugin(module.__name__)) or ():
        if caller.has_spec() or all(implementation.optionalhook for implementation in caller.get_hookimpls()):
            continue
        near = _close_matches(caller.name, [n for n in known if n != caller.name], n=1)
        raise BrokenPluginError(f"{caller.name} is no hook" + (f"; did you mean {near[0]}?" if near else ""))
    for name, function in vars(module).items():
        if name.startswith(PROJECT + "_") and name in known and not hasattr(function, f"{PROJECT}_impl"):
            raise BrokenPluginError(f"{name} is not marked with @hook, so it would never be called")


def _close_matches(*arguments: Any, **options: Any) -> list[str]:
    """As `difflib.get_close_matches`, which only a message about a wrong name needs to import."""
    import difflib

    return difflib.get_close_matches(*arguments, **options)
