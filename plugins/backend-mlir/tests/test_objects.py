"""Object files: the code that runs here, linked into a C program by another compiler, gives the same bytes."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from mlir_sources import ADD, shared
from stowplan.errors import UsageError
from stowplan_backend_mlir import Context, compile, emit, emit_object, jit  # noqa: A004
from stowplan_backend_mlir.artifact import Artifact
from stowplan_backend_mlir.header import header
from tflite_builder import ModelBuilder

PROGRAM = """
#include <stdio.h>
#include "{name}.h"
static {kind}_t in[{upper}_IMAGE_ELEMENTS], out[{upper}_PROBABILITIES_ELEMENTS];
int main(void) {{
    if (fread(in, sizeof in, 1, stdin) != 1) return 1;
    {name}(in, out);
    return fwrite(out, sizeof out, 1, stdout) != 1;
}}
"""


@pytest.fixture(scope="module")
def artifact(digits: Path, context: Context) -> Artifact:
    return compile(digits, context=context)


def ran(folder: Path, name: str, data: bytes, compiler: str = "cc") -> bytes:
    source = folder / "main.c"
    source.write_text(PROGRAM.format(name=name, upper=name.upper(), kind="int8"))
    program = folder / "program"
    command = [compiler, "-Wall", "-Werror", str(source), str(folder / f"{name}.o"), "-lm", "-o", str(program)]
    subprocess.run(command, check=True)
    return subprocess.run([str(program)], input=data, capture_output=True, check=True).stdout


@pytest.mark.parametrize("opt_level", [0, 2])
def test_an_object_file_in_a_c_program_gives_the_bytes_of_the_jit(
    opt_level: int, artifact: Artifact, context: Context, tmp_path: Path
) -> None:
    path = emit_object(artifact, tmp_path / "deep" / "er" / "digits.o", name="digits", opt_level=opt_level,
                       context=context)  # fmt: skip
    assert path.is_absolute() and path.read_bytes()[:4] == b"\x7fELF"
    rng = np.random.default_rng(3)
    with jit(artifact, context=context) as code:
        for _ in range(5):
            data = rng.integers(-128, 128, 64).astype(np.int8).tobytes()
            assert ran(path.parent, "digits", data) == code.run([data])[0]


def test_the_same_artifact_and_name_give_the_same_object_in_any_process(digits: Path, context: Context) -> None:
    with Context() as other:
        objects = {
            emit(compile(digits, cache="off", context=one), name="a", context=one).data for one in (context, other)
        }
    assert len(objects) == 1


def test_two_models_in_one_program_do_not_get_in_each_other_s_way(
    artifact: Artifact, context: Context, tmp_path: Path
) -> None:
    for name in ("one", "two"):
        emit_object(artifact, tmp_path / f"{name}.o", name=name, context=context)
    source = tmp_path / "both.c"
    source.write_text('#include "one.h"\n#include "two.h"\nint8_t in[64], a[10], b[10];\n'
                      "int main(void) { one(in, a); two(in, b); return a[0] != b[0]; }\n")  # fmt: skip
    objects = [str(tmp_path / f"{name}.o") for name in ("one", "two")]
    subprocess.run(["cc", str(source), *objects, "-lm", "-o", str(tmp_path / "both")], check=True)
    assert subprocess.run([str(tmp_path / "both")], check=False).returncode == 0


def test_what_an_object_needs_from_elsewhere_is_the_heap_and_no_runtime_of_mlir(
    artifact: Artifact, context: Context
) -> None:
    made = emit(artifact, context=context)
    assert set(made.needs) <= {"malloc", "free", "memcpy"}
    vww = compile(shared("vww-person", "mlperf_vww_int8.tflite"), context=context)
    assert set(emit(vww, context=context).needs) <= {"malloc", "free", "memcpy"}


def test_llvm_s_text_is_code_for_another_compiler(artifact: Artifact, context: Context, tmp_path: Path) -> None:
    made = emit(artifact, form="llvm", name="digits", context=context)
    assert b"define void @digits(ptr" in made.data
    compiler = shutil.which("clang")
    if compiler is None:
        pytest.skip("needs clang")
    (tmp_path / "digits.ll").write_bytes(made.data)
    done = subprocess.run([compiler, "-O2", "-c", "-w", str(tmp_path / "digits.ll"), "-o", str(tmp_path / "digits.o")],
                          capture_output=True, text=True, check=False)  # fmt: skip
    if done.returncode:
        pytest.skip(f"this clang is too old for LLVM's text: {done.stderr.splitlines()[0]}")
    (tmp_path / "digits.h").write_text(made.header)
    with jit(artifact, context=context) as code:
        assert ran(tmp_path, "digits", bytes(64)) == code.run([bytes(64)])[0]


def test_names_that_c_does_not_take_become_identifiers_each_once(context: Context) -> None:
    model = ModelBuilder()
    names = ("serving default:0", "serving-default:0", "int", "3d", "Größe")
    inputs = [model.input(name, (2,), "float32") for name in names]
    y = model.tensor("", (2,), "float32")
    model.operator("PACK", inputs, [z := model.tensor("z", (5, 2), "float32")], values_count=5)
    model.operator("MEAN", [z, model.constant("axes", np.int32([0]))], [y], keep_dims=False)
    text = header(compile(model.outputs(y).build(), cache="off", context=context), "odd")
    parameters = re.findall(r"float \*(\w+)", text)
    assert len(set(parameters)) == 6
    assert parameters[:3] == ["serving_default_0", "serving_default_0_1", "int_2"] and parameters[3] == "t_3d"
    subprocess.run(["cc", "-x", "c", "-fsyntax-only", "-Wall", "-Werror", "-"], input=text, text=True, check=True)
    subprocess.run(["cc", "-x", "c++", "-fsyntax-only", "-"], input=text, text=True, check=True) if _cpp() else None


def _cpp() -> bool:
    return shutil.which("g++") is not None


def test_events_of_an_emission(artifact: Artifact, context: Context, tmp_path: Path) -> None:
    heard: list[str] = []
    emit_object(artifact, tmp_path / "a.o", context=context, telemetry=lambda name, _: heard.append(name))
    assert heard == ["codegen", "emit"]


def test_wrong_emissions_are_refused_in_one_line(artifact: Artifact, context: Context, tmp_path: Path) -> None:
    add = compile(ADD, context=context)
    early = compile(ADD, cache="off", context=context, pipeline=())
    for call, message in (
        (lambda: emit(artifact, form="wasm", context=context), "form is 'wasm': choose object or llvm"),
        (lambda: emit(artifact, name="9lives", context=context), "name '9lives': write a C identifier"),
        (lambda: emit(add, name="sum", context=context), "only a model's function gets a name"),
        (lambda: emit(artifact, opt_level=9, context=context), "opt_level is 9"),
        (lambda: emit_object(early, tmp_path / "a.o", context=context), "its pipeline ends before LLVM"),
        (lambda: emit(early, form="llvm", context=context), "its pipeline ends before LLVM"),
    ):
        with pytest.raises(UsageError) as err:
            call()
        assert message in str(err.value) and "\n" not in str(err.value)
    assert emit(add, context=context).header == ""
