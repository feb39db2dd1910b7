"""The runtime: each input invalidates by itself, equal inputs never do, and a step without a version is refused."""

from __future__ import annotations

import shutil
import subprocess
import sys
import threading
import warnings
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from cache_models import small_model
from stowplan.build.artifact import Artifact
from stowplan.build.compilation import CompilationPlan
from stowplan.build.pipeline import CompileRequest, compile_model
from stowplan.build.request import Step
from stowplan.build.runtime import CompilationRuntime, toolchain_revision
from stowplan.build.steps import steps_meta, warn_of_changed_code
from stowplan.cache import subjects
from stowplan.cache.layers import Layered, Memory
from stowplan.cache.store import Store
from stowplan.errors import DoesNotFit, ModelError, UsageError
from stowplan.flow.graph import Graph
from stowplan.native import describe
from stowplan.planfile import layout
from stowplan.plugins.host import host
from stowplan.plugins.index import Offer, Plugin

PLAN = CompilationPlan(memory="4K")
needs_cc = pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler named cc")


def same(graph: Graph) -> Graph:
    return graph


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "cache", report=lambda line: pytest.fail(line))


@pytest.fixture
def runtime(store: Store) -> CompilationRuntime:
    return CompilationRuntime(store)


@pytest.fixture
def first(runtime: CompilationRuntime) -> Artifact:
    """The artifact that the tests below change one input of."""
    return runtime.compile(small_model(), PLAN)


def labels(old: Artifact, new: Artifact) -> list[str]:
    return [difference.label for difference in subjects.changed(old.document, new.document)]


def test_a_second_compilation_is_a_hit_with_the_same_key_and_bytes(runtime, first: Artifact) -> None:
    again = runtime.compile(small_model(), PLAN)
    assert (first.cache, again.cache, again.layer) == ("miss", "hit", "disk")
    assert (again.key, again.files, again.facts) == (first.key, first.files, first.facts)


def test_a_hit_parses_schedules_and_proves_nothing(runtime, first: Artifact) -> None:
    seen: list[str] = []
    runtime.compile(small_model(), PLAN, telemetry=lambda name, facts: seen.append(name))
    assert seen == ["lookup", "hit"]


def test_the_bytes_and_facts_are_those_of_a_compilation_without_a_cache(runtime, first, tmp_path: Path) -> None:
    path = tmp_path / "model.tflite"
    path.write_bytes(small_model())
    plain = compile_model(CompileRequest(model_path=path, pools=(("fast", 4096),)))
    assert first.data == plain.data
    assert first.facts == plain.facts
    off = runtime.compile(path, PLAN, cache="off")
    assert (off.cache, off.data) == ("off", plain.data)


@pytest.mark.parametrize(
    ("change", "label"),
    [
        (dict(memory="5K"), "target.pools.fast.size_bytes"),
        (dict(memory="4K+64K"), "target.pools.slow"),
        (dict(flash_bytes=100_000), "target.flash_bytes"),
        (dict(target="board-7"), "target.label"),
        (dict(scheduler="greedy", memory="4K"), "schedule.scheduler"),
        (dict(steps=(Step(name="same", version="1", run=same),)), "pipeline.steps"),
        (dict(schema_version="2"), "schema.user"),
        (dict(compressor="lz4"), "options.compressor"),
        (dict(xip=True), "options.xip"),
        (dict(keep_names=True), "options.keep_names"),
        (dict(prove=False), "options.prove"),
        (dict(input_shapes={"x": (1, 8, 8, 1)}), "options.input_shapes"),
        (dict(optimal=True), "schedule.options.optimal"),
        (dict(recompute=1.5), "schedule.options.recompute"),
        (dict(stream_inputs="x"), "schedule.options.stream_inputs"),
    ],
)  # fmt: skip
def test_each_part_of_the_plan_invalidates_by_itself(runtime, first, change: Mapping[str, Any], label: str) -> None:
    plan = replace(PLAN, **change)
    assert plan.identity != PLAN.identity
    try:
        found = runtime.compile(small_model(), plan)
    except DoesNotFit:
        found = runtime.compile(small_model(), replace(plan, memory="64K"))
    assert found.cache == "miss"
    assert any(name.startswith(label) for name in labels(first, found)), labels(first, found)
    assert runtime.compile(small_model(), PLAN).cache == "hit", "the first one is still there"


def test_the_source_invalidates(runtime, first: Artifact) -> None:
    other = runtime.compile(small_model(seed=1), PLAN)
    assert (other.cache, other.layer) == ("miss", "")
    assert labels(first, other) == ["source.digest"]


