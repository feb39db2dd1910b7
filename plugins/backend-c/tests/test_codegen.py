"""Generated sources compile without a warning, link beside each other, and give the bytes that `run` gives."""

from __future__ import annotations

import random
import shutil
import struct
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from arriving import with_arrivals
from fitting import NO_FILE, fit
from graphs import small_cnn
from stowplan.build.pipeline import CompileRequest, compile_model
from stowplan.build.planning import Lowering, PlanOptions, make_plan
from stowplan.errors import PlanError, UsageError
from stowplan.native.toolchain import find_compiler
from stowplan.planfile.kinds import NODE_KINDS
from stowplan.planfile.reader import read_plan
from stowplan.planfile.writer import write_plan
from stowplan.plugins.kinds import ScheduleOptions, SourceOptions
from stowplan_backend_c import CBackend
from stowplan_backend_c.amalgam import amalgamate, pruned
from stowplan_backend_c.names import checked_name, safe_name
from tiny_plans import arriving_plan, averaging_plan, copying_plan

STRICT = ("-std=c11", "-O2", "-Wall", "-Wextra", "-Wshadow", "-Wconversion", "-Werror", "-ffp-contract=off")
DATA = bytes(range(100, 132))
FLOATS = struct.pack("<8f", 1, 10, 2, 20, 3, 30, 6, 40)


def generate(plan: bytes, name: str, form: str) -> Mapping[str, bytes]:
    return CBackend().generate(plan, SourceOptions(name=name, format=form))


def write(folder: Path, files: Mapping[str, bytes]) -> None:
    for name, data in files.items():
        (folder / name).write_bytes(data)


def cc(folder: Path, *arguments: str) -> None:
    subprocess.run([*find_compiler().command, *STRICT, *arguments], cwd=folder, check=True, timeout=300)


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The copying plan as a program."""
    folder = tmp_path_factory.mktemp("app")
    write(folder, generate(copying_plan().file(), "copier", "app"))
    cc(folder, "copier.c", "-o", "copier")
    return folder / "copier"


def test_an_app_reads_standard_input_and_prints_hexadecimal(app: Path) -> None:
    done = subprocess.run([app], input=DATA, capture_output=True, timeout=60)
    assert (done.returncode, done.stdout) == (0, DATA.hex().encode() + b"\n")


def test_an_app_reads_files_and_writes_raw_bytes(app: Path, tmp_path: Path) -> None:
    (tmp_path / "x.bin").write_bytes(DATA)
    done = subprocess.run([app, "--raw", tmp_path / "x.bin"], capture_output=True, timeout=60)
    assert (done.returncode, done.stdout) == (0, DATA)


@pytest.mark.parametrize("data", [DATA[:-1], DATA + b"x", b""])
def test_an_app_refuses_input_of_the_wrong_size(app: Path, data: bytes, tmp_path: Path) -> None:
    (tmp_path / "x.bin").write_bytes(data)
    for arguments, given in ([], data), ([tmp_path / "x.bin"], b""):
        done = subprocess.run([app, *arguments], input=given, capture_output=True, timeout=60)
        assert (done.returncode, done.stdout) == (1, b"")
        assert len(done.stderr.splitlines()) == 1


def test_an_app_says_how_it_is_used(app: Path, tmp_path: Path) -> None:
    done = subprocess.run([app, "a", "b"], capture_output=True, text=True, timeout=60)
    assert done.returncode == 2
    assert "2 files given, the model has 1 inputs" in done.stderr
    done = subprocess.run([app, str(tmp_path / "none")], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (1, "")


USER = r"""
#include <stdio.h>
#include <string.h>
#include "copier.h"
#include "mean.h"

static _Alignas(COPIER_ARENA_ALIGN) uint8_t fast[COPIER_FAST_BYTES];
static _Alignas(COPIER_ARENA_ALIGN) uint8_t slow[COPIER_SLOW_BYTES];
static _Alignas(MEAN_ARENA_ALIGN) uint8_t sums[MEAN_FAST_BYTES];
static copier_context first;
static mean_context second;

