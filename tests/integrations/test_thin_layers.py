"""Zephyr, ESP-IDF and PlatformIO: their manifests read by their own tools, their functions in like builds.

The frameworks themselves are too large to be had here: stand-ins offer the names that our files use of them.
"""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import pytest

from cmake_projects import CMake, clean_environment, needs, run
from wheels import ROOT, environment

INTEGRATIONS = ROOT / "integrations"
EXAMPLE = INTEGRATIONS / "cmake" / "example"
slow = pytest.mark.slow

ZEPHYR = """\
cmake_minimum_required(VERSION 3.21...4.0)
project(app C)
include({kconfig})
add_library(zephyr_interface INTERFACE)
target_compile_definitions(zephyr_interface INTERFACE OF_THE_BOARD=1)
add_subdirectory({module}/zephyr module)
add_executable(app main.c)
stowplan_zephyr_model(digits MODEL digits_int8.tflite{memory})
target_link_libraries(app PRIVATE m)
"""
ESP_IDF = """\
cmake_minimum_required(VERSION 3.21...4.0)
project(app C)
function(idf_build_get_property result name)
  set(${result} -Wall PARENT_SCOPE)
endfunction()
function(idf_component_register)
  add_executable(app main.c)
  set(COMPONENT_LIB app PARENT_SCOPE)
endfunction()
include(@FOLDER@/project_include.cmake)
@CALL@
"""
SCONS = """\
import os
env = Environment(BUILD_DIR=os.path.abspath("build"), PROJECT_DIR=os.getcwd(), ENV=os.environ)
env.AddMethod(lambda env, name, default: open("models.txt").read(), "GetProjectOption")
Export("env")
SConscript("stowplan_models.py")
env.Program("app", ["main.c", *env["PIOBUILDFILES"]], LIBS=["m"])
"""


@pytest.fixture
def program(tmp_path: Path) -> Path:
    """A folder with a program and its model."""
    folder = tmp_path / "app"
    folder.mkdir()
    shutil.copy(EXAMPLE / "main.c", folder)
    shutil.copy(ROOT / "examples" / "digits" / "digits_int8.tflite", folder)
    return folder


def esp_idf(call: str) -> str:
    return ESP_IDF.replace("@FOLDER@", str(INTEGRATIONS / "esp-idf")).replace("@CALL@", call)


def configuration(folder: Path, *lines: str) -> Path:
    """Have Kconfig's own library read our options with some set, as Zephyr does, and give them to CMake."""
    kconfiglib = pytest.importorskip("kconfiglib", reason="needs kconfiglib")
    options = kconfiglib.Kconfig(str(INTEGRATIONS / "zephyr/zephyr/Kconfig"), warn_to_stderr=False)
    (folder / "prj.conf").write_text("\n".join(lines) + "\n")
    options.load_config(str(folder / "prj.conf"))
    assert options.warnings == []
    values = {symbol.name: symbol.str_value for symbol in options.unique_defined_syms}
    path = folder / "kconfig.cmake"
    path.write_text("".join(f'set(CONFIG_{name} "{value}")\n' for name, value in values.items()))
    return path


@slow
@pytest.mark.parametrize(
    ("memory", "lines", "said"),
    [
        (" MEM 800", ["CONFIG_STOWPLAN=y"], " -m 800 "),
        ("", ["CONFIG_STOWPLAN=y"], " -m 64K "),
        (
            "",
            ["CONFIG_STOWPLAN=y", 'CONFIG_STOWPLAN_FAST_MEMORY="2K"', 'CONFIG_STOWPLAN_SLOW_MEMORY="1M"'],
            " -m 2K+1M ",
        ),
    ],
)
def test_a_zephyr_application_has_a_model_with_its_flags_and_budget(
    program: Path, memory: str, lines: list[str], said: str
) -> None:
    kconfig = configuration(program, *lines)
    lists = ZEPHYR.format(kconfig=kconfig, module=INTEGRATIONS / "zephyr", memory=memory)
    (program / "CMakeLists.txt").write_text(lists)
    project = CMake(program, program / "build", environment())
    done = project.configure("-DCMAKE_EXPORT_COMPILE_COMMANDS=ON")
    assert done.code == 0, done.text
    assert project.build().fitted == 1
    assert said in (project.folder / "build.ninja").read_text()
    commands = json.loads((project.folder / "compile_commands.json").read_text())
    (of_model,) = [entry["command"] for entry in commands if entry["file"].endswith("digits.c")]
    assert "-DOF_THE_BOARD=1" in of_model
    assert "digit 2 in" in project.run(str(project.folder / "app")).text