def test_one_changed_weight_changes_the_graphs_meaning_and_is_compiled(runtime, first: Artifact) -> None:
    data = bytearray(small_model())
    assert small_weights()[:9] in first.data, "the plan keeps an output channel's together"
    data[bytes(data).find(small_weights())] ^= 1
    other = runtime.compile(bytes(data), PLAN)
    assert (other.cache, other.layer) == ("miss", "")
    assert other.data != first.data


def small_weights() -> bytes:
    import numpy as np

    return np.random.default_rng(0).integers(-127, 128, (4, 3, 3, 1)).astype(np.int8).tobytes()


@pytest.mark.parametrize("change", [dict(names="renamed/"), dict(description="another text")])
def test_names_and_doc_strings_do_not_recompile(runtime, first, tmp_path: Path, change: Mapping[str, Any]) -> None:
    """Early cut-off: another file with the same meaning gets the schedule and the proof that are known."""
    seen: list[str] = []
    model = small_model(**change)
    found = runtime.compile(model, PLAN, telemetry=lambda name, facts: seen.append(name))
    assert (found.cache, found.layer) == ("miss", "graph")
    assert "schedule" not in seen and "prove" not in seen and "serialize" in seen
    path = tmp_path / "model.tflite"
    path.write_bytes(model)
    plain = compile_model(CompileRequest(model_path=path, pools=(("fast", 4096),)))
    assert found.data == plain.data, "the bytes of a compilation from scratch"
    assert found.facts == plain.facts


@pytest.mark.parametrize("compressor", ["none", "lz4"])
def test_early_cut_off_keeps_the_bytes_with_names_kept_and_weights_packed(runtime, tmp_path, compressor: str) -> None:
    plan = CompilationPlan(memory="8K+64K", compressor=compressor, keep_names=True)
    runtime.compile(small_model(channels=8), plan)
    model = small_model(channels=8, names="a/very/long/prefix/")
    found = runtime.compile(model, plan)
    path = tmp_path / "model.tflite"
    path.write_bytes(model)
    request = CompileRequest(
        model_path=path, pools=(("fast", 8192), ("slow", 65536)), compressor=compressor, keep_names=True
    )
    assert found.layer == "graph"
    assert found.data == compile_model(request).data


def test_a_forged_schedule_is_refused_by_the_checker_and_made_anew(
    tmp_path: Path, first: Artifact, store: Store
) -> None:
    """The record is sound and sealed; what it says would let two rows overlap."""
    said: list[Mapping[str, Any]] = []
    for key, record in list(store.records()):
        if record.document["kind"] == "schedule":
            schedule = dict(record.meta["schedule"])
            schedule["buffers"] = [[*b[:4], [0] * len(b[4]), b[5]] for b in schedule["buffers"]]
            from stowplan.cache.entry import Entry

            store.put(Entry(document=record.document, files={}, meta={**record.meta, "schedule": schedule}))
            assert key == record.key
    runtime = CompilationRuntime(store, telemetry=lambda name, facts: said.append({"name": name, **facts}))
    found = runtime.compile(small_model(description="same meaning"), PLAN)
    assert found.layer == ""
    reasons = [fact["reason"] for fact in said if fact["name"] == "failure"]
    assert len(reasons) == 1 and reasons[0].startswith("the schedule in the cache is wrong")
    assert found.data[:4] == b"STOW"


def test_the_toolchain_revision_invalidates(runtime, first: Artifact) -> None:
    given = runtime.compile(small_model(), PLAN, toolchain_revision="mine 1")
    other = runtime.compile(small_model(), PLAN, toolchain_revision="mine 2")
    assert (given.cache, other.cache) == ("miss", "miss")
    assert labels(given, other) == ["toolchain"]
    assert len(toolchain_revision()) == 64 and toolchain_revision() == toolchain_revision()


def test_a_plugins_version_and_what_it_stands_on_invalidate(runtime, first: Artifact, monkeypatch) -> None:
    upgraded = host_with(lambda plugin: replace(plugin, version="99.0") if "stream" in plugin.entry else plugin)
    found = runtime.compile(small_model(), PLAN, context=upgraded)
    assert found.cache == "miss"
    assert labels(first, found) == ["toolchain.plugins.scheduler stream.provider"]
    moved = host_with(
        lambda plugin: replace(plugin, requires=(("acme", "2.0"),)) if "backend-c" in plugin.entry else plugin
    )
    found = runtime.compile(small_model(), PLAN, context=moved)
    assert [name for name in labels(first, found) if "requires" in name]