int main(void)
{
    const float values[8] = {1, 10, 2, 20, 3, 30, 6, 40};
    const size_t shape[] = COPIER_INPUT_0_SHAPE;
    float means[2];
    _Static_assert(COPIER_INPUT_COUNT == 1 && COPIER_OUTPUT_COUNT == 1 && COPIER_INPUT_X == 0, "ports");
    _Static_assert(COPIER_INPUT_0_BYTES == 32 && COPIER_INPUT_0_ZERO_POINT == -3 && COPIER_ABI == 1, "facts");
    _Static_assert(MEAN_SLOW_BYTES == 0 && MEAN_INPUT_0_RANK == 4, "no slow memory");
    if (shape[1] != 4 || COPIER_INPUT_0_SCALE < 0.5f || COPIER_INPUT_0_SCALE > 0.5f) {
        return 1;
    }
    if (copier_init(&first, fast, sizeof fast - 1, slow, sizeof slow) != COPIER_SMALL_ARENA ||
        copier_init(&first, fast + 4, sizeof fast, slow, sizeof slow) != COPIER_MISALIGNED) {
        return 2;
    }
    if (copier_init(&first, fast, sizeof fast, slow, sizeof slow) != COPIER_OK ||
        mean_init(&second, sums, sizeof sums, NULL, 0) != MEAN_OK) {
        return 3;
    }
    if (copier_input(&first, 1) != NULL || copier_output(&first, 1) != NULL) {
        return 4;
    }
    memset(copier_input(&first, COPIER_INPUT_X), 'o', COPIER_INPUT_0_BYTES);
    memcpy(mean_input(&second, 0), values, sizeof values);
    if (copier_invoke(&first) != COPIER_OK || mean_invoke(&second) != MEAN_OK) {
        return 5;
    }
    memcpy(means, mean_output(&second, 0), sizeof means);
    printf("%.32s %g %g\n", (const char *)copier_output(&first, 0), (double)means[0], (double)means[1]);
    return 0;
}
"""


def test_two_cores_link_into_one_program(tmp_path: Path) -> None:
    write(tmp_path, generate(copying_plan().file(), "copier", "core"))
    write(tmp_path, generate(averaging_plan().file(), "mean", "core"))
    (tmp_path / "main.c").write_text(USER)
    cc(tmp_path, "-DCOPIER_CHECK_DIGEST=1", "main.c", "copier.c", "mean.c", "-o", "main")
    done = subprocess.run([tmp_path / "main"], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (0, "o" * 32 + " 3 25\n")


PUSHER = r"""
#include <stdio.h>
#include <string.h>
#include "camera.h"

static _Alignas(CAMERA_ARENA_ALIGN) uint8_t fast[CAMERA_FAST_BYTES];
static camera_context context;

_Static_assert(CAMERA_INPUT_0_ROWS == 4 && CAMERA_INPUT_0_ROW_BYTES == 8 && CAMERA_INPUT_0_BYTES == 32, "x");
_Static_assert(CAMERA_INPUT_2_ROWS == 2 && CAMERA_INPUT_2_ROW_BYTES == 4, "z");
#ifdef CAMERA_INPUT_1_ROWS
#error "u is in memory as a whole"
#endif

