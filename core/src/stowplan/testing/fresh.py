"""What can only be seen in a process of its own: imports, side effects, and whether answers repeat."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

from stowplan.testing.faults import Fault

IMPORTS = """
import json, sys
from stowplan.plugins.loading import import_plugin
import stowplan.plugins.hooks, stowplan.plugins.kinds
before = set(sys.modules)
module = import_plugin(sys.argv[1])
offering = [f for name, f in vars(module).items() if hasattr(f, "stowplan_impl") and name != "stowplan_event"]
offered = [list(f()) for f in offering]  # what a record's version needs is imported only where plugins are scanned
own = sys.argv[1].partition(".")[0]
names = {name.partition(".")[0] for name in set(sys.modules) - before}
names -= {own, "stowplan", *sys.stdlib_module_names}
files = {name for name in names if getattr(sys.modules[name], "__file__", None)}
print("\\n" + json.dumps(sorted(files)))
"""
CHANGES = """
import contextlib, io, json, locale, os, signal, sys, threading, warnings
from stowplan.plugins.host import _gather
from stowplan.plugins.loading import import_plugin
import pluggy, stowplan.plugins.kinds
def state():
    numbers = [n for n in signal.valid_signals()]
    return {
        "os.environ": dict(os.environ), "the working folder": os.getcwd(), "sys.path": list(sys.path),
        "the warning filters": list(map(str, warnings.filters)), "the locale": locale.setlocale(locale.LC_ALL),
        "signal handlers": [str(signal.getsignal(n)) for n in numbers], "the recursion limit": sys.getrecursionlimit(),
        "sys.excepthook": sys.excepthook is sys.__excepthook__, "the threads": threading.active_count(),
        "standard output (it prints)": printed.getvalue(),
    }
printed = io.StringIO()
with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
    before = state()
    _gather(import_plugin(sys.argv[1]))
    after = state()
print("\\n" + json.dumps([name for name in before if before[name] != after[name]]))
"""
ANSWERS = """
import json, sys
import stowplan.testing as kit
asked = json.loads(sys.argv[1])
cls = type("Asked", (getattr(kit, asked["base"]),), asked["settings"])
print("\\n" + json.dumps(list(cls().answers())))
"""
IMPORT_SECONDS = 120.0


def foreign_imports(module: str) -> list[str]:
    """Return the packages that importing a plugin's module loads, beside the standard library, ours and its own."""
    return list(_ask("its import", IMPORTS, module, IMPORT_SECONDS))


def changes_by_import(module: str) -> list[str]:
    """Return what importing a plugin's module does to the process, in words."""
    return list(_ask("its import", CHANGES, module, IMPORT_SECONDS))


def answers(bases: Sequence[type], settings: dict[str, Any], seed: str, seconds: float) -> list[str]:
    """Return what the same questions are answered with in another process, under another order of hashes."""
    base = next(cls.__name__ for cls in bases if cls.__module__.startswith("stowplan.testing."))
    asked = json.dumps({"base": base, "settings": settings})
    return list(_ask("a fresh process", ANSWERS, asked, IMPORT_SECONDS + 10 * seconds, PYTHONHASHSEED=seed))


def _ask(what: str, code: str, argument: str, seconds: float, **environment: str) -> Any:
    command = [sys.executable, "-c", code, argument]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=seconds, check=False, stdin=subprocess.DEVNULL,
            env={**os.environ, **environment},
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise Fault(f"{what} did not end within {seconds:g} s. Bound your loops, and never wait for input.") from None
    if done.returncode:
        last = (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]
        raise Fault(f"{what} failed: {last[:300]}.")
    return json.loads(done.stdout.strip().splitlines()[-1])