def test_a_schedulers_own_version_invalidates(runtime, first: Artifact) -> None:
    def newer(offer: Offer) -> Offer:
        return replace(offer, version="8") if (offer.kind, offer.name) == ("scheduler", "stream") else offer

    other = host_with(lambda plugin: replace(plugin, offers=tuple(map(newer, plugin.offers))))
    found = runtime.compile(small_model(), PLAN, context=other)
    assert found.cache == "miss"
    assert labels(first, found) == ["toolchain.plugins.scheduler stream.version"]


def host_with(change: Any) -> Any:
    """Return a host whose index says something else of a plugin."""
    found = type(host())()
    plugins: tuple[Plugin, ...] = tuple(change(plugin) for plugin in host().plugins)
    found.__dict__["plugins"] = plugins
    return found


def test_the_compiler_and_the_processor_invalidate(runtime, first: Artifact, monkeypatch, tmp_path: Path) -> None:
    script = tmp_path / "mycc"
    script.write_text('#!/bin/sh\nif [ "$1" = --version ]; then echo "my compiler 1"; else exec cc "$@"; fi\n')
    script.chmod(0o755)
    monkeypatch.setenv("CC", str(script))
    second = runtime.compile(small_model(), PLAN)
    assert second.cache == "miss"
    assert {"toolchain.host.compiler", "toolchain.host.program"} <= set(labels(first, second))
    monkeypatch.setenv("CC", "cc -march=native")
    native = runtime.compile(small_model(), PLAN)
    assert native.document["toolchain"]["host"]["processor"].startswith(describe.architecture() + " ")
    cpuinfo = tmp_path / "cpuinfo"
    cpuinfo.write_text("model name : Another 9000\nflags : fpu avx1024\n")
    monkeypatch.setattr(describe, "CPUINFO", cpuinfo)
    moved = runtime.compile(small_model(), PLAN)
    assert moved.cache == "miss"
    assert labels(native, moved) == ["toolchain.host.processor"]


def test_the_version_of_plan_files_invalidates_and_one_that_is_not_written_is_refused(
    runtime, first, monkeypatch
) -> None:
    current = f"{layout.VERSION_MAJOR}.{layout.VERSION_MINOR}"
    assert runtime.compile(small_model(), replace(PLAN, emit_version=current)).cache == "hit", "defaults are resolved"
    with pytest.raises(UsageError, match=rf"plan version 9\.9: this stowplan writes version {current}"):
        replace(PLAN, emit_version="9.9")
    monkeypatch.setattr(layout, "VERSION_MINOR", layout.VERSION_MINOR + 1)
    found = runtime.compile(small_model(), PLAN)
    assert found.cache == "miss"
    assert labels(first, found) == ["emit.plan"]


@pytest.mark.parametrize("step", [same, lambda graph: graph, ("same", "", same), ("same", None, same), ("", "1", same)])
def test_a_step_without_an_explicit_version_is_refused(step: Any) -> None:
    with pytest.raises(UsageError, match="version") as caught:
        CompilationPlan(memory="4K", steps=(step,))
    assert "\n" not in str(caught.value)


def test_a_steps_version_is_its_identity_and_its_code_is_not() -> None:
    def other(graph: Graph) -> Graph:
        return graph

    plans = [CompilationPlan(memory="4K", steps=(("s", version, run),)) for version, run in
             (("1", same), ("1", other), ("2", same))]  # fmt: skip
    assert plans[0].identity == plans[1].identity
    assert plans[0].identity != plans[2].identity
    assert "same" not in str(plans[0].declaration())


def test_a_step_whose_code_changed_under_the_same_version_is_warned_of(runtime) -> None:
    def renaming(name: str) -> Any:
        code = f"def step(graph):\n    pick = lambda a: a in {{'{name}', 'x', 'y'}}\n    return graph\n"
        space: dict[str, Any] = {}
        exec(code, space)
        return space["step"]

    def compiled(run: Any, version: str = "1") -> Artifact:
        return runtime.compile(small_model(), CompilationPlan(memory="4K", steps=(("rename", version, run),)))

    assert compiled(renaming("a")).cache == "miss"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert compiled(renaming("a")).cache == "hit", "the same code from another place"
        assert compiled(renaming("b"), "2").cache == "miss", "a new version is what is asked for"
    with pytest.warns(UserWarning, match="^step rename: its code changed and its version is still 1: ") as said:
        assert compiled(renaming("b")).cache == "hit"
    assert len(said) == 1


