"""Compilation: what a hit skips, what makes a miss, what a structure is, and refusals in one line."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mlir_sources import ADD, SPLIT
from stowplan.cache.layers import Memory
from stowplan.cache.store import Store
from stowplan.errors import ModelError, RuntimeFailure, StowplanError, UnsupportedError, UsageError
from stowplan.nouns import replace
from stowplan_backend_mlir import LLVM, CompilationPlan, Context, PassStep, Schedule, compile, invalidate  # noqa: A004
from stowplan_backend_mlir.artifact import BYTECODE
from stowplan_backend_mlir.installation import llvm_revision
from tflite_builder import ModelBuilder

TILE = """module attributes {transform.with_named_sequence} {
  transform.named_sequence @__transform_main(%root: !transform.any_op) {
    %size = transform.tune.knob<"size"> KNOB options = [2 : i64, 4 : i64] -> !transform.any_param
    %found = transform.structured.match ops{["linalg.matmul"]} in %root : (!transform.any_op) -> !transform.any_op
    transform.yield
  }
  transform.named_sequence @fails(%root: !transform.any_op) {
    %one, %loop = transform.structured.tile_using_for %root tile_sizes [2]
      : (!transform.any_op) -> (!transform.any_op, !transform.any_op)
    transform.yield
  }
}"""
DOUBLE = """module { func.func @double(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = tosa.add %x, %x : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32> } }"""


def rename(module: Any, _: Any) -> None:
    """A pass of a test's own: it marks the module."""
    from torch_mlir import ir

    module.attributes["acme.seen"] = ir.UnitAttr.get(module.context)


def explode(module: Any, _: Any) -> None:
    raise LookupError(f"nothing in {module.name}")


def give_up(module: Any, own: Any) -> None:
    own.signal_pass_failure()


def model(name: str = "x", doc: str = "a model", weight: float = 2.0, shape: tuple[int, ...] = (1, 4)) -> bytes:
    """A sum and a product; everything that has a name is called after `name`."""
    made = ModelBuilder(doc)
    x = made.input(name, shape, "float32")
    w = made.constant(f"{name}_weight", np.full((1, 4), weight, np.float32))
    total, out = made.tensor(f"{name}_sum", shape, "float32"), made.tensor(f"{name}_out", shape, "float32")
    made.operator("ADD", [x, w], [total])
    made.operator("MUL", [total, w], [out])
    return made.outputs(out).build()


def test_a_hit_parses_and_transforms_nothing_and_gives_the_same_bytes(digits: Path, context: Context) -> None:
    cache, heard = Memory(), list[str]()
    first = compile(digits, cache=cache, context=context)
    with Context() as untouched:
        second = compile(digits, cache=cache, context=untouched, telemetry=lambda name, _: heard.append(name))
        assert untouched.pid is None  # no process was started
    assert (first.cache, second.cache) == ("miss", "hit")
    assert first.bytecode == second.bytecode and first.key == second.key
    assert [name for name, spent in second.timings_ns.items() if spent] == ["lookup"]
    assert all(first.timings_ns.values())
    assert heard == ["lookup", "hit"]


def test_events_come_in_order_with_durations_and_the_plan_s_labels(context: Context) -> None:
    heard: list[tuple[str, Mapping[str, Any]]] = []
    plan = CompilationPlan(labels={"team": "vision"})
    compile(ADD, plan, cache=Memory(), context=context, telemetry=lambda name, facts: heard.append((name, facts)))
    assert [name for name, _ in heard] == ["lookup", "miss", "parse", "transform", "serialize"]
    assert all(facts["team"] == "vision" for _, facts in heard)
    assert all(facts["duration_ns"] >= 0 for name, facts in heard if name != "miss")


def test_an_observer_that_raises_does_not_fail_the_compilation(
    context: Context, capsys: pytest.CaptureFixture[str]
) -> None:
    def observer(name: str, facts: Mapping[str, Any]) -> None:
        raise ValueError("no")

    assert compile(ADD, cache="off", context=context, telemetry=observer).cache == "off"
    assert "an observer failed on lookup" in capsys.readouterr().err


