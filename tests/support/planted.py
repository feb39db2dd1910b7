"""Plugins with a mistake in them: packages as `plugins new` writes them, changed in one place."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest

import stowplan.testing as kit
from stowplan.plugins.scaffold import KINDS, package
from stowplan.testing.run import CLASSES

_NUMBERS = itertools.count()


class Planted:
    """Installs changed templates into a folder like site-packages, for this process and those that it starts."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder = folder / "site"
        self.folder.mkdir()
        self.models = folder / "models"
        monkeypatch.syspath_prepend(str(self.folder))
        monkeypatch.setenv("PYTHONPATH", str(self.folder))
        monkeypatch.setenv("STOWPLAN_CACHE_DIR", str(folder / "cache"))
        (folder / "cache").mkdir()

    def plugin(self, kind: str, *changes: tuple[str, str], top: str = "") -> str:
        """Install a plugin with `changes` (old text, new text) and lines at the top; return its entry point's name."""
        name = f"planted{next(_NUMBERS)}"  # modules of one process: each needs a name of its own
        files = {path: data.decode() for path, data in package(kind, name).items()}
        source = f"stowplan_{kind}_{name}"
        left = [(old.replace("NAME", name), new.replace("NAME", name)) for old, new in changes]
        for path in (f"src/{source}/{KINDS[kind].work}.py", f"src/{source}/__init__.py"):
            for change in list(left):
                if files[path].count(change[0]) == 1:
                    files[path] = files[path].replace(*change)
                    left.remove(change)
            if path.endswith("__init__.py"):
                files[path] = files[path].replace("STOWPLAN_CONTRACT", f"{top}\nSTOWPLAN_CONTRACT", 1)
        assert not left, f"not in the template: {left}"
        for path, text in files.items():
            if path.startswith("src/"):
                self.write(path.removeprefix("src/"), text)
        self.models.mkdir(exist_ok=True)
        if kind == "importer":
            (self.models / f"example.{name}").write_text(files[f"tests/models/example.{name}"])
        info = f"stowplan_{kind}_{name}-0.1.0.dist-info"
        self.write(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: stowplan-{kind}-{name}\nVersion: 0.1.0\n")
        self.write(f"{info}/entry_points.txt", f"[stowplan]\n{kind}-{name} = {source}\n")
        return f"{kind}-{name}"

    def write(self, path: str, text: str) -> None:
        (self.folder / path).parent.mkdir(parents=True, exist_ok=True)
        (self.folder / path).write_text(text)

    def kit(self, entry: str, seconds: float = 20.0, **settings: Any) -> Any:
        """Return the kit's class for a plugin, ready to be asked."""
        kind, _, name = entry.partition("-")
        told = {"plugin": entry, "seconds": seconds, **settings}
        if kind == "importer":
            told["models"] = (str(self.models / f"*.{name}"),)
        if kind == "profiler":
            told["backend"] = "c"
        return type("Asked", (getattr(kit, CLASSES[kind]),), told)()
