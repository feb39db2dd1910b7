"""Where CMake finds the package after `pip install`: with no option wherever that can be."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from cmake_projects import Done, clean_environment, needs, run
from wheels import site_packages

pytestmark = pytest.mark.slow

CONFINED = """\
set(CMAKE_SYSTEM_NAME Generic)
set(CMAKE_C_COMPILER cc)
set(CMAKE_TRY_COMPILE_TARGET_TYPE STATIC_LIBRARY)
foreach(kind PROGRAM LIBRARY INCLUDE PACKAGE)
  set(CMAKE_FIND_ROOT_PATH_MODE_${kind} ONLY)
endforeach()
set(CMAKE_CROSSCOMPILING_EMULATOR no-such-emulator)
"""
FIND = "find_package(stowplan 0.1 CONFIG REQUIRED)"
ASK = """\
execute_process(COMMAND ${PYTHON} -m stowplan_cmake OUTPUT_VARIABLE stowplan_ROOT OUTPUT_STRIP_TRAILING_WHITESPACE)
find_package(stowplan CONFIG REQUIRED)"""
PLACES = ("lib/*/site-packages", "Lib/site-packages")


@pytest.fixture
def find(tmp_path: Path, commands: Path) -> Callable[..., Done]:
    """Return a function that looks for the package, with options, variables and toolchain, and uses it."""

    def attempt(*options: str, on_path: bool = False, lines: str = FIND, cross: str = "", **variables: str) -> Done:
        needs("cmake", "ninja", "cc")
        source = tmp_path / "source"
        source.mkdir(exist_ok=True)
        (source / "CMakeLists.txt").write_text(
            f"cmake_minimum_required(VERSION 3.21...4.0)\nproject(p C)\n{lines}\n"
            "get_property(at TARGET stowplan::stowplan PROPERTY IMPORTED_LOCATION)\n"
            'message(STATUS "FOUND ${at} ${stowplan_VERSION}")\n'
            "stowplan_add_model(m MODEL m.tflite MEM 800)\n"
        )
        shutil.copy(Path(__file__).parents[3] / "examples/digits/digits_int8.tflite", source / "m.tflite")
        if cross:
            (source / "toolchain.cmake").write_text(CONFINED + cross)
            options = (*options, f"-DCMAKE_TOOLCHAIN_FILE={source / 'toolchain.cmake'}")
        environment = clean_environment(commands if on_path else None) | variables
        build = str(tmp_path / "build")
        shutil.rmtree(build, ignore_errors=True)
        done = run(["cmake", "-S", str(source), "-B", build, "-G", "Ninja", *options], environment, source)
        if done.code == 0:
            done = Done(0, done.text + run(["cmake", "--build", build], environment, source).text)
        return done

    return attempt


def check(done: Done, commands: Path) -> None:
    assert done.code == 0, done.text
    assert f"FOUND {commands / 'stowplan'} 0.1.0\n" in done.text
    assert "Linking C static library" in done.text, done.text


def places(commands: Path) -> dict[str, Path]:
    packages = site_packages(commands)
    return {
        "the folder of the files": packages / "stowplan_cmake" / "cmake",
        "the package": packages / "stowplan_cmake",
        "site-packages": packages,
        "the environment": commands.parent,
        "share": commands.parent / "share" / "cmake" / "stowplan",
    }


def test_an_environment_that_is_on_the_path_needs_no_option(find, commands: Path) -> None:
    check(find(on_path=True), commands)


@pytest.mark.parametrize("where", ["the folder of the files", "the package", "site-packages", "the environment"])
def test_every_folder_of_an_environment_is_a_prefix(find, commands: Path, where: str) -> None:
    check(find(f"-DCMAKE_PREFIX_PATH={places(commands)[where]}"), commands)


@pytest.mark.parametrize("where", ["the folder of the files", "the package", "the environment"])
def test_a_root_may_be_an_option_or_a_variable(find, commands: Path, where: str) -> None:
    check(find(f"-Dstowplan_ROOT={places(commands)[where]}"), commands)
    check(find(stowplan_ROOT=str(places(commands)[where])), commands)


@pytest.mark.parametrize("where", ["the folder of the files", "share"])
def test_the_folder_itself_may_be_named(find, commands: Path, where: str) -> None:
    check(find(f"-Dstowplan_DIR={places(commands)[where]}"), commands)


def test_python_says_where_it_is(find, commands: Path) -> None:
    check(find(f"-DPYTHON={commands / 'python'}", lines=ASK), commands)


def test_a_module_path_does(find, commands: Path) -> None:
    where = places(commands)["the folder of the files"]
    check(find(f"-DCMAKE_MODULE_PATH={where}", lines="find_package(stowplan 0.1 REQUIRED)"), commands)


def test_the_entry_points_name_the_folder(commands: Path) -> None:
    code = (
        "from importlib.metadata import entry_points; from importlib.resources import files\n"
        "for group in ('cmake.root', 'cmake.module'):\n"
        "    for point in entry_points(group=group):\n"
        "        if point.name == 'stowplan': print(group, files(point.load()))"
    )
    done = run([str(commands / "python"), "-c", code], clean_environment(commands), commands)
    found = dict(line.split(" ", 1) for line in done.text.splitlines())
    assert (Path(found["cmake.root"]) / "cmake" / "stowplanConfig.cmake").is_file()
    assert (Path(found["cmake.module"]) / "Findstowplan.cmake").is_file()


CROSS = "# no root folder\n"
ROOTED = "set(CMAKE_FIND_ROOT_PATH /usr/lib/arm-none-eabi)\nset(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)\n"


def test_a_cross_build_finds_the_tool_of_this_machine(find, commands: Path) -> None:
    check(find(on_path=True, cross=CROSS), commands)
    check(find(f"-Dstowplan_ROOT={places(commands)['the package']}", cross=CROSS), commands)


def test_a_cross_build_that_confines_packages_to_a_root_takes_a_folder_a_module_or_one_word_more(
    find, commands: Path
) -> None:
    where = places(commands)["the folder of the files"]
    check(find(f"-Dstowplan_DIR={where}", cross=ROOTED), commands)
    check(find(f"-DCMAKE_MODULE_PATH={where}", lines="find_package(stowplan REQUIRED)", cross=ROOTED), commands)
    check(find(on_path=True, lines=f"{FIND[:-1]} NO_CMAKE_FIND_ROOT_PATH)", cross=ROOTED), commands)


def test_the_command_may_be_named(find, commands: Path, tmp_path: Path) -> None:
    other = tmp_path / "other-stowplan"
    other.symlink_to(commands / "stowplan")
    done = find(f"-DSTOWPLAN_EXECUTABLE={other}", on_path=True)
    assert done.code == 0 and f"FOUND {other} 0.1.0" in done.text, done.text


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("exit 7", "--version does not run (7 )"),
        ("echo stowplan 9.0", "is 9.0, but its CMake package is 0.1.0"),
    ],
)
def test_a_command_that_does_not_do_is_said_to(find, tmp_path: Path, script: str, said: str) -> None:
    command = tmp_path / "broken"
    command.write_text(f"#!/bin/sh\n{script}\n")
    command.chmod(0o755)
    done = find(f"-DSTOWPLAN_EXECUTABLE={command}", on_path=True)
    assert done.code != 0 and said in " ".join(done.text.split()), done.text


def test_a_package_without_its_command_says_what_to_set(find, commands: Path, tmp_path: Path) -> None:
    alone = tmp_path / "a" / "b" / "c" / "d" / "e" / "cmake"
    shutil.copytree(places(commands)["share"], alone)
    done = find(f"-Dstowplan_DIR={alone}")
    assert done.code != 0 and "set STOWPLAN_EXECUTABLE to it" in " ".join(done.text.split()), done.text


@pytest.mark.parametrize(("asked", "fits"), [("0.1", True), ("0.1.0", True), ("0.2", False), ("0.0.9", False),
                                             ("1", False), ("0.1...0.3", True), ("0.2...0.3", False)])  # fmt: skip
def test_versions_fit_within_a_series(find, asked: str, fits: bool) -> None:
    done = find(on_path=True, lines=f"find_package(stowplan {asked} CONFIG REQUIRED)")
    assert (done.code == 0) is fits, done.text


def test_the_versions_are_one() -> None:
    from stowplan.version import VERSION

    root = Path(__file__).parents[3] / "integrations" / "cmake"
    assert f'version = "{VERSION}"' in (root / "pyproject.toml").read_text("utf-8")
    lists = (root / "src/stowplan_cmake/cmake/stowplanConfigVersion.cmake").read_text("utf-8")
    assert f'set(PACKAGE_VERSION "{VERSION}")' in lists


def test_a_python_package_built_by_scikit_build_core_finds_it(commands: Path, tmp_path: Path) -> None:
    pytest.importorskip("scikit_build_core", reason="needs scikit-build-core")
    needs("cmake", "ninja", "cc")
    project = tmp_path / "project"
    shutil.copytree(Path(__file__).parents[3] / "examples" / "digits", project / "models")
    (project / "pyproject.toml").write_text(
        '[build-system]\nrequires = ["scikit-build-core", "stowplan-cmake"]\n'
        'build-backend = "scikit_build_core.build"\n[project]\nname = "app"\nversion = "1"\n'
    )
    (project / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.21...4.0)\nproject(app C)\nfind_package(stowplan CONFIG REQUIRED)\n"
        "stowplan_add_model(digits MODEL models/digits_int8.tflite MEM 800)\n"
        "install(FILES $<TARGET_PROPERTY:digits,STOWPLAN_PLAN> DESTINATION app)\n"
    )
    python = str(commands / "python")
    environment = clean_environment(None)
    code = "from scikit_build_core.build import build_wheel; print(build_wheel('dist'))"
    done = run([python, "-c", code], environment, project)
    assert done.code == 0, done.text
    names = run([python, "-m", "zipfile", "-l", *map(str, project.glob("dist/*.whl"))], environment, project).text
    assert "app/digits.stow" in names