@pytest.mark.parametrize("changed", [
    dict(pipeline=[*LLVM, "canonicalize"]), dict(transform_schedule=TILE.replace("KNOB", "= 2 : i64 from")),
    dict(target={"cpu": "m7"}), dict(schema_version="2"), dict(desired_emit_version=5),
    dict(context_options={"allow_unregistered_dialects": True}), dict(llvm_revision="other"),
    dict(pipeline=[*LLVM, PassStep(name="mark", version="1", run=rename)]), dict(pipeline_version="1"),
])  # fmt: skip
def test_every_input_makes_a_miss_of_its_own(changed: dict[str, Any], context: Context) -> None:
    cache = Memory()
    plain = compile(ADD, cache=cache, context=context)
    other = compile(ADD, cache=cache, context=context, **changed)
    if changed == {"pipeline_version": "1"}:  # there is no function that it would be the version of
        assert other.cache == "hit"
        return
    assert other.cache == "miss"
    assert plain.key != other.key and plain.lookup_key != other.lookup_key
    again = [compile(ADD, cache=cache, context=context, **options).cache for options in ({}, changed)]
    assert again == ["hit", "hit"]


def test_the_parts_of_a_schedule_are_in_the_key(context: Context) -> None:
    text = TILE.replace("KNOB ", "")
    schedules = [Schedule(data=text, choices={"size": size}) for size in (2, 4)]
    keys = {
        CompilationPlan(transform_schedule=schedule, transform_options=options).identity
        for schedule in schedules for options in ({}, {"expensive_checks": True})
    }  # fmt: skip
    assert len(keys) == 4


def test_what_only_tells_keys_apart_is_not_looked_at_for_labels() -> None:
    assert CompilationPlan(labels={"a": 1}).identity == CompilationPlan().identity
    assert CompilationPlan(desired_emit_version=6).identity == CompilationPlan().identity  # the default, written out


