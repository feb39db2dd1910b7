"""Generated code has only what its plan comes to: which cases that are, the bytes it saves, weights of another plan."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path

import pytest

from operator_models import operator_model
from stowplan.build.pipeline import CompileRequest, compile_model
from stowplan.native.toolchain import find_compiler
from stowplan.planfile import layout
from stowplan.planfile.reader import read_plan
from stowplan.planfile.writer import digest_of
from stowplan.plugins.kinds import SourceOptions
from stowplan_backend_c import CBackend
from stowplan_backend_c.cases import cases

DIGITS = Path(__file__).resolve().parents[3] / "examples" / "digits" / "digits_int8.tflite"
VWW = Path(__file__).resolve().parents[4] / "shared" / "models" / "vww-person" / "mlperf_vww_int8.tflite"
TOOLS = "arm-none-eabi-"
KERNEL = re.compile(r"stow_\w+_(?:run|fetch_s8|dsp_s8|portable_s8)\b")
"""Kernels and what they call through pointers."""
ENTRY = """
#include "net.h"
static net_context context;
int result;
void _start(void);
void _start(void) { result = net_init(&context, &context, 0, &context, 0) + net_invoke(&context); for (;;) {} }
"""

INIT = """
#include "net.h"
static net_context context;
static _Alignas(NET_ARENA_ALIGN) uint8_t fast[NET_FAST_BYTES + 1], slow[NET_SLOW_BYTES + 1];
int main(void)
{
    const net_status status = net_init(&context, fast, NET_FAST_BYTES, slow, NET_SLOW_BYTES);
    return status == NET_OK ? 0 : status == NET_BAD_PLAN ? 3 : 4;
}
"""


def plan_of(path: Path) -> bytes:
    return compile_model(CompileRequest(model_path=path, prove=False, pools=())).data


def generate(plan: bytes, folder: Path, **options: object) -> None:
    for name, data in CBackend().generate(plan, SourceOptions(name="net", **options)).items():  # type: ignore[arg-type]
        (folder / name).write_bytes(data)


def functions(folder: Path) -> Mapping[str, int]:
    """Return the bytes of each function in the linked image of ENTRY, built for the Cortex-M4 with -Os."""
    (folder / "entry.c").write_text(ENTRY)
    flags = ["-std=c11", "-Os", "-mcpu=cortex-m4", "-mthumb", "-ffp-contract=off", "-ffunction-sections"]
    link = ["-nostartfiles", "-Wl,--gc-sections", "-Wl,--no-warn-rwx-segments", "-o", "image.elf"]
    for arguments in (["-fcallgraph-info", "-c", "net.c"], [*link, "entry.c", "net.o"]):
        subprocess.run([TOOLS + "gcc", *flags, *arguments], cwd=folder, check=True, timeout=300)
    listing = subprocess.run([TOOLS + "nm", "-S", "image.elf"], cwd=folder, check=True, capture_output=True, text=True)
    fields = [line.split() for line in listing.stdout.splitlines()]
    return {field[3]: int(field[1], 16) for field in fields if len(field) == 4 and field[2] in "tT"}


def reached(folder: Path, roots: Iterable[str]) -> set[str]:
    """Return the functions called from `roots`, directly or not, and themselves."""
    called: dict[str, set[str]] = {}
    edges = re.findall(r'edge: \{ sourcename: "([^"]+)" targetname: "([^"]+)"', (folder / "net.ci").read_text())
    for source, target in edges:
        called.setdefault(source.rsplit(":", 1)[-1], set()).add(target.rsplit(":", 1)[-1])
    found: set[str] = set()
    left = list(roots)
    while left:
        name = left.pop()
        if name not in found:
            found.add(name)
            left += called.get(name, ())
    return found


@pytest.mark.skipif(shutil.which(TOOLS + "gcc") is None, reason=f"needs {TOOLS}gcc")
@pytest.mark.skipif(not VWW.is_file(), reason="the shared models are not beside this checkout")
def test_kernels_and_run_loop_of_visual_wake_words_take_at_most_6_kilobytes(tmp_path: Path) -> None:
    generate(plan_of(VWW), tmp_path, selftest=False)
    sizes = functions(tmp_path)
    kernels = reached(tmp_path, [name for name in sizes if KERNEL.match(name)]) & sizes.keys()
    assert {"stow_conv_2d_s8_run", "stow_depthwise_conv_2d_s8_run", "stow_softmax_s8_run"} <= kernels
    assert sum(sizes[name] for name in kernels) <= 5800
    run = kernels | reached(tmp_path, ["net_invoke"]) & sizes.keys()
    assert sum(sizes[name] for name in run if name.startswith(("stow_", "net_"))) <= 6 * 1024


def cases_of(kind: str, folder: Path, seeds: range) -> dict[str, set[bool]]:
    """Return what the cases of random operators are."""
    found: dict[str, set[bool]] = {}
    for seed in seeds:
        (folder / "model.tflite").write_bytes(operator_model(kind, "int8", seed))
        for name, comes in cases(read_plan(plan_of(folder / "model.tflite"))).items():
            found.setdefault(name, set()).add(comes)
    return found


def test_an_operator_comes_only_to_cases_of_its_kind(tmp_path: Path) -> None:
    """Of the kinds below random operators come to a case and do without: neither answer is the only one."""
    conv = cases_of("conv_2d", tmp_path, range(12))
    assert conv["STOW_WITH_DSP_MM_FALLBACK"] == {False, True}
    assert conv["STOW_WITH_DILATED_COLUMNS"] == {False, True}
    assert conv["STOW_WITH_ADD_FALLBACK"] == conv["STOW_WITH_DSP_DEPTHWISE_FALLBACK"] == {False}
    depthwise = cases_of("depthwise_conv_2d", tmp_path, range(12))
    assert True in depthwise["STOW_WITH_DSP_DEPTHWISE_FALLBACK"]
    assert depthwise["STOW_WITH_DSP_MM_FALLBACK"] == {False}


def with_another_weight(plan: bytes) -> bytes:
    """Return a sound plan of the same size that is another one."""
    data = bytearray(plan)
    data[read_plan(plan).sections["weights"][0]] ^= 1
    at = layout.HEADER.offset_of("digest")
    data[at : at + 32] = digest_of(bytes(data))
    return read_plan(bytes(data)).data


@pytest.mark.parametrize("weights", ["c", "bin"])
def test_weights_of_another_plan_are_refused(weights: str, tmp_path: Path) -> None:
    (tmp_path / "main.c").write_text(INIT)

    def status() -> int:
        sources = ["main.c", "net.c", "net_weights.c", "-o", "main"]
        subprocess.run([*find_compiler().command, "-std=gnu11", "-O1", *sources], cwd=tmp_path, check=True, timeout=300)
        return subprocess.run([tmp_path / "main"], timeout=60).returncode

    plan = plan_of(DIGITS)
    generate(plan, tmp_path, weights=weights)
    own = (tmp_path / "net.c").read_bytes()
    assert status() == 0
    generate(with_another_weight(plan), tmp_path, weights=weights)
    assert status() == 0
    (tmp_path / "net.c").write_bytes(own)
    assert status() == 3
