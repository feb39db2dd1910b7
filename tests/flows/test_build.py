"""`stowplan build`: a project file with models times targets, built side by side, explained, watched and shared."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from cache_commands import Bench
from cache_models import small_model
from cache_servers import nginx_server
from stowplan.build.project import read_project
from stowplan.build.schema import problems, project_schema
from stowplan.errors import UsageError

PROJECT = """
[options]
keep_names = true

[models]
one = "models/one.tflite"
two = {path = "models/two.tflite", targets = ["small"]}

[targets.small]
memory = "4K"

[targets.large]
memory = "8K+64K"
flash = "1M"
options = {compress = "lz4", prove = false}
"""


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    made = Bench(tmp_path)
    made.model(small_model(1), "models/one.tflite")
    made.model(small_model(2), "models/two.tflite")
    (made.work / "stowplan.toml").write_text(PROJECT)
    return made


def statuses(bench: Bench, *options: str, **environment: str) -> dict[str, str]:
    document = bench.done("build", "--json", *options, **environment).json
    return {plan["name"]: plan["status"] for plan in document["plans"]}


def test_only_what_changed_is_built_and_said_why(bench: Bench) -> None:
    assert statuses(bench) == {"one@small": "built", "one@large": "built", "two@small": "built"}
    assert {str(p.relative_to(bench.work)) for p in bench.work.rglob("*.stow")} == {
        "build/small/one.stow", "build/large/one.stow", "build/small/two.stow",
    }  # fmt: skip
    assert set(statuses(bench).values()) == {"unchanged"}
    bench.model(small_model(3), "models/two.tflite")
    out = bench.done("build").out
    assert out.splitlines()[0].startswith("built   two@small   source.digest: ")
    assert out.splitlines()[-1].startswith("1 built, 2 unchanged in ")
    (bench.work / "build/small/one.stow").unlink()
    out = bench.done("build", "--explain").out
    assert "reused (disk)   one@small   its output was not in place" in out
    assert "unchanged       two@small   no input changed" in out
    (bench.work / "stowplan.toml").write_text(PROJECT.replace('"4K"', '"5K"'))
    out = bench.done("build").out
    assert out.count("target.pools.fast.size_bytes: 4096 -> 5120") == 2


def test_a_plan_of_a_project_has_the_bytes_of_compile(bench: Bench) -> None:
    bench.done("build")
    command = ("compile", "models/one.tflite", "-m", "8K", "-m", "64K", "-c", "lz4", "-f", "1M", "--keep-names")
    bench.done(*command, "--no-prove", "--no-cache", "-o", "plain.stow")
    assert (bench.work / "build/large/one.stow").read_bytes() == (bench.work / "plain.stow").read_bytes()


def test_a_list_of_models_with_memories_of_their_own_is_built_too(bench: Bench) -> None:
    (bench.work / "stowplan.toml").write_text(
        '[[models]]\npath = "models/one.tflite"\nmemory = "8K+64K"\nflash = "1M"\noptions = {keep_names = true}\n'
        '[[models]]\npath = "models/two.tflite"\nname = "second"\n[targets.small]\nmemory = "4K"\n'
    )
    assert statuses(bench) == {"one": "built", "second@small": "built"}
    command = ("compile", "models/one.tflite", "-m", "8K+64K", "-f", "1M", "--keep-names", "--json", "-o", "plain.stow")
    assert bench.done(*command).status == "hit", "it is the same compilation"
    assert (bench.work / "build/one.stow").read_bytes() == (bench.work / "plain.stow").read_bytes()
    assert (bench.work / "build/small/second.stow").is_file()


def test_the_least_memory_and_arithmetic_done_twice_are_options_whose_price_is_paid_once(bench: Bench) -> None:
    (bench.work / "stowplan.toml").write_text(
        'options = {optimal = true}\n[[models]]\npath = "models/one.tflite"\nmemory = "8K"\n'
        '[[models]]\npath = "models/two.tflite"\nmemory = "8K"\noptions = {optimal = false, recompute = 1.5}\n'
    )
    assert statuses(bench) == {"one": "built", "two": "built"}
    for name, words in (("one", ("--optimal",)), ("two", ("--recompute", "1.5"))):
        command = ("compile", f"models/{name}.tflite", "-m", "8K", *words, "--json", "-o", f"{name}.stow")
        assert bench.done(*command).status == "hit", "it is the same compilation"
        assert (bench.work / f"build/{name}.stow").read_bytes() == (bench.work / f"{name}.stow").read_bytes()
    assert statuses(bench) == {"one": "unchanged", "two": "unchanged"}


def test_a_failure_has_the_stable_word_of_the_command(bench: Bench) -> None:
    (bench.work / "stowplan.toml").write_text(PROJECT.replace('"4K"', '"64"'))
    plans = {plan["name"]: plan for plan in bench.run("build", "-k", "--json").json["plans"]}
    refused = bench.run("compile", "models/one.tflite", "-m", "64", "--json").json["error"]
    assert plans["one@small"]["code"] == refused["code"] == "does-not-fit"
    assert plans["one@small"]["message"] == refused["message"]
    assert plans["one@large"]["code"] == ""


def test_one_process_and_several_give_the_same(bench: Bench) -> None:
    bench.done("build", "-j", "1")
    first = {p: p.read_bytes() for p in (bench.work / "build").rglob("*.stow")}
    bench.done("build", "-j", "3", "--recache")
    assert {p: p.read_bytes() for p in (bench.work / "build").rglob("*.stow")} == first


def test_a_dry_run_says_what_would_be_done_and_does_nothing(bench: Bench) -> None:
    out = bench.done("build", "--dry-run").out
    assert out.splitlines()[-1].startswith("3 to do in ")
    assert not (bench.work / "build").exists()
    assert out.startswith("would be built   one@small   nothing is known of an earlier build")
    bench.done("build")
    (bench.work / "build/small/one.stow").unlink()
    assert "would be restored   one@small" in bench.done("build", "-n").out
    assert not (bench.work / "build/small/one.stow").exists()


def test_a_failure_ends_the_build_unless_it_is_to_go_on(bench: Bench) -> None:
    (bench.work / "models/one.tflite").write_bytes(b"TFL3 this is no model")
    outcome = bench.run("build", "-j", "1", "--json")
    assert outcome.code == 1
    assert [plan["status"] for plan in outcome.json["plans"]] == ["failed", "skipped", "skipped"]
    outcome = bench.run("build", "--keep-going")
    assert outcome.code == 1
    assert outcome.out.splitlines()[-1].startswith("1 built, 2 failed in ")
    assert outcome.err.count("Error: one@") == 2 and outcome.err.count("\n") == 2
    assert (bench.work / "build/small/two.stow").exists()


def test_a_worker_that_is_killed_is_a_failure_in_one_line(bench: Bench) -> None:
    bench.install(before="import os; os.kill(os.getpid(), 9)")
    (bench.work / "stowplan.toml").write_text(PROJECT.replace("keep_names = true", 'scheduler = "acme"'))
    outcome = bench.run("build", "-j", "2", "-k")
    assert outcome.code == 1
    assert "a worker process was killed; run it again" in outcome.err
    assert "Traceback" not in outcome.err


def test_models_and_targets_can_be_picked(bench: Bench) -> None:
    assert set(statuses(bench, "two")) == {"two@small"}
    assert set(statuses(bench, "one@large")) == {"one@large"}
    outcome = bench.run("build", "three")
    assert (outcome.code, outcome.err.count("\n")) == (2, 1)
    assert "three: no such model in" in outcome.err and "there are one, two" in outcome.err


def test_pyproject_is_read_where_there_is_no_file_of_our_own(bench: Bench) -> None:
    text = (bench.work / "stowplan.toml").read_text()
    (bench.work / "stowplan.toml").unlink()
    outcome = bench.run("build")
    assert outcome.code == 2 and "no stowplan.toml, and no pyproject.toml with [tool.stowplan]" in outcome.err
    (bench.work / "pyproject.toml").write_text(
        text.replace("[", "[tool.stowplan.").replace('= [tool.stowplan."', '= ["')
    )
    assert len(statuses(bench)) == 3


def test_two_checkouts_share_everything_through_one_users_cache(bench: Bench, tmp_path: Path) -> None:
    bench.done("build")
    (tmp_path / "second").mkdir()
    other = Bench(tmp_path / "second")
    for path in ("models/one.tflite", "models/two.tflite", "stowplan.toml"):
        other.model((bench.work / path).read_bytes(), path)
    found = other.done("build", "--json", STOWPLAN_CACHE_DIR=str(bench.cache)).json
    assert [(plan["status"], plan["layer"]) for plan in found["plans"]] == [("restored", "disk")] * 3
    for path in (bench.work / "build").rglob("*.stow"):
        assert (other.work / path.relative_to(bench.work)).read_bytes() == path.read_bytes()


def test_a_fresh_user_in_another_folder_gets_everything_through_nginx(bench: Bench, tmp_path: Path) -> None:
    with nginx_server(tmp_path / "nginx") as url:
        first = bench.done("build", "--json", STOWPLAN_REMOTE_CACHE=url, STOWPLAN_REMOTE_TIMEOUT="30").json
        assert {plan["status"] for plan in first["plans"]} == {"built"}
        (tmp_path / "second").mkdir()
        other = Bench(tmp_path / "second")
        for path in ("models/one.tflite", "models/two.tflite", "stowplan.toml"):
            other.model((bench.work / path).read_bytes(), path)
        found = other.done("build", "--json", STOWPLAN_REMOTE_CACHE=url, STOWPLAN_REMOTE_TIMEOUT="30").json
    assert [(plan["status"], plan["layer"]) for plan in found["plans"]] == [("restored", "remote")] * 3
    for path in (bench.work / "build").rglob("*.stow"):
        assert (other.work / path.relative_to(bench.work)).read_bytes() == path.read_bytes()


def test_a_remote_that_is_down_or_mute_costs_two_seconds_at_most_and_the_plan_is_right(bench: Bench) -> None:
    command = ("compile", "models/one.tflite", "-o", "one.stow", "-m")
    bench.done(*command, "4K", "--no-cache")
    wanted = (bench.work / "one.stow").read_bytes()
    start = time.monotonic()
    bench.done(*command, "4K")
    alone = time.monotonic() - start
    with socket.socket() as mute:
        mute.bind(("127.0.0.1", 0))
        mute.listen(8)
        address = f"http://127.0.0.1:{mute.getsockname()[1]}"
        for url in ("http://127.0.0.1:9", address):
            start = time.monotonic()
            outcome = bench.run(*command, "4K", "--recache", STOWPLAN_REMOTE_CACHE=url)
            assert outcome.code == 0
            assert outcome.err.startswith("Note: the remote cache http://127.0.0.1") and outcome.err.count("\n") == 1
            assert (bench.work / "one.stow").read_bytes() == wanted
            assert time.monotonic() - start < alone + 3, "two seconds, and one for a busy machine"


def test_the_depfile_names_model_configuration_and_plugins(bench: Bench) -> None:
    for _ in range(2):  # after a build, and when all is unchanged
        bench.done("build", "--depfile", "all.d", "--trace", "t.json")
        rules = (bench.work / "all.d").read_text().replace("\\\n", "").splitlines()
        assert len(rules) == 3
        for rule in rules:
            names = rule.split()
            assert any(name.endswith(".tflite") for name in names)
            assert any(name.endswith("stowplan.toml") for name in names)
            assert any("stowplan_importer_tflite" in name for name in names)
    assert json.loads((bench.work / "t.json").read_text())["traceEvents"] == []


@pytest.mark.parametrize("option", ["--depfile", "--trace"])
@pytest.mark.parametrize("file", ["stowplan.toml", "one.tflite", "build/small/one.stow"])
def test_neither_rules_nor_a_trace_are_written_over_what_the_project_is_made_of(
    bench: Bench, option: str, file: str
) -> None:
    bench.done("build")
    path = next(bench.work.rglob(Path(file).name)) if "/" not in file else bench.work / file
    before = path.read_bytes()
    outcome = bench.run("build", option, str(path))
    assert (outcome.code, outcome.err.count("\n")) == (1, 1)
    assert "choose another output" in outcome.err
    assert path.read_bytes() == before


def test_rules_and_a_trace_cannot_be_one_file(bench: Bench) -> None:
    assert bench.run("build", "--depfile", "x", "--trace", "x").code == 1
    assert not (bench.work / "x").exists()


def test_a_trace_has_the_stages_of_all_jobs_and_processes(bench: Bench) -> None:
    bench.done("build", "-j", "2", "--trace", "t.json")
    events = json.loads((bench.work / "t.json").read_text())["traceEvents"]
    schedules = [event for event in events if event["name"] == "schedule"]
    assert {event["args"]["job"] for event in schedules} == {"one@small", "one@large", "two@small"}
    assert len({event["pid"] for event in events}) == 2


@pytest.mark.skipif(sys.platform == "win32", reason="needs signals")
def test_watch_builds_again_when_an_input_changes(bench: Bench) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "stowplan", "build", "--watch", "-j", "1"], cwd=bench.work, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=bench.environment({}),
    )  # fmt: skip
    assert process.stdout is not None

    def summary() -> str:
        while line := process.stdout.readline():  # type: ignore[union-attr]
            if " in " in line and " s" in line and line[0].isdigit():
                return line
        return ""

    try:
        assert summary().startswith("3 built in")
        bench.model(small_model(7), "models/two.tflite")
        assert summary().startswith("1 built, 2 unchanged in")
        bench.model(b"models = 5", "stowplan.toml")
        line = process.stdout.readline()
        assert line.startswith("Error: ") and "models: 5 is no table" in line
        bench.model(PROJECT.encode(), "stowplan.toml")
        assert summary().startswith("3 unchanged in")
    finally:
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=20)
    assert process.returncode == 0


WRONG: dict[str, tuple[str, str]] = {
    "not toml": ("models = [", "is no TOML"),
    "no models": ("[targets.a]\nmemory='1K'", "the file: models is missing"),
    "no targets": ("[models]\na='a'", "models.a: memory is missing, and the file has no targets"),
    "no memory": ("[models]\na='a'\n[targets.a]", "targets.a: memory is missing"),
    "unknown word": ("[models]\na='a'\n[targets.a]\nmemory='1K'\nflahs='1M'", "flahs: is unknown; did you mean flash?"),
    "wrong type": ("[models]\na=5\n[targets.a]\nmemory='1K'", "models.a: 5 is no text or table"),
    "wrong option": ("[models]\na='a'\n[options]\nprove='no'\n[targets.a]\nmemory='1K'", 'prove: "no" is no true or'),
    "wrong size": ("[models]\na='a'\n[targets.a]\nmemory='many'", "targets.a.memory many: is no size"),
    "no such target": ("[models]\na={path='a',targets=['b']}\n[targets.a]\nmemory='1K'", "no target 'b'"),
    "way out": ("[models]\n'../a'='a'\n[targets.a]\nmemory='1K'", 'models.../a: "../a" does not have the form'),
    "wrong shape": ("[models]\na={path='a',input_shapes={x='1,2'}}\n[targets.a]\nmemory='1K'", "does not have the form"),  # noqa: E501
    "empty": ("[models]\n[targets]", "models: is empty; targets: is empty"),
    "no list": ("models=['a']", 'models.0: "a" is no table'),
    "empty list": ("models=[]", "models: is empty"),
    "no name": ("[[models]]\npath='a b'\nmemory='1K'", "name is missing, and that of the file, 'a b', does not have"),
    "line end": ('[[models]]\npath="a"\nname="b\\n"\nmemory="1K"', 'models.0.name: "b\\n" does not have the form'),
    "two names": ("[models]\na={path='a',name='b'}\n[targets.a]\nmemory='1K'", "models.a.name: in a table the key is"),
    "flash alone": ("[[models]]\npath='a'\nflash='1M'", "models.0.flash: goes with memory; write memory as well"),
    "own and others": ("[[models]]\npath='a'\nmemory='1K'\ntargets=['b']", "models.0: has memory and targets"),
    "own size": ("[[models]]\npath='a'\nmemory='many'", "models.0.memory many: is no size"),
    "no package": ("[[models]]\npath='a'\nmemory='1K'\npackage='a-b'", 'models.0.package: "a-b" does not have the'),
    "two plans": (
        "[[models]]\npath='a'\npackage='p'\n[targets.a]\nmemory='1K'\n[targets.b]\nmemory='2K'",
        "models.0: a package gets one plan of a model, here are 2; write memory, or one of targets",
    ),
    "recompute": (
        "options = {recompute = nan}\n[models]\na='a'\n[targets.t]\nmemory='1K'",
        "options.recompute: nan is not from 1 to 100",
    ),
    "twice": ("[models]\na='a'\nA='b'\n[targets.t]\nmemory='1K'", "two jobs would write"),
}  # fmt: skip


@pytest.mark.parametrize("case", WRONG)
def test_a_wrong_project_file_is_one_line_that_says_where(tmp_path: Path, case: str) -> None:
    text, message = WRONG[case]
    path = tmp_path / "stowplan.toml"
    path.write_text(text)
    with pytest.raises(UsageError) as caught:
        read_project(path)
    assert message in str(caught.value)
    assert str(caught.value).startswith(str(path)) and "\n" not in str(caught.value)


VALID = {"models": {"a": "a.tflite"}, "targets": {"t": {"memory": "1K"}}}
VARIANTS: list[Any] = [
    VALID, {}, 5, {**VALID, "x": 1}, {**VALID, "output": ""}, {**VALID, "output": "out"}, {**VALID, "models": {}},
    {**VALID, "models": {"a": {"path": "x", "targets": []}}}, {**VALID, "output": 5},
    {**VALID, "models": {"a": {"path": "x", "targets": ["t", "t"]}}},
    {**VALID, "models": {"a": {"targets": ["t"]}}}, {**VALID, "models": {"a b": "x"}}, {**VALID, "models": {"a": {}}},
    {**VALID, "models": {"a": {"path": "x", "options": {"prove": 1}}}}, {**VALID, "options": {"xip": True}},
    {**VALID, "models": {"a": {"path": "x", "input_shapes": {"i": "1x2"}}}}, {**VALID, "targets": {"t": {"memory": 4}}},
    {**VALID, "models": {"a": {"path": "x", "input_shapes": {"i": "1x"}}}}, {**VALID, "options": {"scheduler": ""}},
    {**VALID, "targets": {"t": []}}, {**VALID, "models": ["a"]}, {**VALID, "options": {"nope": 1}},
    {"models": [{"path": "a", "memory": "1K"}]}, {"models": []}, {"models": [{"memory": "1K"}]}, {"models": 5},
    {"models": [{"path": "a", "name": "b c"}]}, {"models": [{}, "a"]},
    {"models": [{"path": "a", "package": "a.b", "c": True}]}, {"models": [{"path": "a", "package": "a..b"}]},
    {"models": [{"path": "a", "stream_inputs": ["x"]}]}, {"models": [{"path": "a", "stream_inputs": "x"}]},
    {**VALID, "options": {"recompute": 1.5}}, {**VALID, "options": {"recompute": 2}},
    {**VALID, "options": {"recompute": 0.5}}, {**VALID, "options": {"recompute": True}},
    {**VALID, "options": {"recompute": "2"}}, {**VALID, "options": {"recompute": 101}},
    {**VALID, "options": {"optimal": True}}, {**VALID, "options": {"optimal": 1}},
    {"models": [{"path": "a", "c": "yes"}]}, {"models": [{"path": "a", "pakage": "a"}]},
]  # fmt: skip


@pytest.mark.parametrize("document", VARIANTS)
def test_our_checker_and_a_complete_validator_agree_on_the_shipped_schema(document: Any) -> None:
    jsonschema = pytest.importorskip("jsonschema")
    validator = jsonschema.Draft202012Validator(project_schema())
    jsonschema.Draft202012Validator.check_schema(project_schema())
    assert bool(problems(document, project_schema())) == bool(list(validator.iter_errors(document)))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("-j", "0"), "-j 0: write a number of processes"),
        (("--watch", "--json"), "--watch: goes with neither"),
        (("--recache", "--no-cache"), "choose one"),
        (("--executor", "ssh://x"), "--executor ssh://x: write dask://HOST:PORT"),
        (("--project", "absent.toml"), "absent.toml: cannot be read: No such file"),
    ],
)
def test_wrong_options_are_one_line_and_exit_2(bench: Bench, options: tuple[str, ...], message: str) -> None:
    outcome = bench.run("build", *options)
    assert outcome.code == 2
    line = outcome.err or json.dumps(outcome.json["error"]["message"])
    assert message in line


@pytest.mark.slow
def test_a_dask_cluster_builds_the_matrix_and_the_bytes_are_the_same(bench: Bench) -> None:
    distributed = pytest.importorskip("distributed")
    bench.done("build")
    first = {p: p.read_bytes() for p in (bench.work / "build").rglob("*.stow")}
    for path in first:
        path.unlink()
    environment = {"STOWPLAN_CACHE_DIR": str(bench.root / "elsewhere")}
    old = dict(os.environ)
    os.environ.update(bench.environment(environment))
    try:
        with distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, dashboard_address=None, processes=True, protocol="tcp"
        ) as cluster:
            host, _, port = cluster.scheduler_address.removeprefix("tcp://").rpartition(":")
            outcome = bench.run("build", "--executor", f"dask://{host}:{port}", "--json", **environment)
    finally:
        os.environ.clear()
        os.environ.update(old)
    assert outcome.code == 0, outcome.err
    assert [plan["status"] for plan in outcome.json["plans"]] == ["built"] * 3
    assert {p: p.read_bytes() for p in (bench.work / "build").rglob("*.stow")} == first
    start = time.monotonic()
    outcome = bench.run("build", "--executor", "dask://127.0.0.1:1", "--recache", STOWPLAN_CACHE_DIR=str(bench.cache))
    assert outcome.code == 1
    assert "no scheduler answers there" in outcome.err and outcome.err.count("\n") == 1
    assert time.monotonic() - start < 40