def test_a_step_without_byte_code_and_a_forged_entry_are_not_warned_of() -> None:
    step = Step(name="s", version="1", run=partial(same))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert steps_meta([step])["steps"]["code"] == {}
        own = Step(name="s", version="1", run=same)
        for meta in ({}, {"steps": 3}, {"steps": {"python": sys.version, "code": 3}}, {"steps": {"python": "2.7"}}):
            warn_of_changed_code(meta, [step, own])


def test_a_step_is_run_and_its_graph_is_what_is_compiled(runtime) -> None:
    ran: list[str] = []

    def rename(graph: Graph) -> Graph:
        ran.append(graph.name)
        return replace(graph, name="renamed by a step")

    plan = CompilationPlan(memory="4K", steps=(Step(name="rename", version="1", run=rename),))
    assert runtime.compile(small_model(), plan).facts.name == "renamed by a step"
    assert runtime.compile(small_model(), plan).cache == "hit"
    assert ran == ["model"]


@pytest.mark.parametrize("factor", [0.9, 101, float("nan"), "much"])
def test_a_plan_that_computes_less_than_once_is_refused(factor: Any) -> None:
    with pytest.raises(UsageError, match=f"^recompute {factor}: write a factor from 1"):
        CompilationPlan(memory="4K", recompute=factor)


@pytest.mark.parametrize("option", ["memory", "target", "xip", "nonsense"])
def test_beside_a_plan_only_runtime_options_may_be_given(runtime, option: str) -> None:
    with pytest.raises(UsageError, match=rf"option '{option}' beside a plan: the plan decides that"):
        runtime.compile(small_model(), PLAN, **{option: "4K"})


def test_without_a_plan_options_make_one_and_unknown_ones_are_refused(runtime, first: Artifact) -> None:
    assert runtime.compile(small_model(), memory="4K").cache == "hit"
    assert runtime.compile(small_model(), memory=(("fast", 4096),)).cache == "hit"
    with pytest.raises(UsageError, match="no option 'memroy': options are"):
        runtime.compile(small_model(), memroy="4K")


def test_labels_reach_telemetry_and_no_key(runtime, first: Artifact) -> None:
    seen: list[Mapping[str, Any]] = []
    plan = replace(PLAN, labels={"board": "blue"})
    found = runtime.compile(small_model(), plan, telemetry=lambda name, facts: seen.append(facts))
    assert (found.cache, plan.identity) == ("hit", PLAN.identity)
    assert all(facts["board"] == "blue" for facts in seen)


def test_refusals_are_not_cached(runtime, store: Store) -> None:
    for _ in range(2):
        with pytest.raises(DoesNotFit):
            runtime.compile(small_model(), memory="32")
    with pytest.raises(ModelError):
        runtime.compile(b"")
    assert list(store.all_keys()) == []


def test_memory_disk_and_both_can_be_chosen(monkeypatch, tmp_path: Path) -> None:
    monkeypatch.setenv("STOWPLAN_CACHE_DIR", str(tmp_path))
    memory = CompilationRuntime(Memory())
    assert [memory.compile(small_model(), PLAN).layer for _ in range(2)] == ["", "memory"]
    assert not (tmp_path / "store").exists()
    disk = CompilationRuntime("disk")
    assert [disk.compile(small_model(), PLAN).layer for _ in range(2)] == ["", "disk"]
    both = CompilationRuntime(Layered([Memory(), Store()]))
    assert [both.compile(small_model(), PLAN).layer for _ in range(2)] == ["disk", "memory"]
    with pytest.raises(UsageError, match="no cache 'cloud'"):
        CompilationRuntime("cloud")  # type: ignore[arg-type]


def test_memory_drops_the_least_recently_used() -> None:
    from cache_entries import entry

    memory = Memory(limit_bytes=3500)
    for number in range(3):
        memory.put(entry(number))
    memory.get(entry(0).key)
    memory.put(entry(3))
    assert [n for n in range(4) if memory.get(entry(n).key)] == [0, 2, 3]


