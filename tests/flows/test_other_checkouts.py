"""The same command in another checkout: answered as lightly as where nothing changed, and as carefully."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from cache_commands import Bench
from cache_entries import flipped
from cache_models import small_model

COMPILE = ("compile", "m.tflite", "-m", "4K", "-o", "m.stow", "--json")
SETTLED_SECONDS = 2.1  # files younger than that are not trusted to show their next change


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    """A checkout where the model was compiled, and now the same model in another one."""
    made = Bench(tmp_path)
    made.install()
    move(made, "first")
    time.sleep(SETTLED_SECONDS)
    made.done(*asked(), PYTHONDONTWRITEBYTECODE="1")  # byte code would move the time of the plugin's folder
    move(made, "second")
    return made


def asked(*more: str) -> tuple[str, ...]:
    return (*COMPILE, "--scheduler", "acme", *more)


def move(bench: Bench, name: str, seed: int = 0) -> None:
    bench.work = bench.root / name
    bench.work.mkdir(exist_ok=True)
    bench.model(small_model(seed))


def is_light(bench: Bench, status: str) -> bool:
    """Run the command in the bench's folder; say whether it was answered before plugins were looked at."""
    code = (
        f"import sys\nfrom stowplan.cli.entry import main\ncode = main({list(asked())!r})\n"
        "print('MODULES', *sorted(sys.modules), file=sys.stderr)\nsys.exit(code)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=bench.work, env=bench.environment({})
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["cache"]["status"] == status
    loaded = done.stderr.rpartition("MODULES")[2].split()
    return not {"argparse", "pluggy", "numpy", "stowplan.plugins.host", "stowplan.cli.compile_command"} & set(loaded)


def test_another_checkout_is_answered_before_anything_heavy_is_imported(bench: Bench) -> None:
    assert is_light(bench, "hit")
    data = (bench.work / "m.stow").read_bytes()
    assert data == (bench.root / "first" / "m.stow").read_bytes()
    assert is_light(bench, "unchanged"), "from now on it has a note of its own"
    bench.done(*asked(), "--no-cache")
    assert (bench.work / "m.stow").read_bytes() == data


def test_what_another_checkout_was_made_from_can_be_explained(bench: Bench) -> None:
    assert is_light(bench, "hit")
    out = bench.done("cache", "explain", "m.stow").out
    assert "nothing is known of an earlier build" in out
    reasons = bench.done(*asked("--keep-names"), "--explain").json["reasons"]
    assert reasons == ["options.keep_names: false -> true"]


def test_an_output_made_from_something_else_before_takes_the_way_that_explains_it(bench: Bench) -> None:
    bench.done(*asked("--keep-names"))
    assert not is_light(bench, "hit")
    assert "options.keep_names: true -> false" in bench.done("cache", "explain", "m.stow").out


def test_another_model_in_another_checkout_is_compiled(bench: Bench) -> None:
    move(bench, "third", seed=1)
    assert not is_light(bench, "miss")
    bench.done("compile", "m.tflite", "-m", "4K", "-o", "n.stow", "--scheduler", "acme", "--no-cache")
    assert (bench.work / "m.stow").read_bytes() == (bench.work / "n.stow").read_bytes()


def test_an_edited_plugin_is_seen_from_every_checkout(bench: Bench) -> None:
    bench.install(note="edited")
    assert not is_light(bench, "miss")


@pytest.mark.parametrize("name", ["acme_plugin.py", "stowplan_scheduler_greedy"])
def test_a_module_in_the_working_folder_that_hides_a_tool_takes_the_long_way(bench: Bench, name: str) -> None:
    path = bench.work / name
    if path.suffix:
        path.write_text((bench.site / "acme_plugin" / "__init__.py").read_text())
    else:
        shutil.copytree(Path(__file__).parents[2] / "plugins/scheduler-greedy/src" / name, path)
    assert not is_light(bench, "miss" if path.suffix else "hit")


def test_a_damaged_or_replaced_result_is_not_restored(bench: Bench) -> None:
    """The note says what was written, the record what holds now."""
    data = (bench.root / "first" / "m.stow").read_bytes()
    record = next(p for p in (bench.store / "records").rglob("*") if p.is_file() and b'"plan.stow"' in p.read_bytes())
    kept = record.read_bytes()
    flipped(next(p for p in (bench.store / "objects").rglob("*") if p.is_file() and p.read_bytes() == data), 5000)
    outcome = bench.run(*asked())
    assert (outcome.code, outcome.status) == (0, "miss")
    assert "is damaged" in outcome.err and outcome.err.count("\n") == 1
    assert (bench.work / "m.stow").read_bytes() == data
    (bench.work / "m.stow").unlink()
    record.unlink()
    assert not is_light(bench, "miss")
    assert record.read_bytes() != kept, "made again, at another time"


def test_a_compiler_named_by_a_relative_path_is_another_one_elsewhere(bench: Bench) -> None:
    for folder in ("first", "second"):
        bench.work = bench.root / folder
        (bench.work / "cc").write_text('#!/bin/sh\nexec cc "$@"\n')
        (bench.work / "cc").chmod(0o755)
    time.sleep(SETTLED_SECONDS)
    bench.work = bench.root / "first"
    before = set((bench.store / "warm").iterdir())
    bench.done(*asked(), CC="./cc", PYTHONDONTWRITEBYTECODE="1")
    new = [path.name for path in set((bench.store / "warm").iterdir()) - before]
    assert new and not [name for name in new if name.startswith("anywhere-")], "a note for this folder only"
