"""Commands in processes of their own, each with a cache folder that a test gives; and plugins installed for a test."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from stowplan.cache.directory import cache_directory

SCHEDULER = '''
"""The greedy scheduler under another name: {note}"""
import warnings
from dataclasses import replace
from stowplan.plugins.hooks import hook

class Scheduler:
    name = "acme"
    summary = "made for a test"
    version = "{version}"
    def schedule(self, graph, target, options):
        {before}
        from stowplan_scheduler_greedy import GreedyScheduler
        return GreedyScheduler().schedule(graph, target, options)

@hook
def stowplan_schedulers():
    return [Scheduler()]
'''


class Outcome(NamedTuple):
    """What a command returned and printed."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> dict[str, Any]:
        document: dict[str, Any] = json.loads(self.out)
        return document

    @property
    def status(self) -> str:
        status: str = self.json["cache"]["status"]
        return status


class Bench:
    """A working folder, a cache and a folder of plugins."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.cache = root / "cache"
        self.site = root / "site"
        self.work = root / "work"
        for folder in (self.cache, self.work):
            folder.mkdir(mode=0o700)
        # The C libraries are this user's: each test would otherwise wait for its own to be compiled.
        native = cache_directory() / "native"
        native.mkdir(mode=0o700, exist_ok=True)
        (self.cache / "native").symlink_to(native)

    @property
    def store(self) -> Path:
        return self.cache / "store" / "v1"

    def environment(self, more: Mapping[str, str]) -> dict[str, str]:
        own = {name: value for name, value in os.environ.items() if not name.startswith("STOWPLAN_")}
        # Only where there is something in it: a search path that is new by itself keeps notes from being left.
        site = [str(self.site)] if self.site.exists() else []
        path = os.pathsep.join(filter(None, [*site, own.get("PYTHONPATH", "")]))
        return {**own, "STOWPLAN_CACHE_DIR": str(self.cache), "PYTHONPATH": path, **more}

    def start(self, *arguments: object, **more: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-m", "stowplan", *map(str, arguments)],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=self.work, env=self.environment(more),
        )  # fmt: skip

    def run(self, *arguments: object, **more: str) -> Outcome:
        process = self.start(*arguments, **more)
        out, err = process.communicate(timeout=120)
        return Outcome(process.returncode, out, err)

    def done(self, *arguments: object, **more: str) -> Outcome:
        """Run a command that has to succeed and to have nothing to complain about."""
        outcome = self.run(*arguments, **more)
        assert (outcome.code, outcome.err) == (0, ""), outcome.out + outcome.err
        return outcome

    def model(self, data: bytes, name: str = "m.tflite") -> Path:
        path = self.work / name
        path.parent.mkdir(parents=True, exist_ok=True)
        new = path.with_name(f"{path.name}.new")
        new.write_bytes(data)
        return new.replace(path)  # at once: a watcher must not find half of it

    def install(self, version: str = "1", *, note: str = "one", before: str = "pass", release: str = "1.0") -> None:
        """Install a plugin with a scheduler `acme`, or another release of it."""
        module = self.site / "acme_plugin" / "__init__.py"
        module.parent.mkdir(parents=True, exist_ok=True)
        module.write_text(SCHEDULER.format(version=version, note=note, before=before))
        for old in self.site.glob("*.dist-info"):
            for file in old.iterdir():
                file.unlink()
            old.rmdir()
        info = self.site / f"acme_plugin-{release}.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: acme-plugin\nVersion: {release}\n")
        (info / "entry_points.txt").write_text("[stowplan]\nscheduler-acme = acme_plugin\n")
