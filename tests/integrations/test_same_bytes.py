"""One model through every build system: plan, C source and header are those of the command, byte for byte.

To add a build system, write a function from a folder that holds the model to the three files it made there, and name it
in `BUILDS`. It skips where its tool is absent.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from cmake_projects import CMake, clean_environment, meson, run
from wheels import ROOT, environment

pytestmark = pytest.mark.slow
MODEL = ROOT / "examples" / "digits" / "digits_int8.tflite"
MEMORY = ("2K", "64K")
FILES = ("net.stow", "net.c", "net.h")
Files = Mapping[str, bytes]
LISTS = f"""\
cmake_minimum_required(VERSION 3.21...4.0)
project(same C)
find_package(stowplan CONFIG REQUIRED)
stowplan_add_model(net MODEL {MODEL.name} MEM {" ".join(MEMORY)} COMPRESS lz4)
"""
MESON = f"""\
project('same', 'c', meson_version: '>=1.0')
custom_target('net', input: '{MODEL.name}', output: {list(FILES)}, depfile: 'net.d', build_by_default: true,
  command: [find_program('stowplan'), 'compile', '@INPUT@', '-m', '{MEMORY[0]}', '-m', '{MEMORY[1]}', '-c', 'lz4', '-q',
            '-o', '@OUTPUT0@', '--codegen', '@OUTPUT1@', '--depfile', '@DEPFILE@'])
"""


def read(folder: Path) -> Files:
    return {name: (folder / name).read_bytes() for name in FILES}


def by_command(folder: Path) -> Files:
    """The command of the checkout, in two steps, with no cache: what all others are compared with."""
    memory = [word for size in MEMORY for word in ("-m", size)]
    compile_it = ["compile", MODEL.name, *memory, "-c", "lz4", "-o", "net.stow", "--no-cache"]
    for words in (compile_it, ["codegen", "net.stow", "-o", "net.c"]):
        done = subprocess.run([sys.executable, "-m", "stowplan", *words], cwd=folder, capture_output=True, check=False)
        assert done.returncode == 0, done.stderr
    return read(folder)


def by_cmake(generator: str) -> Callable[[Path], Files]:
    def build(folder: Path) -> Files:
        (folder / "CMakeLists.txt").write_text(LISTS, "utf-8")
        project = CMake(folder, folder / "build", environment(), generator)
        done = project.configure()
        assert done.code == 0, done.text
        project.build()
        return read(project.product("net.c").parent)

    return build


def by_meson(folder: Path) -> Files:
    tool = meson()
    (folder / "meson.build").write_text(MESON, "utf-8")
    for words in (["setup", "build"], ["compile", "-C", "build"]):
        done = run([*tool, *words], clean_environment(environment()), folder)
        assert done.code == 0, done.text
    return read(folder / "build")


BUILDS: list[tuple[str, Callable[[Path], Files]]] = [
    ("CMake with Ninja", by_cmake("Ninja")),
    ("CMake with make", by_cmake("Unix Makefiles")),
    ("Meson", by_meson),
]
"""Name and function: folder with the model -> the bytes of `FILES`."""


@pytest.mark.parametrize(("name", "build"), BUILDS, ids=[name for name, _ in BUILDS])
def test_every_build_system_makes_the_bytes_of_the_command(
    name: str, build: Callable[[Path], Files], tmp_path: Path
) -> None:
    folders = [tmp_path / "command", tmp_path / "build-system"]
    for folder in folders:
        folder.mkdir()
        shutil.copy(MODEL, folder)
    expected, found = by_command(folders[0]), build(folders[1])
    assert {file for file in FILES if found[file] != expected[file]} == set(), name
