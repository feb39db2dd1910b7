"""A folder like site-packages that tests install tiny but real plugins into, and processes that see it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

from stowplan.plugins.known import BUNDLED


class Outcome(NamedTuple):
    """What a process returned and printed."""

    code: int
    out: str
    err: str


class Site:
    """Installs plugins by writing what an installer writes: the module and a dist-info folder with entry points."""

    def __init__(self, root: Path) -> None:
        self.folder = root / "site"
        self.cache = root / "cache"
        self.work = root / "work"
        for folder in (self.folder, self.cache, self.work):
            folder.mkdir()

    def install(self, name: str, source: str, *, version: str = "1.0", entry: str = "", module: str = "") -> Path:
        module = module or name.replace("-", "_")
        path = self.folder / module / "__init__.py"
        path.parent.mkdir(exist_ok=True)
        path.write_text(source)
        self.declare(name, f"{entry or name} = {module}", version)
        return path

    def declare(self, name: str, entries: str, version: str = "1.0") -> None:
        info = self.folder / f"{name.replace('-', '_')}-{version}.dist-info"
        info.mkdir(exist_ok=True)
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
        (info / "entry_points.txt").write_text(f"[stowplan]\n{entries}\n")

    def run(self, *arguments: str, **environment: str) -> Outcome:
        """Run `python` with these arguments; plugins of this site are installed in it."""
        variables = {**os.environ, "PYTHONPATH": str(self.folder), "STOWPLAN_CACHE_DIR": str(self.cache), **environment}
        done = subprocess.run(
            [sys.executable, *arguments],
            capture_output=True, text=True, cwd=self.work, env=variables, timeout=60, check=False,
        )  # fmt: skip
        return Outcome(done.returncode, done.stdout, done.stderr)

    def stowplan(self, *arguments: object, **environment: str) -> Outcome:
        return self.run("-m", "stowplan", *map(str, arguments), **environment)

    def ask(self, code: str, **environment: str) -> Outcome:
        """Run code in which `h` is the plugin host."""
        return self.run("-c", f"import sys\nfrom stowplan.plugins.host import host\nh = host()\n{code}", **environment)


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Site:
    for variable in ("STOWPLAN_PLUGINS", "STOWPLAN_PLUGINS_BLOCK"):
        monkeypatch.delenv(variable, raising=False)
    return Site(tmp_path)


@pytest.fixture
def bundled() -> None:
    """Skip where the bundled plugins are importable but not installed."""
    from importlib.metadata import entry_points

    missing = BUNDLED - {point.name for point in entry_points(group="stowplan")}
    if missing:
        pytest.skip(f"not installed here: {', '.join(sorted(missing))}; run pip install -e .")


SCHEDULER = """
from stowplan.plugins.hooks import hook

class Scheduler:
    name = "{name}"
    summary = "made for a test"
    version = "7"
    def schedule(self, graph, target, options):
        raise NotImplementedError

@hook
def stowplan_schedulers():
    return [Scheduler()]
"""


@pytest.fixture
def scheduler_source():
    """Return the source of a plugin that offers one scheduler."""
    return lambda name="acme": SCHEDULER.format(name=name)
