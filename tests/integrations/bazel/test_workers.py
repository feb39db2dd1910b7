"""Workers under Bazel: one process for many models, in both protocols, and a build that goes on after one dies."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from bazel_workspace import Workspace

pytestmark = pytest.mark.slow

MODELS = 40
WORKER = ("--strategy=StowplanCompile=worker", "--strategy=StowplanCodegen=worker")


def servers(workspace: Workspace) -> list[int]:
    """Return the processes that Bazel keeps for this workspace, without those that they forked for a request."""
    parents = {}
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            words = status.with_name("cmdline").read_bytes().split(b"\0")
            if b"--persistent_worker" in words and str(workspace.folder.parent) in os.readlink(status.with_name("cwd")):
                parents[int(status.parent.name)] = int(status.read_text().rpartition(")")[2].split()[1])
        except OSError:  # it has ended
            continue
    return [pid for pid, parent in parents.items() if parent not in parents]


@pytest.fixture(scope="module")
def many(make_workspace, disk_cache: str) -> Workspace:
    """The example with 40 models of different budgets, each to be compiled once for each value of a flash."""
    workspace: Workspace = make_workspace(disk_cache)
    names = [f"m{index}" for index in range(MODELS)]
    rows = [
        f'stowplan_model(name = "{name}", memory = ["{900 + index}"], model = "models/digits_int8.tflite")'
        for index, name in enumerate(names)
    ]
    rows.append(f'filegroup(name = "many", srcs = [{", ".join(repr(name) for name in names)}])')
    workspace.add("\n".join(rows))
    return workspace


def test_two_processes_serve_forty_models(many: Workspace) -> None:
    build = many.built("//:many", *WORKER)
    assert build.processes["worker"] >= MODELS, build.text  # each budget is an action of its own
    assert 1 <= len(servers(many)) <= 4  # Bazel 4 keeps some for each kind of action
    plans = {path.read_bytes() for path in many.bin.glob("m*.stow")}
    assert len(plans) == 1  # a budget that does not bind leaves no trace


def test_workers_that_speak_json_give_the_same_bytes(many: Workspace) -> None:
    many.built("//:m0", *WORKER)
    proto = (many.bin / "m0.c").read_bytes()
    json = ["--@rules_stowplan//stowplan:worker_protocol=json", "--experimental_worker_allow_json_protocol"]
    build = many.built("//:m0", *WORKER, *json, "--@rules_stowplan//stowplan:flash=2M")
    assert build.processes.get("worker", 0) >= 1, build.text
    assert (many.bin / "m0.c").read_bytes() == proto


def test_sandboxed_workers_give_the_same_bytes(many: Workspace) -> None:
    many.built("//:m1", *WORKER)
    plain = (many.bin / "m1.c").read_bytes()
    build = many.built("//:m1", *WORKER, "--worker_sandboxing", "--@rules_stowplan//stowplan:flash=3M")
    assert build.processes.get("worker", 0) >= 1, build.text
    assert (many.bin / "m1.c").read_bytes() == plain


def test_a_build_after_the_workers_were_killed_starts_new_ones(many: Workspace) -> None:
    many.built("//:m2", *WORKER, "--@rules_stowplan//stowplan:flash=4M")
    killed = servers(many)
    assert killed
    for pid in killed:
        os.kill(pid, signal.SIGKILL)
    build = many.built("//:m2", *WORKER, "--@rules_stowplan//stowplan:flash=5M")
    assert build.processes.get("worker", 0) >= 1, build.text
    assert not set(servers(many)) & set(killed)


def test_a_worker_keeps_nothing_when_bazel_stops(many: Workspace) -> None:
    many.built("//:m3", *WORKER, "--@rules_stowplan//stowplan:flash=6M")
    folders = {Path(os.readlink(f"/proc/{pid}/cwd")) for pid in servers(many)}
    assert folders
    many.close()
    assert servers(many) == []
