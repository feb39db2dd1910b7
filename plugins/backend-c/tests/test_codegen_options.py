"""What generated sources can be asked for: a self test, weights elsewhere, functions of their own, hooks."""

from __future__ import annotations

import platform
import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from arriving import with_arrivals
from fitting import NO_FILE, fit
from graphs import small_cnn
from stowplan.build.planning import Lowering, PlanOptions, make_plan
from stowplan.errors import RuntimeFailure, UsageError
from stowplan.native.toolchain import find_compiler
from stowplan.planfile.kinds import NODE_KINDS
from stowplan.planfile.reader import read_plan
from stowplan.planfile.writer import write_plan
from stowplan.plugins.kinds import ScheduleOptions, SourceOptions
from stowplan_backend_c import CBackend
from tiny_plans import arriving_plan, averaging_plan, copying_plan

STRICT = ("-std=c11", "-O2", "-Wall", "-Wextra", "-Wshadow", "-Wconversion", "-Werror", "-ffp-contract=off")


def generate(plan: bytes, name: str = "net", **options: object) -> Mapping[str, bytes]:
    return CBackend().generate(plan, SourceOptions(name=name, **options))  # type: ignore[arg-type]


def write(folder: Path, files: Mapping[str, bytes]) -> None:
    for name, data in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)


def cc(folder: Path, *arguments: str) -> None:
    subprocess.run([*find_compiler().command, *STRICT, *arguments], cwd=folder, check=True, timeout=300)


def output_of(folder: Path, *arguments: str, data: bytes = b"") -> tuple[int, bytes]:
    done = subprocess.run([folder / "main", *arguments], input=data, capture_output=True, timeout=60)
    return done.returncode, done.stdout


@pytest.fixture(scope="module")
def cnn() -> bytes:
    """A plan with convolutions in little memory, so that rows move."""
    graph = small_cnn()
    return write_plan(make_plan(NO_FILE, Lowering(graph), fit(graph, 620).schedule, PlanOptions()))


@pytest.fixture(scope="module")
def camera() -> bytes:
    """The same network with its input streamed."""
    graph = small_cnn()
    schedule = with_arrivals(graph, fit(graph, 620).schedule, graph.inputs)
    options = PlanOptions(schedule=ScheduleOptions(streamed_inputs=graph.inputs))
    return write_plan(make_plan(NO_FILE, Lowering(graph), schedule, options))


PLANS = ["cnn", "camera", "averaging", "copying", "arriving"]


@pytest.fixture
def plan(request: pytest.FixtureRequest) -> bytes:
    made = {"averaging": averaging_plan, "copying": copying_plan, "arriving": arriving_plan}
    name: str = request.param
    return made[name]().file() if name in made else request.getfixturevalue(name)


@pytest.mark.parametrize("plan", PLANS, indirect=True)
def test_the_self_test_of_a_program_passes(plan: bytes, tmp_path: Path) -> None:
    write(tmp_path, generate(plan, format="app"))
    cc(tmp_path, "net.c", "-o", "main")
    assert output_of(tmp_path, "--selftest") == (0, b"the self test passed\n")


