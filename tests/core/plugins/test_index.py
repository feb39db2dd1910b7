"""The index of a warm start: what it spares, and when it must not be believed."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest


def loaded(site, code: str = "list(h.schedulers())", **environment: str) -> set[str]:
    """Return the modules in a process after some work with the host."""
    done = site.ask(f"{code}\nprint('MODULES', *sys.modules)", **environment)
    assert done.code == 0, done.err
    return set(done.out.rpartition("MODULES")[2].split())


def timeless(index: Path) -> dict[str, object]:
    """Return an index without how long plugins took to load."""
    document: dict[str, object] = json.loads(index.read_bytes())
    for plugin in document["plugins"]:
        assert plugin.pop("load_us") >= 0
    return document


def test_a_warm_start_knows_all_names_and_imports_no_plugin(site, scheduler_source, bundled) -> None:
    site.install("acme-plugin", scheduler_source())
    cold = loaded(site)
    assert {"acme_plugin", "pluggy", "importlib.metadata"} <= cold
    warm = loaded(site)
    assert not [name for name in warm if name.startswith("stowplan_") or name == "acme_plugin"]
    assert not warm & {"pluggy", "importlib.metadata", "numpy"}


def test_a_warm_start_imports_just_the_plugin_that_is_used(site, scheduler_source, bundled) -> None:
    site.install("acme-plugin", scheduler_source())
    site.install("zeta-plugin", scheduler_source("zeta"))
    loaded(site)
    warm = loaded(site, "h.schedulers()['acme']")
    assert "acme_plugin" in warm
    assert not [name for name in warm if name.startswith("stowplan_") or name == "zeta_plugin"]


def test_installing_and_removing_are_noticed(site, scheduler_source) -> None:
    site.install("one-plugin", scheduler_source("one"))
    assert "one" in site.ask("print(list(h.schedulers()))").out
    site.install("two-plugin", scheduler_source("two"))
    assert "two" in site.ask("print(list(h.schedulers()))").out
    for file in (site.folder / "one_plugin-1.0.dist-info").iterdir():
        file.unlink()
    (site.folder / "one_plugin-1.0.dist-info").rmdir()
    assert "one" not in site.ask("print(list(h.schedulers()))").out


def test_editing_a_plugin_is_noticed(site, scheduler_source) -> None:
    path = site.install("one-plugin", scheduler_source("one"))
    assert "one" in site.ask("print(list(h.schedulers()))").out
    path.write_text(scheduler_source("another"))
    assert "another" in site.ask("print(list(h.schedulers()))").out


def test_mending_any_file_of_a_broken_plugin_is_noticed(site, scheduler_source) -> None:
    path = site.install("one-plugin", "from one_plugin.inner import *")
    inner = path.parent / "inner.py"
    inner.write_text("raise ValueError")
    assert "is skipped" in site.ask("h.plugins").err
    inner.write_text(scheduler_source("one"))
    assert site.ask("print('one' in h.schedulers())") == (0, "True\n", "")


@pytest.mark.parametrize(
    "content",
    [b"", b"{}", b"[]", b"\xff", b"[" * 100000, b'{"schema": 1}', b'{"schema": 1, "folders": 3}'],
)
def test_a_damaged_index_is_made_again(site, scheduler_source, content: bytes) -> None:
    site.install("one-plugin", scheduler_source("one"))
    site.ask("h.plugins")
    (index,) = site.cache.glob("plugins-*.json")
    good = timeless(index)
    index.write_bytes(content)
    assert site.ask("print('one' in h.schedulers())") == (0, "True\n", "")
    assert timeless(index) == good


@pytest.mark.parametrize("damage", [{"offers": 7}, {"stamps": [["x"]]}, {"surprise": 1}])
def test_an_index_with_other_fields_is_made_again(site, scheduler_source, damage: dict[str, object]) -> None:
    site.install("one-plugin", scheduler_source("one"))
    site.ask("h.plugins")
    (index,) = site.cache.glob("plugins-*.json")
    document = json.loads(index.read_bytes())
    document["plugins"][0].update(damage)
    index.write_text(json.dumps(document))
    assert site.ask("print('one' in h.schedulers())") == (0, "True\n", "")


def test_a_plugin_that_no_longer_offers_what_the_index_says_is_an_error_in_one_line(site, scheduler_source) -> None:
    path = site.install("one-plugin", scheduler_source("one"))
    site.ask("h.plugins")
    times = path.stat()
    path.write_text(scheduler_source("two"))
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    shutil.rmtree(path.parent / "__pycache__", ignore_errors=True)  # its byte code would be taken for current as well
    done = site.ask("h.schedulers()['one']")
    assert 'PluginError: one-plugin 1.0 no longer offers the scheduler "one"' in done.err


def test_a_cache_that_cannot_be_written_only_makes_starts_slower(site, scheduler_source, tmp_path: Path) -> None:
    site.install("one-plugin", scheduler_source("one"))
    blocked = tmp_path / "file"
    blocked.write_text("not a folder")
    done = site.ask("print('one' in h.schedulers())", STOWPLAN_CACHE_DIR=str(blocked / "cache"))
    assert done == (0, "True\n", "")


def test_different_selections_do_not_evict_each_other(site, scheduler_source) -> None:
    site.install("one-plugin", scheduler_source("one"))
    site.ask("h.plugins")
    site.ask("h.plugins", STOWPLAN_PLUGINS="one-plugin")
    assert len(list(site.cache.glob("plugins-*.json"))) == 2
    assert "one_plugin" not in loaded(site)


def test_indices_of_environments_long_gone_are_forgotten(site, scheduler_source) -> None:
    site.install("one-plugin", scheduler_source("one"))
    for number in range(20):
        (site.cache / f"plugins-{number:016x}.json").write_text("{}")
        os.utime(site.cache / f"plugins-{number:016x}.json", (number, number))
    site.ask("h.plugins")
    kept = sorted(site.cache.glob("plugins-*.json"))
    assert len(kept) == 16
    assert f"plugins-{3:016x}.json" not in [path.name for path in kept]