def test_the_zephyr_module_names_files_that_are_there() -> None:
    yaml = pytest.importorskip("yaml", reason="needs PyYAML")
    root = INTEGRATIONS / "zephyr"
    module = yaml.safe_load((root / "zephyr/module.yml").read_text())
    assert set(module) == {"name", "build", "package-managers"}
    (requirements,) = module["package-managers"]["pip"]["requirement-files"]
    for path in (module["build"]["kconfig"], requirements, f"{module['build']['cmake']}/CMakeLists.txt"):
        assert (root / path).is_file()


@slow
def test_an_esp_idf_component_has_a_model(program: Path) -> None:
    call = "idf_component_register()\nstowplan_idf_model(digits MODEL digits_int8.tflite MEM 800)"
    (program / "CMakeLists.txt").write_text(esp_idf(call))
    project = CMake(program, program / "build", environment())
    done = project.configure()
    assert done.code == 0, done.text
    assert project.build().fitted == 1
    assert "digit 2 in 640 bytes" in project.run(str(project.folder / "app")).text


@slow
def test_an_esp_idf_model_without_a_component_is_refused(program: Path) -> None:
    (program / "CMakeLists.txt").write_text(esp_idf("stowplan_idf_model(digits MODEL d.tflite MEM 1K)"))
    done = CMake(program, program / "build", environment()).configure()
    assert done.code != 0 and "stowplan_idf_model(digits): call it after idf_component_register()" in done.text


def test_the_esp_idf_manifest_is_packed_by_its_own_tool(tmp_path: Path) -> None:
    needs("compote")
    shutil.copytree(INTEGRATIONS / "esp-idf", tmp_path / "stowplan")
    done = run(["compote", "component", "pack", "--name", "stowplan"], clean_environment(None), tmp_path / "stowplan")
    assert done.code == 0 and list((tmp_path / "stowplan").glob("dist/*.tgz")), done.text


class SCons:
    """PlatformIO's builder, reading our script as PlatformIO has it read."""

    def __init__(self, program: Path, models: str) -> None:
        pytest.importorskip("SCons", reason="needs SCons")
        needs("cc")
        shutil.copy(INTEGRATIONS / "platformio" / "stowplan_models.py", program)
        (program / "SConstruct").write_text(SCONS)
        (program / "models.txt").write_text(models)
        self.folder = program

    def __call__(self) -> tuple[int, str]:
        return run([sys.executable, "-m", "SCons", "-j2"], clean_environment(environment()), self.folder)


@slow
def test_a_platformio_program_has_a_model_that_is_made_again_only_when_it_must_be(program: Path) -> None:
    build = SCons(program, "\ndigits = digits_int8.tflite -m 800\n")
    done = build()
    assert done.code == 0 and "stowplan compile" in done.text, done.text
    again = build()  # the tool's own files are known from now on
    assert again.code == 0 and " -c " not in again.text, again.text
    assert "is up to date" in build().text
    environment_of_build = clean_environment(None)
    assert "digit 2 in 640 bytes" in run([str(program / "app")], environment_of_build, program).text
    model = program / "digits_int8.tflite"
    model.write_bytes(model.read_bytes() + bytes(16))
    assert "stowplan compile" in build().text


@slow
@pytest.mark.parametrize(
    ("models", "said"),
    [
        ("digits digits_int8.tflite", "custom_stowplan_models: digits digits_int8.tflite: write NAME = MODEL"),
        ("a b = digits_int8.tflite", "custom_stowplan_models: a b = digits_int8.tflite: write NAME = MODEL"),
        ("digits =", "custom_stowplan_models: digits =: write NAME = MODEL"),
        ("digits = digits_int8.tflite -m 8", "Error: no plan written: "),
    ],
)
def test_what_a_platformio_build_cannot_do_is_said_in_one_line(program: Path, models: str, said: str) -> None:
    done = SCons(program, models)()
    assert done.code != 0 and said in done.text and "Traceback" not in done.text, done.text


def test_the_platformio_manifest_is_packed_by_its_own_tool(tmp_path: Path) -> None:
    needs("pio")
    done = run(
        ["pio", "pkg", "pack", str(INTEGRATIONS / "platformio"), "-o", str(tmp_path)], clean_environment(None), tmp_path
    )
    assert done.code == 0 and list(tmp_path.glob("*.tar.gz")), done.text