int main(void)
{
    uint8_t row[8];
    uint8_t next = 'a';
    if (camera_init(&context, fast, sizeof fast, NULL, 0) != CAMERA_OK ||
        camera_push_rows(&context, CAMERA_INPUT_X, row, 1) != CAMERA_NOT_BEGUN) {
        return 1;
    }
    if (camera_input(&context, CAMERA_INPUT_X) != NULL || camera_input(&context, CAMERA_INPUT_U) == NULL) {
        return 2;
    }
    memset(camera_input(&context, CAMERA_INPUT_U), 'u', CAMERA_INPUT_1_BYTES);
    camera_status status = camera_begin(&context);
    if (camera_push_rows(&context, CAMERA_INPUT_Z, row, 1) != CAMERA_WRONG_INPUT ||
        camera_push_rows(&context, CAMERA_INPUT_X, row, camera_rows_wanted(&context) + 1) != CAMERA_TOO_MANY) {
        return 3;
    }
    while (status == CAMERA_MORE) {
        const uint32_t input = camera_waiting_for(&context);
        memset(row, next++, sizeof row);
        status = camera_push_rows(&context, input, row, 1);
    }
    if (status != CAMERA_OK || camera_waiting_for(&context) != UINT32_MAX) {
        return 4;
    }
    for (uint32_t i = 0; i < CAMERA_OUTPUT_COUNT; i++) {
        printf("%.*s ", i == 0 ? CAMERA_OUTPUT_0_BYTES : CAMERA_OUTPUT_1_BYTES, (char *)camera_output(&context, i));
    }
    return 0;
}
"""


def test_a_core_with_streamed_inputs_takes_rows_from_its_application(tmp_path: Path) -> None:
    write(tmp_path, generate(arriving_plan().file(), "camera", "core"))
    (tmp_path / "main.c").write_text(PUSHER)
    cc(tmp_path, "main.c", "camera.c", "-o", "main")
    done = subprocess.run([tmp_path / "main"], capture_output=True, text=True, timeout=60)
    rows = [letter * size for letter, size in (("a", 8), ("b", 8), ("d", 8), ("e", 8), ("c", 4), ("f", 4))]
    assert (done.returncode, done.stdout) == (0, "".join(rows[:4]) + " " + "u" * 8 + " " + "".join(rows[4:]) + " ")


STARTED_OVER = """
#include "net.h"

static _Alignas(NET_ARENA_ALIGN) uint8_t fast[NET_FAST_BYTES];
static net_context context;

int main(void)
{
    if (net_init(&context, fast, sizeof fast, NULL, 0) != NET_OK || net_begin(&context) != NET_MORE) {
        return 1;
    }
    if (net_begin(&context) != NET_UNFINISHED || net_begin(&context) != NET_UNFINISHED) {
        return 2;
    }
    net_reset(&context);
    return net_begin(&context) == NET_MORE ? 0 : 3;
}
"""


def test_a_run_that_was_left_has_to_be_reset_where_the_model_keeps_state(tmp_path: Path) -> None:
    pytest.importorskip("ai_edge_litert", reason="needs the package ai-edge-litert")
    from state_models import shift_register

    path = tmp_path / "model.tflite"
    path.write_bytes(shift_register())
    plan = compile_model(CompileRequest(model_path=path, stream_inputs=("x",))).data
    write(tmp_path, generate(plan, "net", "core"))
    (tmp_path / "main.c").write_text(STARTED_OVER)
    cc(tmp_path, "main.c", "net.c", "-o", "main")
    assert subprocess.run([tmp_path / "main"], check=False, timeout=60).returncode == 0


@pytest.mark.parametrize("streamed", [False, True])
def test_only_what_a_plan_needs_of_the_two_ways_to_run_is_declared(streamed: bool) -> None:
    plan = (arriving_plan() if streamed else copying_plan()).file()
    header, source = (generate(plan, "net", "core")[f"net.{end}"].decode() for end in "hc")
    assert ("net_push_rows" in header) == ("stow_push_rows(stow_context" in source) == streamed
    assert ("net_invoke" in header) is not streamed
    assert "STOW_WITH_RECEIVE" not in header


@pytest.fixture(scope="module")
def camera(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The arriving plan as a program, and files for its three inputs."""
    folder = tmp_path_factory.mktemp("camera")
    write(folder, generate(arriving_plan().file(), "camera", "app"))
    cc(folder, "camera.c", "-o", "camera")
    write(folder, {"x": DATA, "u": DATA[:8], "z": DATA[8:16]})
    return folder / "camera"