def test_the_self_test_notices_one_changed_weight(cnn: bytes, tmp_path: Path) -> None:
    view = read_plan(cnn)
    start, _, _ = view.sections["weights"]
    source = generate(cnn, format="app")["net.c"].decode()
    head, plan = source.split("net_plan[")
    words = list(re.finditer("0x[0-9a-f]{8}", plan))
    word = words[(start + view.records("constants")[0]["offset_bytes"]) // 4]
    plan = plan[: word.start()] + f"0x{int(word[0], 16) ^ 0x40404040:08x}" + plan[word.end() :]
    (tmp_path / "net.c").write_text(head + "net_plan[" + plan)
    cc(tmp_path, "net.c", "-o", "main")
    assert output_of(tmp_path, "--selftest") == (1, b"the self test failed\n")


def test_without_a_self_test_nothing_of_it_is_generated_and_nothing_is_run(
    cnn: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CC", "no-such-compiler")
    for text in generate(cnn, selftest=False).values():
        assert b"selftest" not in text
        assert b"GOLDEN" not in text


def test_a_self_test_without_a_compiler_says_how_to_do_without(cnn: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    from stowplan_backend_c.binding import runtime

    monkeypatch.setenv("CC", "no-such-compiler")
    runtime.cache_clear()
    try:
        with pytest.raises(RuntimeFailure, match=r"the self test needs a run here: .*no-such-compiler.*--no-selftest"):
            generate(cnn)
    finally:
        runtime.cache_clear()


SELFTEST = """
#include "net.h"
static _Alignas(NET_ARENA_ALIGN) uint8_t fast[NET_FAST_BYTES + 1], slow[NET_SLOW_BYTES + 1];
static net_context context;
int main(void)
{
    return net_init(&context, fast, NET_FAST_BYTES, slow, NET_SLOW_BYTES) == NET_OK ? (int)net_selftest(&context) : 99;
}
"""


@pytest.mark.parametrize(
    ("plan", "weights", "specialize"),
    [("cnn", "c", "none"), ("cnn", "bin", "hot"), ("cnn", "inline", "all"), ("camera", "c", "all")],
    indirect=["plan"],
)
def test_cores_with_weights_elsewhere_and_functions_of_their_own_pass_their_self_test(
    plan: bytes, weights: str, specialize: str, tmp_path: Path
) -> None:
    files = generate(plan, weights=weights, specialize=specialize)
    expected = {"inline": set(), "c": {"net_weights.c"}, "bin": {"net_weights.c", "net_weights.bin"}}[weights]
    assert set(files) == {"net.c", "net.h"} | expected
    write(tmp_path, files | {"main.c": SELFTEST.encode()})
    sources = sorted(name for name in [*files, "main.c"] if name.endswith(".c"))
    cc(tmp_path, "-DNET_CHECK_DIGEST=1", *sources, "-o", "main")
    assert output_of(tmp_path) == (0, b"")


def test_a_binary_of_weights_is_the_plan_itself(cnn: bytes) -> None:
    assert generate(cnn, weights="bin")["net_weights.bin"] == cnn


@pytest.mark.skipif(shutil.which("objdump") is None, reason="needs objdump")
@pytest.mark.parametrize("weights", ["inline", "c"])
def test_weights_lie_in_the_section_they_are_told_to(cnn: bytes, weights: str, tmp_path: Path) -> None:
    write(tmp_path, generate(cnn, weights=weights))
    source = "net.c" if weights == "inline" else "net_weights.c"
    cc(tmp_path, '-DNET_WEIGHTS_ATTR=__attribute__((section(".flash")))', "-c", source, "-o", "net.o")
    done = subprocess.run(["objdump", "-h", "net.o"], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert ".flash" in done.stdout


def test_hot_takes_fewer_nodes_than_all_and_none_takes_none(cnn: bytes) -> None:
    counts = [
        generate(cnn, specialize=choice, selftest=False)["net.c"].decode().count("STOW_ALONE static void")
        for choice in ("none", "hot", "all")
    ]
    assert 0 == counts[0] < counts[1] < counts[2]


WATCHED = """
#include <stdio.h>
#include "net.h"
static _Alignas(NET_ARENA_ALIGN) uint8_t fast[NET_FAST_BYTES + 1], slow[NET_SLOW_BYTES + 1];
static net_context context;
void stage_hook(uint32_t stage, int begins);
void node_hook(uint32_t node, uint32_t units, int begins);
void stage_hook(uint32_t stage, int begins)
{
    printf("%c%u ", begins ? '<' : '>', (unsigned)stage);
}
void node_hook(uint32_t node, uint32_t units, int begins)
{
    if (!begins) {
        printf("%u:%u ", (unsigned)node, (unsigned)units);
    }
}
int main(void)
{
    return net_init(&context, fast, NET_FAST_BYTES, slow, NET_SLOW_BYTES) == NET_OK ? (int)net_selftest(&context) : 99;
}
"""


@pytest.mark.parametrize("plan", ["cnn", "camera"], indirect=True)
def test_an_application_can_watch_stages_and_nodes(plan: bytes, tmp_path: Path) -> None:
    write(tmp_path, generate(plan) | {"main.c": WATCHED.encode()})
    cc(tmp_path, "-DNET_ON_STAGE=stage_hook", "-DNET_ON_NODE=node_hook", "net.c", "main.c", "-o", "main")
    view = read_plan(plan)
    nodes, firings = view.records("nodes"), view.records("firings")
    expected = []
    for number, stage in enumerate(view.records("stages")):
        mine = firings[stage["first_firing"] : stage["first_firing"] + stage["firing_count"]]
        computed = [f for f in mine if nodes[f["node"]]["kind"] != NODE_KINDS["receive"].code]
        expected += [f"<{number}", *(f"{f['node']}:{f['count']}" for f in computed), f">{number}"]
    assert output_of(tmp_path) == (0, (" ".join(expected) + " ").encode())


SHARED = """
#include "a.h"
#include "b.h"
#define MAX(a, b) ((a) > (b) ? (a) : (b))
static _Alignas(16) uint8_t fast[MAX(A_FAST_BYTES, B_FAST_BYTES) + 1], slow[MAX(A_SLOW_BYTES, B_SLOW_BYTES) + 1];
static a_context first;
static b_context second;
int main(void)
{
    if (a_init(&first, fast, sizeof fast, slow, sizeof slow) != A_OK ||
        b_init(&second, fast, sizeof fast, slow, sizeof slow) != B_OK) {
        return 1;
    }
    for (int i = 0; i < 3; i++) {
        if (a_selftest(&first) != A_OK || b_selftest(&second) != B_OK) {
            return 2;
        }
    }
    return 0;
}
"""


def test_two_models_share_arenas_as_large_as_the_larger_of_them(cnn: bytes, tmp_path: Path) -> None:
    write(tmp_path, generate(cnn, "a") | generate(copying_plan().file(), "b") | {"main.c": SHARED.encode()})
    cc(tmp_path, "a.c", "b.c", "main.c", "-o", "main")
    assert output_of(tmp_path) == (0, b"")


@pytest.mark.skipif(shutil.which("nm") is None, reason="needs nm")
@pytest.mark.parametrize("specialize", ["none", "all"])
def test_a_core_has_no_variables_and_needs_no_library(cnn: bytes, specialize: str, tmp_path: Path) -> None:
    write(tmp_path, generate(cnn, specialize=specialize))
    cc(tmp_path, "-fno-pie", "-c", "net.c", "-o", "net.o")  # or tables of functions are variables of the loader
    done = subprocess.run(["nm", "net.o"], cwd=tmp_path, capture_output=True, text=True, check=True)
    lines = [line.split() for line in done.stdout.splitlines()]
    assert not [words for words in lines if words[-2] in "DdBbC"]
    needed = {words[-1].lstrip("_") for words in lines if words[-2] == "U"}
    assert needed <= {"memcpy", "memmove", "memset", "GLOBAL_OFFSET_TABLE_"}


CROSS = {
    "portable": ("arm-none-eabi-gcc", "-mcpu=cortex-m4", "-mthumb"),
    "dsp": ("arm-none-eabi-gcc", "-mcpu=cortex-m4", "-mthumb"),
    "helium": ("arm-none-eabi-gcc", "-mcpu=cortex-m55", "-mthumb", "-mfloat-abi=hard"),
    "neon": ("aarch64-linux-gnu-gcc", "-march=armv8.2-a+dotprod"),
}


@pytest.mark.parametrize("kernels", ["auto", "portable", "x86"])
def test_each_set_of_kernels_that_runs_here_passes_the_self_test(cnn: bytes, kernels: str, tmp_path: Path) -> None:
    if kernels == "x86" and platform.machine() not in ("x86_64", "AMD64"):
        pytest.skip("needs an x86-64")
    write(tmp_path, generate(cnn, format="app", kernels=kernels))
    cc(tmp_path, "net.c", "-o", "main")
    assert output_of(tmp_path, "--selftest")[0] == 0


@pytest.mark.parametrize("kernels", CROSS)
def test_a_source_for_one_set_has_no_other_and_compiles_for_its_core(cnn: bytes, kernels: str, tmp_path: Path) -> None:
    source = generate(cnn, kernels=kernels, selftest=False)
    text = source["net.c"].decode()
    assert [
        name for name in ("dsp", "helium", "neon", "sse2") if f"void stow_mm_{name}_s8(const stow_mm_s8 *mm)\n" in text
    ] == [name for name in ("dsp", "helium", "neon") if name == kernels]
    compiler, *flags = CROSS[kernels]
    if shutil.which(compiler) is None:
        pytest.skip(f"needs {compiler}")
    write(tmp_path, source)
    command = [compiler, *flags, *STRICT, "-c", "net.c", "-o", "net.o"]
    subprocess.run(command, cwd=tmp_path, check=True, timeout=300)


@pytest.mark.parametrize("kernels", ["auto", "portable", "neon"])
def test_an_application_for_another_processor_passes_its_self_test_under_emulation(
    cnn: bytes, kernels: str, tmp_path: Path
) -> None:
    compiler, emulator = "aarch64-linux-gnu-gcc", "qemu-aarch64"
    if shutil.which(compiler) is None or shutil.which(emulator) is None:
        pytest.skip(f"needs {compiler} and {emulator}")
    write(tmp_path, generate(cnn, format="app", kernels=kernels))
    command = [compiler, *STRICT, "-static", "net.c", "-o", "main"]
    subprocess.run(command, cwd=tmp_path, check=True, timeout=300)
    done = subprocess.run([emulator, "main", "--selftest"], cwd=tmp_path, capture_output=True, timeout=120)
    assert (done.returncode, done.stdout) == (0, b"the self test passed\n")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (dict(weights="flash"), "--weights flash: .*inline, c, bin"),
        (dict(specialize="some"), "--specialize some: .*none, hot, all"),
        (dict(kernels="mmx"), "--kernels mmx: .*auto, portable, dsp, helium, neon, x86"),
        (dict(package="yocto"), "--package yocto: .*cmake, zephyr, esp-idf, arduino, platformio"),
        (dict(format="app", weights="c"), "--format app: is one file; --weights c goes with --format core"),
        (dict(format="app", package="cmake"), "--format app: is no --package cmake"),
        (dict(package="arduino", weights="bin"), "--weights bin: arduino .* use --weights c"),
    ],
)
def test_options_that_do_not_exist_or_go_together_are_usage_errors(options: dict[str, str], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        generate(copying_plan().file(), **options)
