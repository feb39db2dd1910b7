"""What every plugin has to hold, whatever its kind: the base of the conformance classes.

A plugin's tests derive a class from that of its kind and name the entry point; pytest finds the checks by itself:

    from stowplan.testing import CompressorConformance

    class TestAcme(CompressorConformance):
        plugin = "compressor-acme"

Capabilities are class attributes called `supports_...`: None takes the plugin's word (what it refuses is skipped), True
insists, False insists on a refusal. A check that a plugin cannot pass is waived by overriding it under
`@pytest.mark.xfail(reason=...)`, and in no other way. Nothing here needs pytest.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from functools import cached_property
from typing import Any, ClassVar, TypeVar

from stowplan.plugins import kinds
from stowplan.plugins.loading import METHODS
from stowplan.testing import fresh, waivers
from stowplan.testing.faults import Fault, skip
from stowplan.testing.plugin import ask, find, record_of

Answer = TypeVar("Answer")
LONGEST_SUMMARY = 120


class Conformance:
    """The checks of all kinds. `plugin` is the entry point, `name` the record's name where there are several."""

    plugin: str = ""
    name: str = ""
    seconds: float = 60.0
    """What one call of the plugin may take."""
    kind: ClassVar[str] = ""

    @cached_property
    def record(self) -> Any:
        return record_of(self.plugin, self.kind, self.name)

    def ask(
        self, what: str, function: Callable[..., Answer], *arguments: Any, allow: tuple[type[Exception], ...] = ()
    ) -> Answer:
        """Call the plugin; see `stowplan.testing.plugin.ask`."""
        return ask(f"{self.kind} {what}", function, *arguments, seconds=self.seconds, allow=allow)

    def answers(self) -> Iterator[str]:
        """Yield what the plugin makes of the kit's samples, as words: the same in every process."""
        yield from ()

    def settings(self) -> dict[str, Any]:
        """Return what the class was told, for a process of its own."""
        names = [name for name in dir(type(self)) if name in waivers.settings(type(self))]
        return {name: getattr(self, name) for name in names}

    # Checks of all kinds.

    def test_is_found_by_its_entry_point(self) -> None:
        assert self.record.name

    def test_imports_nothing_heavy(self) -> None:
        _, plugin = find(self.plugin)
        found = fresh.foreign_imports(plugin.module)
        if found:
            raise Fault(
                f"importing {plugin.module} also imports {', '.join(found)}. Every command imports it to see what is "
                "installed: move these imports into the methods that need them."
            )

    def test_leaves_the_process_alone(self) -> None:
        _, plugin = find(self.plugin)
        changed = fresh.changes_by_import(plugin.module)
        if changed:
            raise Fault(f"importing {plugin.module} changes {', '.join(changed)}. A plugin is a guest in its process.")

    def test_has_a_summary(self) -> None:
        text = self.ask("summary", lambda: self.record.summary)
        if not isinstance(text, str) or not text.strip() or "\n" in text or len(text) > LONGEST_SUMMARY:
            raise Fault(
                f"the summary of {self.kind} {self.record.name} is {text!r:.200}. Write one line of at most "
                f"{LONGEST_SUMMARY} characters for `stowplan plugins list`."
            )

    def test_has_the_signatures_of_its_kind(self) -> None:
        for method in METHODS[self.kind]:
            check_signature(self.kind, method, getattr(self.record, method))

    def test_states_its_version(self) -> None:
        contract = getattr(kinds, self.kind.capitalize())
        if not hasattr(contract, "version"):
            skip(f"{self.kind}s need no version of their own")
        found = self.ask("version", lambda: self.record.version)
        if not isinstance(found, str) or not found.strip():
            raise Fault(
                f"the version of {self.kind} {self.record.name} is {found!r}. Write a string: it is in cache keys."
            )
        again = self.ask("version", lambda: self.record.version)
        if found != again:
            raise Fault(
                f"the version of {self.kind} {self.record.name} is {found!r} and then {again!r}. It is in cache keys."
            )

    def test_answers_the_same_in_a_fresh_process(self) -> None:
        here = list(self.answers())
        if not here:
            skip("nothing was asked that a second process could be asked as well")
        for seed in ("1", "2"):
            there = fresh.answers(type(self).__mro__, self.settings(), seed, self.seconds)
            for mine, others in zip(here, there, strict=True):
                if mine != others:
                    raise Fault(
                        f"{self.kind} {self.record.name} answers {others} in a fresh process and {mine} here. Do not "
                        "depend on hash(), the order of sets, the time, or what was asked before."
                    )

    def test_no_check_is_waived_without_a_reason(self) -> None:
        for complaint in waivers.complaints(type(self)):
            raise Fault(complaint)


def check_signature(kind: str, method: str, function: Callable[..., Any]) -> None:
    """Raise `Fault` when a record's method cannot be called as the contract says."""
    wanted = inspect.signature(getattr(getattr(kinds, kind.capitalize()), method))
    parameters = list(wanted.parameters.values())[1:]
    shown = f"{method}({', '.join(p.name for p in parameters)})"
    if inspect.iscoroutinefunction(function):
        raise Fault(f"{kind} {method} is asynchronous. Write a plain function.")
    try:
        found = inspect.signature(function)
        found.bind(*[p.name for p in parameters])
        found.bind(
            *[p.name for p in parameters if p.default is p.empty],
            **{p.name: p.default for p in parameters if p.default is not p.empty},
        )
        found.bind(*[p.name for p in parameters if p.default is p.empty])
    except (TypeError, ValueError):
        raise Fault(
            f"{kind} {method}{inspect.signature(function)} cannot be called as {shown}. Take the arguments that "
            f"stowplan.plugins.kinds.{kind.capitalize()}.{method} has, with the same names and defaults."
        ) from None
