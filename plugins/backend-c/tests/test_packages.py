"""Packages of generated sources: built by their build system where it is here, else with stand-ins for its commands."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from fitting import NO_FILE, fit
from graphs import small_cnn
from stowplan.build.planning import Lowering, PlanOptions, make_plan
from stowplan.native.toolchain import find_compiler
from stowplan.planfile.writer import write_plan
from stowplan.plugins.kinds import SourceOptions
from stowplan_backend_c import CBackend
from stowplan_backend_c.packages import PACKAGES
from tiny_plans import copying_plan

needs_cmake = pytest.mark.skipif(shutil.which("cmake") is None, reason="needs cmake")


@pytest.fixture(scope="module")
def cnn() -> bytes:
    graph = small_cnn()
    return write_plan(make_plan(NO_FILE, Lowering(graph), fit(graph, 620).schedule, PlanOptions()))


def packed(folder: Path, plan: bytes, kind: str, **options: str) -> Mapping[str, bytes]:
    files = CBackend().generate(plan, SourceOptions(name="net", package=kind, **options))  # type: ignore[arg-type]
    for name, data in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)
    return files


def run(folder: Path, *command: str) -> str:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def built(folder: Path) -> str:
    """Configure a folder with CMake, build it, run its tests."""
    run(folder, "cmake", "-S", ".", "-B", "build", "-DCMAKE_BUILD_TYPE=Release")
    run(folder, "cmake", "--build", "build")
    return run(folder / "build", "ctest", "--output-on-failure")


@needs_cmake
@pytest.mark.parametrize("weights", ["inline", "c", "bin"])
def test_a_cmake_package_builds_and_passes_its_self_test(cnn: bytes, weights: str, tmp_path: Path) -> None:
    packed(tmp_path, cnn, "cmake", weights=weights)
    assert "100% tests passed, 0 tests failed out of 1" in built(tmp_path)


CONSUMER = """\
cmake_minimum_required(VERSION 3.16)
project(firmware C)
{use}
add_executable(firmware main.c)
target_link_libraries(firmware PRIVATE net::net)
"""
MAIN = """\
#include "net.h"
static _Alignas(NET_ARENA_ALIGN) uint8_t fast[NET_FAST_BYTES + 1], slow[NET_SLOW_BYTES + 1];
static net_context context;
int main(void)
{
    return net_init(&context, fast, NET_FAST_BYTES, slow, NET_SLOW_BYTES) == NET_OK ? (int)net_selftest(&context) : 99;
}
"""


@needs_cmake
def test_a_cmake_package_can_be_a_subdirectory_or_installed_and_found(cnn: bytes, tmp_path: Path) -> None:
    packed(tmp_path / "net", cnn, "cmake")
    run(tmp_path / "net", "cmake", "-S", ".", "-B", "build", f"-DCMAKE_INSTALL_PREFIX={tmp_path / 'installed'}")
    run(tmp_path / "net", "cmake", "--build", "build", "--target", "install")
    for name, use in ("inside", "add_subdirectory(../net net)"), ("outside", "find_package(net CONFIG REQUIRED)"):
        folder = tmp_path / name
        folder.mkdir()
        (folder / "CMakeLists.txt").write_text(CONSUMER.format(use=use))
        (folder / "main.c").write_text(MAIN)
        run(folder, "cmake", "-S", ".", "-B", "build", f"-DCMAKE_PREFIX_PATH={tmp_path / 'installed'}")
        run(folder, "cmake", "--build", "build")
        run(folder, str(folder / "build" / "firmware"))


STANDINS = """\
cmake_minimum_required(VERSION 3.16)
project(firmware C)
enable_testing()
# What the SDK's own commands do, as far as this package relies on it.
function(idf_component_register)
    cmake_parse_arguments(IDF "" "" "SRCS;INCLUDE_DIRS" ${ARGN})
    add_library(component STATIC ${IDF_SRCS})
    target_include_directories(component PUBLIC ${IDF_INCLUDE_DIRS})
    set(COMPONENT_LIB component PARENT_SCOPE)
endfunction()
function(zephyr_library_named name)
    add_library(${name} STATIC)
    add_library(component ALIAS ${name})
    set(ZEPHYR_CURRENT_LIBRARY ${name} PARENT_SCOPE)
endfunction()
function(zephyr_library_sources)
    target_sources(${ZEPHYR_CURRENT_LIBRARY} PRIVATE ${ARGN})
endfunction()
function(zephyr_library_compile_options)
    target_compile_options(${ZEPHYR_CURRENT_LIBRARY} PRIVATE ${ARGN})
endfunction()
function(zephyr_include_directories)
    target_include_directories(${ZEPHYR_CURRENT_LIBRARY} PUBLIC ${ARGN})