def test_a_plan_has_the_same_identity_in_another_process() -> None:
    code = (
        "from stowplan_backend_mlir import CompilationPlan; print(CompilationPlan(target={'b': 1, 'a': [2]}).identity)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == CompilationPlan(target={"a": [2], "b": 1}).identity


def test_a_model_with_other_names_has_the_same_structure_and_is_not_transformed_again(context: Context) -> None:
    cache, heard = Memory(), list[str]()
    one = compile(model("x"), cache=cache, context=context)
    two = compile(model("longer_name", doc="another"), cache=cache, context=context,
                  telemetry=lambda name, _: heard.append(name))  # fmt: skip
    assert one.structure == two.structure and one.bytecode == two.bytecode
    assert (two.cache, two.timings_ns["transform"]) == ("structure", 0) and "transform" not in heard
    assert one.key != two.key and one.inputs is not None and two.inputs is not None
    assert (one.inputs[0].name, two.inputs[0].name) == ("x", "longer_name")


@pytest.mark.parametrize("other", [dict(weight=2.5), dict(shape=(2, 4))])
def test_one_changed_weight_or_shape_is_another_structure(other: dict[str, Any], context: Context) -> None:
    structures = {compile(model(**given), cache="off", context=context).structure for given in ({}, other)}
    assert len(structures) == 2


def test_text_with_other_values_names_and_places_has_the_same_structure(context: Context) -> None:
    moved = "\n\n" + ADD.replace("%a", "%left").replace("%0", "%sum").replace("return", "\n  return")
    first, second = (compile(text, cache="off", context=context) for text in (ADD, moved))
    assert first.structure == second.structure
    assert first.structure != compile(ADD.replace("addi", "muli"), cache="off", context=context).structure


def test_the_structure_is_the_same_in_another_process(digits: Path, context: Context) -> None:
    here = compile(digits, cache="off", context=context)
    with Context() as other:
        there = compile(digits, cache="off", context=other)
    assert (here.structure, here.bytecode, here.key) == (there.structure, there.bytecode, there.key)


@pytest.mark.parametrize("version", range(7))
def test_bytecode_has_the_version_that_was_asked_for_and_can_be_read(version: int, context: Context) -> None:
    artifact = compile(ADD, cache="off", context=context, desired_emit_version=version)
    assert artifact.bytecode_version == version
    again = compile(artifact.bytecode, cache="off", context=context, pipeline=())
    assert again.bytecode_version == 6


def test_a_module_of_torch_mlir_is_a_source(context: Context) -> None:
    ir = pytest.importorskip("torch_mlir.ir")
    with ir.Context(), ir.Location.unknown():
        module = ir.Module.parse(ADD)
        found = compile(module, cache="off", context=context)
    assert found.structure == compile(ADD, cache="off", context=context).structure


def test_a_damaged_entry_is_a_miss_a_failure_event_and_repaired(tmp_path: Path, context: Context) -> None:
    heard, store = list[str](), Store(tmp_path)
    compile(ADD, cache=store, context=context)
    for path in store.objects():
        path.write_bytes(path.read_bytes()[:-3] + b"abc")
    assert compile(ADD, cache=store, context=context).cache == "miss"
    assert compile(ADD, cache=Store(tmp_path), context=context).cache == "hit"
    memory = Memory()
    made = compile(ADD, cache=memory, context=context)
    entry = memory.get(made.lookup_key)
    assert entry is not None
    for files, meta in (({BYTECODE: b"no bytecode"}, entry.meta), ({}, entry.meta), (entry.files, {"functions": 3})):
        memory.put(replace(entry, files=files, meta=meta))
        again = compile(ADD, cache=memory, context=context, telemetry=lambda name, _: heard.append(name))
        assert again.cache in ("miss", "structure") and again.bytecode == made.bytecode
    assert heard.count("failure") == 3


def test_an_entry_with_newer_bytecode_than_was_asked_for_is_not_used(context: Context) -> None:
    cache = Memory()
    old = compile(ADD, cache=cache, context=context, desired_emit_version=3)
    entry = cache.get(old.lookup_key)
    assert entry is not None
    newer = compile(ADD, cache="off", context=context)
    cache.put(replace(entry, files={BYTECODE: newer.bytecode}))
    assert compile(ADD, cache=cache, context=context, desired_emit_version=3).bytecode_version == 3


def test_a_cache_that_takes_nothing_fails_nothing_and_is_reported(tmp_path: Path, context: Context) -> None:
    heard: list[str] = []
    made = compile(ADD, cache=Store(tmp_path, read_only=True), context=context, telemetry=lambda n, _: heard.append(n))
    assert made.cache == "miss" and "failure" in heard


def test_invalidate_forgets_one_entry_or_all_and_nothing_of_others(context: Context) -> None:
    from stowplan.cache.entry import Entry

    cache = Memory()
    cache.put(Entry(document={"kind": "plan"}, files={}, meta={}))
    made = compile(ADD, cache=cache, context=context)
    compile(DOUBLE, cache=cache, context=context)
    assert invalidate(cache, made.lookup_key) == 1
    assert compile(ADD, cache=cache, context=context).cache == "structure"
    assert invalidate(cache) == 4
    assert compile(ADD, cache=cache, context=context).cache == "miss"
    assert [record.document["kind"] for _, record in cache.records()].count("plan") == 1
    assert invalidate("off") == 0


def test_failures_are_not_kept(context: Context) -> None:
    cache = Memory()
    for _ in range(2):
        with pytest.raises(ModelError):
            compile("module {", cache=cache, context=context)
    assert not list(cache.records())


def test_the_revision_names_the_release_and_the_library_and_stands_in_the_key(context: Context) -> None:
    assert re.fullmatch(r"torch-mlir \d+@[\w-]{16}", llvm_revision())
    artifact = compile(ADD, cache="off", context=context)
    assert artifact.document["llvm"] == llvm_revision()


def test_a_pass_in_python_runs_and_is_known_by_name_and_version(context: Context) -> None:
    step = PassStep(name="mark", version="3", run=rename)
    marked = compile(ADD, cache="off", context=context, pipeline=[step])
    assert b"acme.seen" in marked.bytecode
    assert ["mark", "3", f"{__name__}:rename"] in CompilationPlan(pipeline=[step]).declaration()["pipeline"]
    by_place = PassStep(name="mark", version="3", run=f"{__name__}:rename")
    assert compile(ADD, cache="off", context=context, pipeline=[by_place]).key == marked.key
    loose = compile(ADD, cache="off", context=context, pipeline=[rename], pipeline_version="3")
    assert b"acme.seen" in loose.bytecode


def test_nested_steps_are_passes_in_an_operation() -> None:
    plan = CompilationPlan(pipeline=[("func.func", ["canonicalize", "cse"])])
    assert plan.steps == ("func.func(canonicalize,cse)",)


def test_dialects_can_be_defined_for_a_compilation(context: Context) -> None:
    irdl = "irdl.dialect @acme { irdl.operation @noop { } }"
    source = "module { func.func @f() { acme.noop\n return } }"
    with pytest.raises(ModelError):
        compile(source, cache="off", context=context, pipeline=())
    text = source.replace("acme.noop", '"acme.noop"() : () -> ()')
    with pytest.raises(ModelError, match="unregistered dialect"):
        compile(text, cache="off", context=context, pipeline=())
    for options in ({"irdl": irdl}, {"allow_unregistered_dialects": True}):
        made = compile(text, cache="off", context=context, pipeline=(), schema_version="1", context_options=options)
        assert b"noop" in made.bytecode


def test_a_schedule_with_its_choices_transforms_and_its_refusals_name_the_knob(context: Context) -> None:
    text = TILE.replace("KNOB ", "")

    def made(schedule: Schedule, **more: Any) -> Any:
        return compile(DOUBLE, cache="off", context=context, transform_schedule=schedule, **more)

    assert made(Schedule(data=text, choices={"size": 2})).functions["double"].inputs[0]["shape"] == [4]
    for schedule, message in (
        (Schedule(data=text), "knob 'size' has no value; give one in choices"),
        (Schedule(data=text, choices={"size": 3}), "knob 'size' cannot be 3; it takes 2, 4"),
        (Schedule(data=text, choices={"width": 2}), "no knob 'width'; it has size"),
        (Schedule(data=text, sequence="x", choices={"size": 2}), "no sequence 'x'; it has __transform_main, fails"),
        (Schedule(data="module {"), "transform_schedule: MLIR cannot read it"),
    ):  # fmt: skip
        with pytest.raises(UsageError) as err:
            made(schedule)
        assert message in str(err.value)


def test_a_schedule_changes_the_code_and_not_the_result(context: Context) -> None:
    from stowplan_backend_mlir import jit

    codes = set()
    for size in (None, 2, 3):
        schedule = None if size is None else Schedule(data=SPLIT, choices={"size": size})
        artifact = compile(DOUBLE, cache="off", context=context, transform_schedule=schedule)
        codes.add(artifact.bytecode)
        with jit(artifact, context=context) as code:
            (found,) = code.run([np.arange(4, dtype=np.float32).tobytes()], "double")
            assert np.frombuffer(found, np.float32).tolist() == [0, 2, 4, 6]
    assert len(codes) == 3


@pytest.mark.parametrize(("call", "kind", "message"), [
    (lambda c: compile(ADD, CompilationPlan(), target="m7", context=c), UsageError, "option 'target' beside a plan"),
    (lambda c: compile(ADD, passes="cse", context=c), UsageError, "no option 'passes': options are"),
    (lambda c: compile(ADD, pipeline=[rename], context=c), UsageError, "pass rename: a function is no stable identity"),
    (lambda c: compile(ADD, pipeline=[rename], pipeline_version="", context=c), UsageError, "pipeline_version is ''"),
    (lambda c: CompilationPlan(pipeline=[PassStep(name="a", version="", run=rename)]), UsageError,
     "step 'a': needs an explicit version"),
    (lambda c: CompilationPlan(pipeline=[PassStep(name="", version="1", run=rename)]), UsageError,
     "step '': needs an explicit name"),
    (lambda c: CompilationPlan(pipeline=[PassStep(name="a", version="1", run=lambda m, p: None)]), UsageError,
     "step a: passes run in a process of their own, which cannot import"),
    (lambda c: CompilationPlan(pipeline=[("func.func", [PassStep(name="a", version="1", run=rename)])]), UsageError,
     "steps in func.func: only passes as text can be nested"),
    (lambda c: CompilationPlan(pipeline=[3]), UsageError, "step 3: write passes as text"),
    (lambda c: CompilationPlan(pipeline=3), UsageError, "pipeline is a int: write passes as text"),
    (lambda c: CompilationPlan(target=object()), UsageError, "cache input target: a object is no stable identity"),
    (lambda c: CompilationPlan(desired_emit_version=7), UsageError, "desired_emit_version is 7: bytecode has"),
    (lambda c: CompilationPlan(transform_options={"expensive_checks": True}), UsageError, "there is no transform_sch"),
    (lambda c: CompilationPlan(transform_schedule="a\n", transform_options={"fast": True}), UsageError,
     "transform_options: no option 'fast'; there are expensive_checks"),
    (lambda c: CompilationPlan(context_options={"threads": 3}), UsageError, "context_options: no option 'threads'"),
    (lambda c: compile(ADD, context=c, cache="off", context_options={"irdl": "nothing"}), UsageError,
     "irdl defines no dialects: "),
    (lambda c: compile(3, context=c), UsageError, "source is a int: give a file, bytes"),
    (lambda c: compile("missing.tflite", context=c), ModelError, "missing.tflite: no such file"),
    (lambda c: compile(b"\xff\xfe\0\1", context=c, cache="off"), ModelError, "is neither a TFLite model nor MLIR"),
    (lambda c: compile("module { func.func @f() { foo } }", context=c, cache="off"), ModelError,
     "source: MLIR cannot read it: custom op 'foo' is unknown"),
    (lambda c: compile(ADD, context=c, cache="off", pipeline="nonsense"), UsageError,
     "pipeline 'nonsense': 'nonsense' does not refer to a registered pass"),
    (lambda c: compile(DOUBLE, context=c, cache="off", pipeline="convert-func-to-llvm,func.func(canonicalize),"
                       "func.func(tosa-to-scf),convert-tensor-to-nothing"), UsageError, "convert-tensor-to-nothing"),
    (lambda c: compile(ADD, context=c, cache="off", pipeline=[PassStep(name="x", version="1", run=explode)]),
     RuntimeFailure, "step x 1 failed: LookupError: nothing in builtin.module"),
    (lambda c: compile(ADD, context=c, cache="off", pipeline=[PassStep(name="x", version="1", run=give_up)]),
     RuntimeFailure, "step x 1 failed: "),
    (lambda c: compile(ADD, context=c, cache="off", pipeline=[PassStep(name="x", version="1", run="nowhere:f")]),
     UsageError, "step x: nowhere:f cannot be imported"),
    (lambda c: compile(ADD, context=c, cache="off", pipeline=[PassStep(name="x", version="1", run="sys:path")]),
     UsageError, "step x: sys:path cannot be called"),
    (lambda c: compile(DOUBLE, context=c, cache="off", transform_schedule=Schedule(
        data=TILE.replace("KNOB ", ""), sequence="fails", choices={"size": 2})), UnsupportedError,
     "the transform schedule failed: only"),
    (lambda c: compile(ADD, cache="nowhere", context=c), UsageError, "no cache 'nowhere'"),
    (lambda c: invalidate("nowhere"), UsageError, "no cache 'nowhere'"),
])  # fmt: skip
def test_refusals_are_one_line_that_says_what_to_do(
    call: Callable[[Context], Any], kind: type[StowplanError], message: str, context: Context
) -> None:
    with pytest.raises(kind) as err:
        call(context)
    assert message in str(err.value)
    assert "\n" not in str(err.value)


def test_a_pass_that_fails_names_what_it_could_not_do(context: Context) -> None:
    custom = 'tosa.custom %x {operator_name = "a", domain_name = "b", implementation_attrs = ""} : (tensor<4xf32>)'
    source = DOUBLE.replace("tosa.add %x, %x : (tensor<4xf32>, tensor<4xf32>)", custom)
    with pytest.raises(UnsupportedError, match=r"source: a pass failed: .*tosa\.custom") as err:
        compile(source, cache="off", context=context)
    assert len(err.value.reasons) == 1


def test_the_documents_of_two_keys_say_what_differs(context: Context) -> None:
    from stowplan.cache.key import differences

    one, two = (compile(ADD, cache="off", context=context, target=name).document for name in ("m4", "m7"))
    assert [str(one) for one in differences(one, two)] == ["plan.target: m4 -> m7"]
    json.dumps(one)