def test_an_app_reads_the_rows_of_streamed_inputs_when_they_are_needed(camera: Path) -> None:
    done = subprocess.run([camera, "--raw", "x", "u", "z"], cwd=camera.parent, capture_output=True, timeout=60)
    assert (done.returncode, done.stdout) == (0, DATA + DATA[:8] + DATA[8:16])


@pytest.mark.parametrize(
    ("files", "code", "words"),
    [
        ((), 2, "0 files given, the model has 3 inputs"),
        (("x", "u"), 2, "2 files given"),
        (("x", "u", "none"), 1, "none: cannot be opened"),
        (("u", "u", "z"), 1, "u: ends before the 32 bytes that the input has"),
        (("x", "u", "u", "u"), 2, "4 files given"),
        (("x", "z", "x"), 1, "x: has more bytes than the model's input"),
        (("x", "x", "z"), 1, "x: has more bytes"),
        (("x", "empty", "z"), 1, "empty: 0 bytes, the input has 8"),
    ],
)
def test_an_app_with_streamed_inputs_refuses_wrong_files(
    camera: Path, files: tuple[str, ...], code: int, words: str
) -> None:
    (camera.parent / "empty").write_bytes(b"")
    done = subprocess.run([camera, *files], cwd=camera.parent, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (code, "")
    assert words in done.stderr
    assert done.stderr.count("\n") == 1


def test_an_app_reads_one_streamed_input_from_standard_input(tmp_path: Path) -> None:
    graph = small_cnn()
    schedule = with_arrivals(graph, fit(graph, 620).schedule, graph.inputs)
    options = PlanOptions(schedule=ScheduleOptions(streamed_inputs=graph.inputs))
    plan = write_plan(make_plan(NO_FILE, Lowering(graph), schedule, options))
    write(tmp_path, generate(plan, "camera", "app"))
    cc(tmp_path, "-DCAMERA_CHECK_DIGEST=1", "camera.c", "-o", "camera")
    compiled = CBackend().compile(plan)
    for seed in range(5):
        image = random.Random(seed).randbytes(288)
        done = subprocess.run([tmp_path / "camera", "--raw"], input=image, capture_output=True, check=True, timeout=60)
        assert done.stdout == compiled.run([image])[0]
    for wrong in (image[1:], image + b"x"):
        done = subprocess.run([tmp_path / "camera"], input=wrong, capture_output=True, timeout=60)
        assert (done.returncode, done.stdout, done.stderr.count(b"\n")) == (1, b"", 1)


@pytest.mark.skipif(shutil.which("nm") is None, reason="needs nm")
def test_a_core_exports_only_names_that_begin_with_its_own(tmp_path: Path) -> None:
    write(tmp_path, generate(copying_plan().file(), "copier", "core"))
    cc(tmp_path, "-c", "copier.c", "-o", "copier.o")
    done = subprocess.run(["nm", "-g", "copier.o"], cwd=tmp_path, capture_output=True, text=True, check=True)
    lines = [line.split() for line in done.stdout.splitlines()]
    defined = {words[-1].lstrip("_") for words in lines if words[-2] != "U"}
    needed = {words[-1].lstrip("_") for words in lines if words[-2] == "U"}
    assert defined == {f"copier_{name}" for name in ("init", "input", "output", "invoke", "reset", "selftest")}
    assert needed <= {"memcpy", "memmove", "memset", "GLOBAL_OFFSET_TABLE_"}


def test_weights_can_be_put_into_a_section(tmp_path: Path) -> None:
    write(tmp_path, generate(copying_plan().file(), "copier", "core"))
    attribute = '-DCOPIER_WEIGHTS_ATTR=__attribute__((section(".flash")))'
    cc(tmp_path, attribute, "-S", "copier.c", "-o", "copier.s")
    assert ".flash" in (tmp_path / "copier.s").read_text()


def test_a_damaged_plan_in_the_program_is_noticed_at_init(tmp_path: Path) -> None:
    files = dict(generate(copying_plan().file(), "copier", "app"))
    text = files["copier.c"].decode()
    word = "0x03020100"  # of the model's digest, which nothing but the plan's own digest looks at
    assert text.count(word) == 1
    files["copier.c"] = text.replace(word, "0x03020101").encode()
    write(tmp_path, files)
    for setting, status in (("0", 0), ("1", 1)):
        cc(tmp_path, f"-DCOPIER_CHECK_DIGEST={setting}", "copier.c", "-o", "copier")
        assert subprocess.run([tmp_path / "copier"], input=DATA, capture_output=True, timeout=60).returncode == status


def test_the_header_is_c_plus_plus_too(tmp_path: Path) -> None:
    if shutil.which("g++") is None:
        pytest.skip("needs g++")
    write(tmp_path, generate(copying_plan().file(), "copier", "core"))
    (tmp_path / "user.cpp").write_text('#include "copier.h"\nint main() { return COPIER_OK; }\n')
    subprocess.run(["g++", "-Wall", "-Wextra", "-Werror", "-fsyntax-only", "user.cpp"], cwd=tmp_path, check=True)


def test_sources_state_digests_and_are_the_same_each_time() -> None:
    plan = copying_plan().file()
    files = generate(plan, "copier", "core")
    assert set(files) == {"copier.c", "copier.h"}
    assert files == generate(plan, "copier", "core")
    view = read_plan(plan)
    header = files["copier.h"].decode()
    assert f'#define COPIER_PLAN_DIGEST "{view.digest}"' in header
    assert f'#define COPIER_MODEL_DIGEST "{view.model_digest}"' in header


def test_a_port_name_that_tries_to_leave_its_comment_does_not(tmp_path: Path) -> None:
    plan = copying_plan()
    plan.strings = b'\0*/ #error "\\\n??/\0' + plan.strings
    for tensor in plan.tensors:
        tensor["name"] = 1
    plan.header["name"] = 1
    write(tmp_path, generate(plan.file(), "odd", "app"))
    cc(tmp_path, "odd.c", "-o", "odd")
    assert subprocess.run([tmp_path / "odd"], input=DATA, capture_output=True, timeout=60).returncode == 0


def test_a_scale_that_is_no_number_is_refused() -> None:
    plan = copying_plan()
    plan.tensors[0]["scale"] = float("nan")
    with pytest.raises(PlanError, match="the scale of x is nan"):
        generate(plan.file(), "copier", "core")


def test_a_node_kind_from_the_future_is_refused() -> None:
    plan = copying_plan()
    plan.nodes[0]["kind"] = 250
    with pytest.raises(PlanError, match="nodes of kind 250"):
        generate(plan.file(), "copier", "core")


@pytest.mark.parametrize("name", ["1st", "a-b", "a b", "ä", "x" * 65, "stow", "Stow_net", "a\n"])
def test_a_name_that_cannot_be_used_in_c_is_refused_with_one_that_can(name: str) -> None:
    with pytest.raises(UsageError) as caught:
        generate(copying_plan().file(), name, "core")
    assert checked_name(str(caught.value).rsplit("--name ", 1)[1])


def test_an_unknown_format_is_refused() -> None:
    with pytest.raises(UsageError, match="choose core, app"):
        generate(copying_plan().file(), "net", "library")


@pytest.mark.parametrize(
    ("model", "name"),
    [
        ("mlperf_vww_int8.tflite", "mlperf_vww_int8"),
        ("2-way Net.onnx", "model_2_way_net"),
        ("stow.tflite", "model_stow"),
        ("", "model"),
        ("日本", "model"),
        ("a" * 100, "a" * 58),
    ],
)
def test_a_models_name_is_made_fit_for_c(model: str, name: str) -> None:
    assert safe_name(model) == checked_name(name) == name


def test_no_name_means_the_models() -> None:
    assert set(generate(copying_plan().file(), "", "core")) == {"copying.c", "copying.h"}


@pytest.mark.parametrize("kind", [*NODE_KINDS, "all"])
def test_the_runtime_with_any_one_kernel_compiles_without_a_warning(kind: str, tmp_path: Path) -> None:
    kinds = set(NODE_KINDS) if kind == "all" else {kind}
    (tmp_path / "runtime.c").write_text(amalgamate(kinds, lz4=kind == "all", range_coder=kind in ("all", "copy")))
    cc(tmp_path, "-O0", "-c", "runtime.c", "-o", "runtime.o")


@pytest.mark.skipif(shutil.which("clang") is None, reason="needs clang, which warns of other things than gcc")
@pytest.mark.parametrize("kind", ["copy", "conv_2d_s8", "softmax_f32"])
def test_clang_has_nothing_to_say_either(kind: str, tmp_path: Path) -> None:
    (tmp_path / "runtime.c").write_text(amalgamate({kind}, lz4=True, range_coder=True))
    subprocess.run(["clang", *STRICT, "-c", "runtime.c", "-o", "runtime.o"], cwd=tmp_path, check=True, timeout=300)


@pytest.mark.parametrize("compressor", ["none", "lz4", "range"])
@pytest.mark.parametrize("dtype", ["int8", "float32"])
def test_an_app_with_every_kernel_gives_the_bytes_of_run(dtype: str, compressor: str, tmp_path: Path) -> None:
    model_of = pytest.importorskip("every_kernel", reason="needs ai-edge-litert and numpy").model_with_every_kernel
    if compressor == "lz4":
        pytest.importorskip("lz4", reason="needs the lz4 package")
    model = tmp_path / "model.tflite"
    model.write_bytes(model_of(dtype))
    fast_bytes = (3 if compressor == "none" else 16) << 10
    request = CompileRequest(model_path=model, pools=(("fast", fast_bytes), ("slow", 64 << 10)), compressor=compressor)
    plan = compile_model(request).data
    write(tmp_path, generate(plan, "every", "app"))
    cc(tmp_path, "every.c", "-o", "every")
    compiled = CBackend().compile(plan)
    rng = random.Random(dtype)
    for _ in range(5):
        image = struct.pack("<432f", *(rng.gauss(0, 2) for _ in range(432)))
        done = subprocess.run([tmp_path / "every", "--raw"], input=image, capture_output=True, check=True, timeout=60)
        assert done.stdout == b"".join(compiled.run([image]))


def test_kernels_that_are_not_used_are_not_in_the_source() -> None:
    text = amalgamate({"copy"}, lz4=False)
    assert "stow_copy_run" in text
    for absent in ("stow_conv_2d_s8_run", "stow_softmax_f32_run", "stow_lz4_decode", "stow_range_decode"):
        assert absent not in text


def test_pruning_follows_conditions_on_settings_and_leaves_all_others() -> None:
    source = (
        "#if STOW_WITH_A || STOW_WITH_B\none\n#else\ntwo\n#endif\n#ifdef X\n#if STOW_WITH_B\nthree\n#endif\n#endif\n"
    )
    assert pruned(source, {"STOW_WITH_A": True, "STOW_WITH_B": False}) == "one\n#ifdef X\n#endif\n"
    assert pruned(source, {"STOW_WITH_A": False, "STOW_WITH_B": False}) == "two\n#ifdef X\n#endif\n"
    assert pruned(source, {}) == source
    chain = "#if STOW_WITH_A\na\n#elif STOW_WITH_B\nb\n#elif STOW_WITH_C\nc\n#else\nd\n#endif\n"
    for kept in "ABCD":
        assert pruned(chain, {f"STOW_WITH_{name}": name >= kept for name in "ABC"}) == f"{kept.lower()}\n"
    assert pruned("#if !STOW_WITH_A && STOW_WITH_B\nx\n#endif\n", {"STOW_WITH_A": False, "STOW_WITH_B": True}) == "x\n"