endfunction()
set(CONFIG_NET y)
add_subdirectory(FOLDER)
add_executable(firmware main.c)
target_link_libraries(firmware PRIVATE component)
add_test(NAME firmware COMMAND firmware)
"""


@needs_cmake
@pytest.mark.parametrize("weights", ["c", "bin"])
@pytest.mark.parametrize(("kind", "folder"), [("esp-idf", "net"), ("zephyr", "net/zephyr")])
def test_cmake_files_for_an_sdk_build_what_they_say_with_stand_ins_for_its_commands(
    cnn: bytes, kind: str, folder: str, weights: str, tmp_path: Path
) -> None:
    packed(tmp_path / "net", cnn, kind, weights=weights)
    (tmp_path / "CMakeLists.txt").write_text(STANDINS.replace("FOLDER", folder))
    (tmp_path / "main.c").write_text(MAIN)
    assert "100% tests passed" in built(tmp_path)


@needs_cmake
def test_a_zephyr_module_that_is_not_configured_builds_nothing(tmp_path: Path) -> None:
    packed(tmp_path / "net", copying_plan().file(), "zephyr")
    head = STANDINS.split("add_executable")[0].replace("FOLDER", "net/zephyr").replace("set(CONFIG_NET y)", "")
    (tmp_path / "CMakeLists.txt").write_text(head + 'if(TARGET net)\nmessage(FATAL_ERROR "built")\nendif()\n')
    run(tmp_path, "cmake", "-S", ".", "-B", "build")


def test_an_arduino_library_has_the_properties_that_the_ide_demands(cnn: bytes, tmp_path: Path) -> None:
    files = packed(tmp_path, cnn, "arduino", weights="c")
    lines = files["library.properties"].decode().splitlines()
    properties = dict(line.split("=", 1) for line in lines)
    assert len(properties) == len(lines)
    assert {"name", "version", "author", "maintainer", "sentence", "paragraph", "category", "url"} <= properties.keys()
    assert re.fullmatch(r"\d+\.\d+\.\d+", properties["version"])
    assert re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9 _.-]{0,62}", properties["name"])
    assert f"src/{properties['includes']}" in files
    assert {path.split("/")[0] for path in files} == {"library.properties", "src", "examples"}


ARDUINO = """\
#include <cstdint>
#include <cstdio>
struct Port { void begin(long) {} void println(const char *text) { puts(text); } } Serial;
#include "Selftest.ino"
int main() { setup(); loop(); return 0; }
"""


@pytest.mark.skipif(shutil.which("g++") is None, reason="needs g++")
def test_an_arduino_sketch_compiles_and_prints_that_the_self_test_passed(cnn: bytes, tmp_path: Path) -> None:
    packed(tmp_path, cnn, "arduino")
    (tmp_path / "sketch.cpp").write_text(ARDUINO)
    run(tmp_path, *find_compiler().command, "-O2", "-ffp-contract=off", "-c", "src/net.c", "-o", "net.o")
    run(tmp_path, "g++", "-Wall", "-Werror", "-Isrc", "-Iexamples/Selftest", "sketch.cpp", "net.o", "-o", "sketch")
    assert run(tmp_path, str(tmp_path / "sketch")) == "net: passed\n"


def test_a_platformio_library_builds_with_what_its_manifest_says(cnn: bytes, tmp_path: Path) -> None:
    files = packed(tmp_path, cnn, "platformio", weights="c")
    manifest = json.loads(files["library.json"])
    assert {"name", "version", "description"} <= manifest.keys()
    assert f"{manifest['build']['includeDir']}/{manifest['headers']}" in files
    sources = sorted(name for name in files if name.startswith(manifest["build"]["srcDir"]) and name.endswith(".c"))
    assert sources == ["src/net.c", "src/net_weights.c"]
    command = [*find_compiler().command, *manifest["build"]["flags"], "-I" + manifest["build"]["includeDir"]]
    run(tmp_path, *command, *sources, "examples/selftest/main.c", "-o", "main")
    assert run(tmp_path, str(tmp_path / "main")) == "net: passed\n"


@pytest.mark.parametrize("kind", PACKAGES)
def test_a_package_is_the_same_each_time_and_no_word_of_a_template_is_left(cnn: bytes, kind: str) -> None:
    options = SourceOptions(name="net", package=kind)
    files = CBackend().generate(cnn, options)
    assert files == CBackend().generate(cnn, options)
    for name, data in files.items():
        assert not re.search(rb"@[A-Z_]+@|STOW_WITH_(?:BINARY|SELFTEST)", data), name
        assert not name.startswith("/") and ".." not in name


def test_what_a_model_is_called_cannot_break_a_manifest(tmp_path: Path) -> None:
    plan = copying_plan()
    plan.strings = b'\0"}, \\ */ $(x) ${y} @NAME@\n: - #!\0' + plan.strings
    plan.header["name"] = 1
    for kind in PACKAGES:
        files = packed(tmp_path / kind, plan.file(), kind)
        if kind == "platformio":
            assert json.loads(files["library.json"])["name"] == "net"
        if kind == "cmake" and shutil.which("cmake"):
            built(tmp_path / kind)
