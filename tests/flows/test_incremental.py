"""The cache as users meet it: what is unchanged is free, what changed is named, and no damage reaches a result."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from cache_commands import Bench
from cache_entries import flipped, stored_files, truncated
from cache_models import small_model

HEAVY = ("pluggy", "numpy", "rich", "importlib.metadata", "diskcache", "sqlite3", "argparse", "json", "typing", "re",
         "dataclasses", "pathlib", "stowplan.plugins.host", "stowplan.build.pipeline")  # fmt: skip
COMPILE = ("compile", "m.tflite", "-m", "4K", "-o", "m.stow", "--json")


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    made = Bench(tmp_path)
    made.model(small_model())
    return made


@pytest.fixture
def plain(bench: Bench) -> bytes:
    """The plan that a compilation without any cache gives."""
    bench.done(*COMPILE, "--no-cache")
    data = (bench.work / "m.stow").read_bytes()
    (bench.work / "m.stow").unlink()
    return data


def test_with_and_without_a_cache_the_plan_and_the_report_are_the_same(bench: Bench, plain: bytes) -> None:
    for _ in range(3):
        bench.done(*COMPILE)
        assert (bench.work / "m.stow").read_bytes() == plain
    text = bench.done("compile", "m.tflite", "-m", "4K", "-o", "n.stow").out
    assert text == bench.done("compile", "m.tflite", "-m", "4K", "-o", "n.stow", "--no-cache").out


def test_the_same_command_again_keeps_the_file_and_says_so(bench: Bench) -> None:
    assert bench.done(*COMPILE).status == "miss"
    before = (bench.work / "m.stow").stat()
    assert bench.done(*COMPILE).status == "unchanged"
    after = (bench.work / "m.stow").stat()
    assert (before.st_ino, before.st_mtime_ns) == (after.st_ino, after.st_mtime_ns)
    first = bench.done("compile", "m.tflite", "-m", "4K", "-o", "m.stow")
    again = bench.done("compile", "m.tflite", "-m", "4K", "-o", "m.stow")
    assert first.out.splitlines()[-1].startswith("wrote m.stow")
    assert again.out.splitlines()[-1] == first.out.splitlines()[-1].replace("wrote", "kept") + ", nothing has changed"
    assert again.out.splitlines()[:-1] == first.out.splitlines()[:-1], "the report is replayed"


def test_nothing_changed_is_decided_before_anything_heavy_is_imported(bench: Bench) -> None:
    bench.done(*COMPILE)
    code = (
        "import sys\nfrom stowplan.cli.entry import main\n"
        f"code = main({list(COMPILE)!r})\n"
        "print('\\nMODULES', *sorted(sys.modules), file=sys.stderr)\nsys.exit(code)"
    )
    # Twice: the search path is another one than before, so the first is answered by the note for any folder.
    for _ in range(2):
        done = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, cwd=bench.work, env=bench.environment({})
        )
        assert done.returncode == 0
        assert json.loads(done.stdout)["cache"]["status"] == "unchanged"
    loaded = set(done.stderr.rpartition("MODULES")[2].split())
    before = subprocess.run([sys.executable, "-c", "import sys; print(*sys.modules)"], capture_output=True, text=True)
    assert not (loaded - set(before.stdout.split())) & set(HEAVY)
    assert not [name for name in loaded if name.startswith("stowplan_")]


def test_a_touch_changes_nothing(bench: Bench) -> None:
    bench.done(*COMPILE)
    os.utime(bench.work / "m.tflite")
    assert bench.done(*COMPILE).status == "unchanged"
    shutil.copy(bench.work / "m.tflite", bench.work / "copy")
    os.replace(bench.work / "copy", bench.work / "m.tflite")
    assert bench.done(*COMPILE).status == "unchanged", "another inode, the same bytes"


def test_an_edit_within_the_same_tick_and_of_the_same_size_is_seen(bench: Bench) -> None:
    """The times of the second version are set to those of the first."""
    bench.done(*COMPILE)
    path = bench.work / "m.tflite"
    before = path.stat()
    path.write_bytes(small_model(seed=9))
    assert path.stat().st_size == before.st_size
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert bench.done(*COMPILE).status == "miss"


def test_a_file_that_did_not_move_is_not_read(bench: Bench) -> None:
    """Once its times are old enough the model is not opened: it may even be unreadable."""
    if os.geteuid() == 0 and not shutil.which("strace"):
        pytest.skip("root reads everything, and there is no strace to watch")
    bench.done(*COMPILE)
    time.sleep(2.1)
    assert bench.done(*COMPILE).status == "unchanged", "compares by content, and learns that the times are old enough"
    if os.geteuid() != 0:
        (bench.work / "m.tflite").chmod(0)
        assert bench.done(*COMPILE).status == "unchanged"
        return
    trace = bench.root / "trace"
    command = ["strace", "-f", "-e", "trace=open,openat", "-o", str(trace), sys.executable, "-m", "stowplan", *COMPILE]
    subprocess.run(command, cwd=bench.work, env=bench.environment({}), check=True, capture_output=True)
    assert "m.tflite" not in trace.read_text()


@pytest.mark.parametrize("harm", ["removed", "changed", "truncated"])
def test_an_output_that_is_gone_or_another_one_is_restored(bench: Bench, plain: bytes, harm: str) -> None:
    bench.done(*COMPILE)
    path = bench.work / "m.stow"
    if harm == "removed":
        path.unlink()
    else:
        path.write_bytes(plain[:-1] + b"?" if harm == "changed" else plain[:100])
    assert bench.done(*COMPILE).status == "hit"
    assert path.read_bytes() == plain


def test_renamed_tensors_and_doc_strings_do_not_recompile(bench: Bench) -> None:
    bench.done(*COMPILE)
    bench.model(small_model(names="other/", description="something else"))
    found = bench.done(*COMPILE).json
    assert found["cache"]["layer"] == "graph"
    bench.done("compile", "m.tflite", "-m", "4K", "-o", "plain.stow", "--no-cache")
    assert (bench.work / "m.stow").read_bytes() == (bench.work / "plain.stow").read_bytes()


def test_another_name_of_the_file_shares_the_schedule_and_keeps_its_own_name(bench: Bench) -> None:
    bench.done(*COMPILE)
    bench.model(small_model(), "other.tflite")
    found = bench.done("compile", "other.tflite", "-m", "4K", "--json").json
    assert (found["cache"]["layer"], found["file"], found["name"]) == ("graph", "other.tflite", "other")


def test_a_folder_elsewhere_shares_everything(bench: Bench, plain: bytes) -> None:
    bench.done(*COMPILE)
    bench.model(small_model(), "deep/er/m.tflite")
    found = bench.done("compile", "deep/er/m.tflite", "-m", "4K", "--json")
    assert found.status == "hit"
    assert (bench.work / "deep/er/m.stow").read_bytes() == plain


CHANGES: dict[str, tuple[Callable[[Bench], object], tuple[str, ...], str]] = {
    "model": (lambda b: b.model(small_model(seed=1)), (), "source.digest: "),
    "budget": (lambda b: None, ("-m", "5K"), "target.pools.fast.size_bytes: 4096 -> 5120"),
    "option": (lambda b: None, ("--keep-names",), "options.keep_names: false -> true"),
    "flash": (lambda b: None, ("-f", "1M"), "target.flash_bytes: nothing -> 1048576"),
    "release": (
        lambda b: b.install(release="2.0"),
        (),
        "toolchain.plugins.scheduler acme.provider: acme-plugin 1.0 -> acme-plugin 2.0",
    ),
    "edited plugin": (lambda b: b.install(note="a comment"), (), "toolchain.plugins.scheduler acme.sources: "),
}


@pytest.mark.parametrize("change", CHANGES)
def test_explain_names_the_one_input_that_changed_with_old_and_new_value(bench: Bench, change: str) -> None:
    edit, options, expected = CHANGES[change]
    bench.install()
    memory = () if "-m" in options else ("-m", "4K")
    bench.done("compile", "m.tflite", "--scheduler", "acme", "-m", "4K", "-o", "m.stow")
    edit(bench)
    found = bench.done(
        "compile", "m.tflite", "--scheduler", "acme", *memory, *options, "-o", "m.stow", "--explain", "--json"
    ).json
    assert found["cache"]["status"] == "miss"
    assert len(found["reasons"]) == 1
    assert found["reasons"][0].startswith(expected)
    explained = bench.done("cache", "explain", "m.stow").out
    assert f"because   {found['reasons'][0]}" in explained
    before, after = found["reasons"][0].partition(": ")[2].split(" -> ")
    assert before != after


def test_explain_compares_two_keys_and_shows_one(bench: Bench) -> None:
    keys = [bench.done("compile", "m.tflite", "-m", size, "--json").json["cache"]["key"] for size in ("4K", "5K")]
    assert bench.done("cache", "explain", *keys).out == "target.pools.fast.size_bytes: 4096 -> 5120\n"
    assert re.search(r"target\.pools\.fast\.size_bytes +4096\n", bench.done("cache", "explain", keys[0][:12]).out)
    outputs = bench.done("cache", "explain", "m.tflite", "--json").json["outputs"]
    assert [Path(output["output"]).name for output in outputs] == ["m.stow"]
    for word, message in (("nothing.stow", "neither an output or model that was built, nor a key"),
                          ("0" * 12, "no entry begins so"), ("abc", "neither an output")):  # fmt: skip
        outcome = bench.run("cache", "explain", word)
        assert (outcome.code, outcome.out, outcome.err) == (
            1,
            "",
            f"Error: {word}: {outcome.err.partition(': ')[2].partition(': ')[2]}",
        )
        assert message in outcome.err


def test_recache_builds_again_and_no_cache_leaves_nothing(bench: Bench) -> None:
    bench.done(*COMPILE)
    found = bench.done(*COMPILE, "--recache", "--explain").json
    assert (found["cache"]["status"], found["cache"]["layer"], found["reasons"]) == (
        "miss",
        "",
        ["--recache was given"],
    )
    other = Bench(bench.root / "other") if (bench.root / "other").mkdir() is None else bench
    other.model(small_model())
    assert other.done(*COMPILE, "--no-cache").status == "off"
    assert not (other.store / "records").exists()
    outcome = bench.run(*COMPILE[:-1], "--no-cache", "--recache")
    assert (outcome.code, outcome.err.count("\n")) == (2, 1)
    assert "--no-cache and --recache: choose one" in outcome.err


def test_a_read_only_cache_gives_hits_and_is_not_touched(bench: Bench, plain: bytes) -> None:
    bench.done(*COMPILE)
    before = {p: p.stat().st_mtime_ns for p in bench.store.rglob("*")}
    for option, environment in ((("--cache-read-only",), {}), ((), {"STOWPLAN_CACHE_READ_ONLY": "1"})):
        (bench.work / "m.stow").unlink()
        assert bench.done(*COMPILE, *option, **environment).status == "hit"
        assert (bench.work / "m.stow").read_bytes() == plain
        bench.done("compile", "m.tflite", "-m", "6K", *option, **environment)
    assert {p: p.stat().st_mtime_ns for p in bench.store.rglob("*")} == before


def test_eight_processes_that_want_one_key_compile_it_once(bench: Bench, plain: bytes) -> None:
    processes = [bench.start("compile", "m.tflite", "-m", "4K", "-o", f"{i}.stow", "--json") for i in range(8)]
    outputs = [process.communicate(timeout=120) for process in processes]
    assert [error for _, error in outputs] == [""] * 8
    statuses = sorted(json.loads(out)["cache"]["status"] for out, _ in outputs)
    assert statuses == ["hit"] * 7 + ["miss"]
    assert {(bench.work / f"{i}.stow").read_bytes() for i in range(8)} == {plain}


def test_the_work_goes_on_when_the_one_who_compiles_is_killed(bench: Bench, plain: bytes) -> None:
    bench.install(before="import time; time.sleep(30)")
    first = bench.start("compile", "m.tflite", "--scheduler", "acme", "-m", "4K", "-o", "a.stow")
    deadline = time.monotonic() + 30
    while not list((bench.store / "locks").glob("*")) and time.monotonic() < deadline:
        time.sleep(0.02)
    time.sleep(0.3)
    first.kill()
    first.communicate()
    bench.install()
    start = time.monotonic()
    bench.done("compile", "m.tflite", "--scheduler", "acme", "-m", "4K", "-o", "a.stow")
    assert time.monotonic() - start < 25


@pytest.mark.parametrize("harm", ["bit", "truncated", "empty"])
def test_damage_to_every_stored_file_is_reported_and_the_bytes_are_right(bench: Bench, plain: bytes, harm: str) -> None:
    bench.done(*COMPILE)
    shutil.rmtree(bench.store / "warm", ignore_errors=True)
    for index in range(len(stored_files(bench.store))):
        path = stored_files(bench.store)[index]
        if harm == "bit":
            flipped(path, 777)
        else:
            truncated(path, 0.5 if harm == "truncated" else 0)
        outcome = bench.run("compile", "m.tflite", "-m", "4K", "-o", f"{index}.stow", "--json")
        assert outcome.code == 0
        assert (bench.work / f"{index}.stow").read_bytes() == plain
        if outcome.status == "hit":  # this file is only asked for when the plan itself is not there
            bench.run("compile", "m.tflite", "-m", "4K", "-o", "n.stow", "--recache")
        else:
            assert outcome.err.startswith("Note: cache entry ") and "is damaged" in outcome.err
    assert "0 damaged" in bench.done("cache", "verify").out


@pytest.mark.parametrize("harm", ["bit", "empty", "garbage"])
def test_damage_to_what_only_saves_time_costs_time_and_nothing_else(bench: Bench, plain: bytes, harm: str) -> None:
    """Notes, lists of tools, what outputs were made from, the journal, digests, the index of plugins: all at once."""
    bench.done(*COMPILE)
    kept = ("records", "objects", "native")
    files = [p for p in bench.cache.rglob("*") if p.is_file() and not set(p.parts) & set(kept)]
    assert files
    for path in files:
        data = path.read_bytes()
        if harm == "bit":
            flipped(path, len(data) * 4 + 3)
        else:
            path.write_bytes(b"" if harm == "empty" else b"\xff\0 1 2 3\n" * 50)
    outcome = bench.done(*COMPILE)
    assert outcome.status in ("hit", "unchanged", "miss")
    assert (bench.work / "m.stow").read_bytes() == plain
    assert outcome.json["fast_bytes"] > 0


def test_a_full_disk_under_the_cache_is_a_note_and_the_plan_is_written(
    bench: Bench, plain: bytes, small_disk: Path
) -> None:
    """Not even the C runtime, which lies below the cache, can be built there."""
    with (small_disk / "filler").open("wb", buffering=0) as file, suppress(OSError):
        while file.write(b"x" * 4096):
            pass
    outcome = bench.run(*COMPILE, STOWPLAN_CACHE_DIR=str(small_disk / "cache"))
    assert outcome.code == 0, outcome.out
    assert (bench.work / "m.stow").read_bytes() == plain
    assert "cannot be written (No space left on device); built without it" in outcome.err


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "small"
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        pytest.skip(f"cannot mount a tmpfs here: {done.stderr.strip()}")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


def test_warnings_of_a_plugin_are_said_again_on_a_hit(bench: Bench) -> None:
    bench.install(before='warnings.warn("the board is hot")')
    command = ("compile", "m.tflite", "--scheduler", "acme", "-m", "4K", "-o", "m.stow", "--json")
    statuses = []
    for _ in range(3):
        outcome = bench.run(*command)
        assert outcome.err == "Warning: the board is hot\n"
        statuses.append(outcome.status)
        (bench.work / "m.stow").unlink()
        time.sleep(0.7)
    assert statuses == ["miss", "hit", "hit"]


def test_a_refusal_is_not_remembered(bench: Bench) -> None:
    for _ in range(2):
        outcome = bench.run("compile", "m.tflite", "-m", "32", "-o", "m.stow")
        assert outcome.code == 1
        assert "does not fit" in outcome.out
    assert not (bench.work / "m.stow").exists()
    assert not list((bench.store / "records").rglob("*"))


def test_a_model_that_changes_while_it_is_compiled_leaves_no_note(bench: Bench) -> None:
    """The scheduler swaps the file: what was compiled is the old one, which must not pass for the new one."""
    new = bench.model(small_model(seed=5), "new.tflite")
    bench.install(before=f'import os, shutil; os.path.exists({str(new)!r}) and os.replace({str(new)!r}, "m.tflite")')
    command = ("compile", "m.tflite", "--scheduler", "acme", "-m", "4K", "-o", "m.stow", "--json")
    bench.done(*command)
    first = (bench.work / "m.stow").read_bytes()
    assert bench.done(*command).status == "miss"
    assert (bench.work / "m.stow").read_bytes() != first


def test_an_installed_observer_is_told_of_every_build(bench: Bench) -> None:
    bench.install()
    (bench.site / "acme_plugin" / "__init__.py").write_text(
        "from stowplan.plugins.hooks import hook\n@hook\ndef stowplan_event(name, facts):\n"
        f"    with open({str(bench.root / 'events')!r}, 'a') as file:\n        file.write(name + chr(10))\n"
    )
    for _ in range(2):
        bench.done(*COMPILE)
    assert (bench.root / "events").read_text().split() == [
        "lookup", "miss", "parse", "pass", "pass", "schedule", "serialize", "prove", "compile", "lookup", "hit",
    ]  # fmt: skip


def test_an_observer_that_raises_is_reported_and_contained(bench: Bench, plain: bytes) -> None:
    bench.install()
    (bench.site / "acme_plugin" / "__init__.py").write_text(
        "from stowplan.plugins.hooks import hook\n@hook\ndef stowplan_event(name, facts):\n    raise ValueError(name)\n"
    )
    outcome = bench.run(*COMPILE)
    assert outcome.code == 0
    assert "acme-plugin 1.0 failed to observe lookup and is passed over: ValueError: lookup" in outcome.err
    assert "Traceback" not in outcome.err
    assert (bench.work / "m.stow").read_bytes() == plain


def test_a_trace_and_a_depfile_are_written(bench: Bench) -> None:
    bench.done(*COMPILE, "--trace", "t.json", "--depfile", "m.d")
    events = json.loads((bench.work / "t.json").read_text())["traceEvents"]
    assert {"lookup", "parse", "schedule", "serialize", "prove", "compile"} <= {event["name"] for event in events}
    text = (bench.work / "m.d").read_text().replace("\\\n", " ")
    output, _, inputs = text.partition(":")
    assert output == "m.stow"
    assert "m.tflite" in inputs.split()
    assert any("stowplan_scheduler_stream" in name for name in inputs.split())
    if shutil.which("make"):
        rule = "include m.d\nm.stow:\n\ttouch m.stow\n"
        (bench.work / "Makefile").write_text(rule)
        assert subprocess.run(["make", "-q", "m.stow"], cwd=bench.work, capture_output=True).returncode == 0
        os.utime(bench.work / "m.tflite", (time.time() + 10,) * 2)
        assert subprocess.run(["make", "-q", "m.stow"], cwd=bench.work, capture_output=True).returncode == 1


def test_statistics_count_and_clear_empties(bench: Bench) -> None:
    for _ in range(3):
        bench.done(*COMPILE)
    stats = bench.done("cache", "stats", "--json").json
    assert (stats["entries"], stats["counters"]["miss"], stats["counters"]["warm"]) == (2, 1, 2)
    assert stats["counters"]["saved_ns"] > 0
    assert "found     2 (2 of them unchanged)" in bench.done("cache", "stats").out
    assert bench.done("cache", "prune").out.startswith("0 entries removed")
    assert bench.done("cache", "prune", "--older-than", "1").out.startswith("0 entries removed")
    assert bench.done("cache", "prune", "--older-than", "0").out.startswith("2 entries removed")
    bench.done(*COMPILE, "--recache")
    assert bench.done("cache", "clear").out.startswith("2 entries removed")
    assert bench.done("cache", "stats", "--json").json["entries"] == 0
    assert stored_files(bench.store) == []


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("cache",), "the following arguments are required: action"),
        (("cache", "frob"), "invalid choice: 'frob'"),
        (("cache", "stats", "x"), "x: only explain takes a key or a file"),
        (("cache", "explain"), "explain: name an output, a model, or one or two keys"),
        (("cache", "prune", "--size", "big"), "--size big: is no size"),
        (("cache", "prune", "--older-than", "-1"), "--older-than -1.0: write a number of days"),
    ],
)
def test_wrong_arguments_are_one_line_and_exit_2(bench: Bench, arguments: tuple[str, ...], message: str) -> None:
    outcome = bench.run(*arguments)
    assert (outcome.code, outcome.out, outcome.err.count("\n")) == (2, "", 1)
    assert message in outcome.err


def test_a_wrong_limit_is_refused_before_any_work(bench: Bench) -> None:
    outcome = bench.run(*COMPILE[:-1], STOWPLAN_CACHE_SIZE="huge")
    assert (outcome.code, outcome.err.count("\n")) == (2, 1)
    assert "STOWPLAN_CACHE_SIZE huge: is no size" in outcome.err
    assert not (bench.work / "m.stow").exists()


def test_a_damaged_entry_is_shown_by_verify_and_refused_by_explain(bench: Bench) -> None:
    key = bench.done(*COMPILE).json["cache"]["key"]
    path = bench.store / "records" / key[:2] / key
    path.write_bytes(path.read_bytes()[:-5])
    outcome = bench.run("cache", "explain", key)
    assert (outcome.code, outcome.err.count("\n")) == (1, 1)
    assert "is damaged (" in outcome.err
    assert f"cache entry {key[:12]}... was damaged" in bench.done("cache", "verify").out


def test_a_file_beside_the_model_that_holds_a_part_of_it_is_an_input(bench: Bench) -> None:
    """An importer for `.acm` files, which name a .tflite file beside them."""
    bench.install()
    (bench.site / "acme_plugin" / "__init__.py").write_text(
        "from pathlib import Path\nfrom stowplan.flow.model import Model\nfrom stowplan.plugins.hooks import hook\n"
        "def weights(model):\n    return model.path.with_name(model.data.decode().strip())\n"
        "class Importer:\n    name, summary, suffixes = 'acme', 'made for a test', ('.acm',)\n"
        "    def sniff(self, data):\n        return True\n"
        "    def external_files(self, model):\n        return [weights(model)]\n"
        "    def describe(self, model):\n        raise NotImplementedError\n"
        "    def load(self, model, shapes):\n"
        "        from stowplan_importer_tflite import TfliteImporter\n"
        "        return TfliteImporter().load(Model.read(weights(model)), shapes)\n"
        "@hook\ndef stowplan_importers():\n    return [Importer()]\n"
    )
    bench.model(b"m.tflite\n", "m.acm")
    command = ("compile", "m.acm", "-m", "4K", "-o", "m.stow", "--json")
    assert bench.done(*command).status == "miss"
    assert bench.done(*command).status in ("hit", "unchanged")
    bench.model(small_model(seed=4))
    found = bench.done(*command, "--depfile", "m.d").json
    assert (found["cache"]["status"], len(found["reasons"])) == ("miss", 1)
    assert found["reasons"][0].startswith("source.external.m.tflite: ")
    assert "m.tflite" in (bench.work / "m.d").read_text()