def test_threads_that_want_one_key_compile_it_once() -> None:
    runtime = CompilationRuntime(Memory())
    seen: list[str] = []
    threads = [
        threading.Thread(target=lambda: seen.append(runtime.compile(small_model(), PLAN).cache)) for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(seen) == ["hit"] * 7 + ["miss"]


def test_invalidate_forgets_by_key_target_age_or_everything(runtime, first: Artifact) -> None:
    other = runtime.compile(small_model(), replace(PLAN, target="board-7"))
    assert runtime.invalidate(key=first.key) == 1
    assert runtime.compile(small_model(), PLAN).layer == "graph"
    assert runtime.invalidate(target="board-7") == 2, "its plan and its schedule"
    assert runtime.compile(small_model(), replace(PLAN, target="board-7")).key == other.key
    assert runtime.invalidate(older_than_seconds=3600) == 0
    assert runtime.invalidate(older_than_seconds=0) >= 3
    runtime.compile(small_model(), PLAN)
    assert runtime.invalidate(everything=True) == 2
    with pytest.raises(UsageError, match="exactly one"):
        runtime.invalidate()


def test_an_input_that_changes_during_the_build_is_not_cached(runtime, store: Store, tmp_path: Path) -> None:
    tool = tmp_path / "tool"
    tool.write_text("1")
    seen: list[str] = []

    def edit(graph: Graph) -> Graph:
        tool.write_text("22")
        return graph

    from stowplan.build import incremental
    from stowplan.build.identity import Identities
    from stowplan.build.telemetry import Telemetry

    identities = Identities(host())
    identities._watch([str(tool)])
    plan = CompilationPlan(memory="4K", steps=(Step(name="edit", version="1", run=edit),))
    path = tmp_path / "model.tflite"
    path.write_bytes(small_model())
    found = incremental.compile_incremental(
        plan.request(path), store, identities=identities,
        telemetry=Telemetry(lambda name, facts: seen.append(str(facts.get("reason", "")))),
    )  # fmt: skip
    assert found.data[:4] == b"STOW"
    assert list(store.all_keys()) == []
    assert any("changed during the build" in reason for reason in seen)


@needs_cc
def test_an_object_file_is_made_by_the_compiler_cached_and_links(runtime, first: Artifact, tmp_path: Path) -> None:
    seen: list[str] = []
    runtime.observer = lambda name, facts: seen.append(name)
    path = runtime.emit_object(first, tmp_path / "net.o")
    assert path.read_bytes()[:4] == b"\x7fELF" or path.stat().st_size > 1000
    assert "emit" in seen
    made = path.read_bytes()
    main = tmp_path / "main.c"
    main.write_text(
        '#include "net.h"\n#include <stdio.h>\nint main(void) { printf("%d", NET_INPUT_0_BYTES); return 0; }\n'
    )
    subprocess.run(["cc", str(main), str(path), "-o", str(tmp_path / "m"), "-lm"], check=True)
    assert subprocess.run([str(tmp_path / "m")], capture_output=True, text=True, check=True).stdout == "64"
    seen.clear()
    again = runtime.emit_object(first, tmp_path / "net.o")
    assert (seen, again.read_bytes()) == (["hit"], made)
    runtime.emit_object(first, tmp_path / "net.o", flags=("-std=c11", "-O0"))
    runtime.emit_object(first, tmp_path / "net.o", name="other")
    assert seen == ["hit", "emit", "emit"]


def test_a_compiler_that_is_missing_or_fails_is_one_line(runtime, first: Artifact, tmp_path: Path) -> None:
    from stowplan.errors import RuntimeFailure

    with pytest.raises(RuntimeFailure, match=r"there is no program no-such-cc"):
        runtime.emit_object(first, tmp_path / "net.o", compiler="no-such-cc -mcpu=cortex-m7")
    with pytest.raises(RuntimeFailure, match=r"could not translate the generated C: .*error"):
        runtime.emit_object(first, tmp_path / "net.o", flags=("-Dint=+",))
    assert not (tmp_path / "net.o").exists()


def test_a_loaded_model_is_called_and_timed(runtime, first: Artifact) -> None:
    seen: list[str] = []
    runtime.observer = lambda name, facts: seen.append(name)
    with runtime.load(first) as model:
        outputs = model(bytes(64))
        assert [port.size_bytes for port in model.outputs] == [len(data) for data in outputs]
        assert model(bytes(64)) == outputs
    assert seen == ["load", "execution", "execution"]


def test_a_damaged_artifact_is_refused_at_load(runtime, first: Artifact) -> None:
    from stowplan.errors import PlanError

    data = bytearray(first.data)
    data[-20] ^= 1
    with pytest.raises(PlanError):
        runtime.load(replace(first, files={"plan.stow": bytes(data)}))
