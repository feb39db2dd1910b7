"""Runs the checks without pytest, each in a process that may hang or crash; behind `stowplan plugins check`."""

from __future__ import annotations

import json
import os
import selectors
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import IO, Any

from stowplan.nouns import dataclass
from stowplan.plugins.index import Plugin

CLASSES = {
    "importer": "ImporterConformance", "scheduler": "SchedulerConformance", "compressor": "CompressorConformance",
    "backend": "BackendConformance", "profiler": "ProfilerConformance",
}  # fmt: skip
GRACE_SECONDS = 30.0
"""How much longer than its calls a whole check may take, before its process is ended from outside."""


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """How one check ended: `ok`, `skipped` or `fault`, and why."""

    kind: str
    name: str
    check: str
    state: str
    why: str = ""


def check_plugin(plugin: Plugin, models: Sequence[str], seconds: float) -> Iterator[Verdict]:
    """Yield a verdict for each check of each record that a plugin offers."""
    if plugin.state != "ok":
        why = f"Plugin author: the plugin {plugin.entry} is {plugin.state}: {plugin.reason}."
        yield Verdict(kind="plugin", name=plugin.entry, check="can be loaded", state="fault", why=why)
        return
    for offer in plugin.offers:
        if offer.kind not in CLASSES:
            continue
        told: dict[str, Any] = {"plugin": plugin.entry, "name": offer.name, "seconds": seconds}
        if offer.kind == "importer":
            told["models"] = list(models)
        elif offer.kind == "profiler" and models:
            told["model"] = models[0]
        for check, state, why in _checked(CLASSES[offer.kind], told, seconds):
            yield Verdict(kind=offer.kind, name=offer.name, check=check, state=state, why=why)


def checks_of(cls: type) -> list[str]:
    """Return the names of a class's checks, in the order in which they are written, the general ones first."""
    found: dict[str, None] = {}
    for base in reversed(cls.__mro__):
        found.update(dict.fromkeys(name for name in vars(base) if name.startswith("test_")))
    return list(found)


def words(check: str) -> str:
    return check.removeprefix("test_").replace("_", " ")


def _checked(cls: str, told: Mapping[str, Any], seconds: float) -> Iterator[tuple[str, str, str]]:
    import stowplan.testing as kit

    waiting = [name for name in checks_of(getattr(kit, cls)) if name != "test_no_check_is_waived_without_a_reason"]
    while waiting:
        for check, state, why in _in_child(cls, told, tuple(waiting), seconds):
            waiting.remove(check)
            yield words(check), state, why


def _in_child(
    cls: str, told: Mapping[str, Any], checks: Sequence[str], seconds: float
) -> Iterator[tuple[str, str, str]]:
    """Run checks in one process until it ends, hangs or dies; the check that it died in is the last one yielded."""
    asked = json.dumps({"cls": cls, "settings": dict(told), "checks": list(checks)})
    command = [sys.executable, "-m", "stowplan.testing.child", asked]
    with subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as child:
        assert child.stdout is not None
        lines, running = _lines(child.stdout, 10 * seconds + GRACE_SECONDS), checks[0]
        done: set[str] = set()
        for line in lines:
            if line is None:
                child.kill()
                yield running, "fault", "Plugin author: it hangs where nothing can interrupt it; its process was ended."
                return
            said = json.loads(line)
            if said["state"] == "begins":
                running = said["check"]
                continue
            done.add(running)
            yield running, said["state"], said["why"]
    if done != set(checks):
        running = next(check for check in checks if check not in done)
        how = f"signal {-child.returncode}" if child.returncode < 0 else f"exit code {child.returncode}"
        yield (
            running,
            "fault",
            f"Plugin author: the process ended in the middle ({how}). Never leave it, and never crash it.",
        )


def _lines(stream: IO[bytes], patience: float) -> Iterator[str | None]:
    """Yield lines as they come; None when none has come for `patience` seconds."""
    if os.name == "nt":  # pipes cannot be waited for there: no limit from outside
        for line in stream:
            yield line.decode()
        return
    buffer = b""
    with selectors.DefaultSelector() as selector:
        selector.register(stream, selectors.EVENT_READ)
        until = time.monotonic() + patience
        while True:
            if not selector.select(max(until - time.monotonic(), 0)):
                yield None
                return
            data = os.read(stream.fileno(), 65536)
            if not data:
                return
            *whole, buffer = (buffer + data).split(b"\n")
            for line in whole:
                yield line.decode()
            until = time.monotonic() + patience
