"""The same table under hatchling and under scikit-build-core: the same files in the wheel."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from python_builds import READ, blocks, built, call, contents, edit
from wheel_house import ROOT, Env, NoWheels, fetch

pytestmark = pytest.mark.slow
PLACED = [f"digit_reader/digits.{suffix}" for suffix in ("c", "h", "stow")]
GUIDE = ROOT / "docs" / "setuptools.md"
_, HATCHLING, SCIKIT = blocks(GUIDE, "toml")
(CMAKE,) = blocks(GUIDE, "cmake")


def under(project: Path, backend: str) -> Path:
    """Turn the example into a project of another backend; everything else, our table too, stays as it is."""
    path = project / "pyproject.toml"
    text = path.read_text()
    kept = text[text.index("[project]") : text.index("[tool.setuptools")] + text[text.index("[[tool.stowplan") :]
    path.write_text(f"{backend}\n{kept}")
    return project


@pytest.fixture(scope="module")
def hatch(builder: Env, house: Path) -> Env:
    builder.install("hatchling", "editables", cwd=house)
    return builder


@pytest.fixture(scope="module")
def scikit(builder: Env, house: Path) -> Env:
    if shutil.which("cmake") is None or shutil.which("ninja") is None:
        pytest.skip("needs cmake and ninja")
    try:
        fetch(house, "scikit-build-core")
    except NoWheels as err:
        pytest.skip(str(err))
    builder.install("scikit-build-core", cwd=house)
    return builder


def test_hatchling_puts_the_same_files_into_wheels_and_models_into_sdists(hatch: Env, example: Path) -> None:
    wanted = contents(built(hatch, example))
    under(example, HATCHLING)
    edit(example, "[tool.hatch.build.targets.wheel]", '[tool.hatch.build.targets.sdist]\nonly-include = ["src"]\n\n'
         "[tool.hatch.build.targets.wheel]")  # fmt: skip
    wheel = built(hatch, example, backend="hatchling.build")
    assert {name: contents(wheel)[name] for name in PLACED} == {name: wanted[name] for name in PLACED}
    sdist = built(hatch, example, "build_sdist", backend="hatchling.build")
    assert {"models/digits.tflite", "pyproject.toml", "src/digit_reader/__init__.py"} <= set(contents(sdist))
    assert not any(name in file for file in contents(sdist) for name in PLACED)
    first = wheel.read_bytes()
    assert built(hatch, example, backend="hatchling.build").read_bytes() == first


def test_hatchling_editable_has_plans_among_the_sources_and_its_wheel_fresh_ones(hatch: Env, example: Path) -> None:
    under(example, HATCHLING)
    built(hatch, example, "build_editable", backend="hatchling.build")
    assert {str(path.relative_to(example / "src")) for path in (example / "src").rglob("digits.*")} == set(PLACED)
    plan = example / "src" / "digit_reader" / "digits.stow"
    right = plan.read_bytes()
    plan.write_bytes(b"something old")
    assert contents(built(hatch, example, backend="hatchling.build"))["digit_reader/digits.stow"] == right


@pytest.mark.parametrize("hook", ["build_wheel", "build_editable"])
def test_hatchling_ends_with_one_line_for_what_is_refused(hatch: Env, example: Path, hook: str) -> None:
    under(example, HATCHLING)
    edit(example, '"800"', '"100"')
    done = call(hatch, example, hook, backend="hatchling.build")
    assert done.returncode == 1
    assert "error: stowplan: digits: no plan written: " in done.stderr and "(does-not-fit)" in done.stderr
    assert "Traceback" not in done.stderr
    edit(example, 'package = "digit_reader"', 'package = "digit_raeder"')
    done = call(hatch, example, hook, backend="hatchling.build")
    assert "no package digit_raeder among the files of the wheel (usage)" in done.stderr
    assert not list((example / "src").rglob("*.stow"))


def test_scikit_build_core_installs_the_same_files(scikit: Env, example: Path, tmp_path: Path) -> None:
    wanted = contents(built(scikit, example))
    under(example, SCIKIT)
    (example / "CMakeLists.txt").write_text(CMAKE)
    wheel = built(scikit, example, backend="scikit_build_core.build")
    assert {name: contents(wheel)[name] for name in PLACED} == {name: wanted[name] for name in PLACED}
    sdist = built(scikit, example, "build_sdist", backend="scikit_build_core.build")
    assert {"models/digits.tflite", "CMakeLists.txt"} <= set(contents(sdist))
    scikit.install("--no-build-isolation", "--no-deps", "-e", example, cwd=tmp_path)
    try:
        assert scikit.done(scikit.python, "-c", READ, cwd=tmp_path).strip() == "2"
    finally:
        scikit.pip("uninstall", "-y", "digit-reader", cwd=tmp_path)
    edit(example, '"800"', '"100"')
    done = call(scikit, example, "build_wheel", backend="scikit_build_core.build")
    assert done.returncode != 0
    assert "Error: digits: no plan written: " in done.stdout + done.stderr


def test_the_command_for_other_build_systems_has_the_exit_codes_of_the_command_line(
    builder: Env, example: Path, tmp_path: Path
) -> None:
    def run(*arguments: str) -> tuple[int, str]:
        done = builder.run(builder.python, "-m", "stowplan_setuptools", *arguments, cwd=tmp_path)
        assert "Traceback" not in done.stderr
        return done.returncode, done.stderr.strip()

    there = ("--project", str(example), "--into", "out")
    assert run(*there) == (0, "")
    assert {str(path.relative_to(tmp_path / "out")) for path in (tmp_path / "out").rglob("digits.*")} == set(PLACED)
    code, said = run("--project", str(example))
    assert (code, said.partition("(")[0]) == (2, "Error: the following arguments are required: --into ")
    code, said = run("--project", "absent", "--into", "out")
    assert (code, said) == (2, "Error: absent/pyproject.toml: cannot be read: No such file or directory")
    edit(example, '"800"', '"100"')
    code, said = run(*there)
    assert code == 1 and said.startswith("Error: digits: no plan written: ") and said.count("\n") == 0
    assert not list((tmp_path / "out").rglob("digits.*"))
