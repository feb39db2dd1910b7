"""What setuptools' commands do with the models of a project: bytes, sources, leftovers, refusals, settings."""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from python_builds import DIGITS, built, call, contents, edit
from tflite_builder import ModelBuilder
from wheel_house import Env, NoWheels, fetch

pytestmark = pytest.mark.slow
PLACED = [f"digit_reader/digits.{suffix}" for suffix in ("c", "h", "stow")]
DATA = "[tool.setuptools.package-data]\n"


def stowplan(env: Env, cwd: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the command line of this checkout."""
    return env.run(sys.executable, "-m", "stowplan", *arguments, cwd=cwd)


def generated(project: Path) -> set[str]:
    return {str(path.relative_to(project)) for kind in ("*.stow", "digits.[ch]") for path in project.rglob(kind)}


def test_plan_source_and_header_are_the_bytes_of_the_command_line(builder: Env, example: Path, tmp_path: Path) -> None:
    files = contents(built(builder, example))
    model = str(example / "models" / "digits.tflite")
    compiled = stowplan(builder, tmp_path, "compile", model, "-m", "800", "--no-cache", "-o", "digits.stow")
    assert compiled.returncode == 0, compiled.stderr
    assert stowplan(builder, tmp_path, "codegen", "digits.stow", "-o", "digits.c").returncode == 0
    for name in PLACED:
        assert files[name] == (tmp_path / Path(name).name).read_bytes(), name


def test_wheels_and_sdists_built_in_two_places_at_two_times_are_equal(builder: Env, example: Path) -> None:
    other = Path(shutil.copytree(example, example.parent / "somewhere" / "else"))
    first = [built(builder, example, hook) for hook in ("build_wheel", "build_sdist")]
    time.sleep(2.1)  # a zip file counts in steps of two seconds
    for path in other.rglob("*"):
        path.touch()
    second = [built(builder, other, hook) for hook in ("build_wheel", "build_sdist")]
    for one, two in zip(first, second, strict=True):
        assert one.read_bytes() == two.read_bytes(), one.name


def test_an_epoch_that_is_given_is_the_time_of_all_files(builder: Env, example: Path) -> None:
    import zipfile

    wheel = built(builder, example, SOURCE_DATE_EPOCH="1000000000")
    with zipfile.ZipFile(wheel) as file:
        assert {info.date_time[:3] for info in file.infolist()} == {(2001, 9, 9)}
    done = call(builder, example, "build_sdist", SOURCE_DATE_EPOCH="yesterday")
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == (
        "error: stowplan: SOURCE_DATE_EPOCH yesterday: is no number of seconds; unset it or write one (usage)"
    )


def test_an_sdist_has_the_models_and_a_wheel_from_it_is_the_same(builder: Env, example: Path, tmp_path: Path) -> None:
    archive = built(builder, example, "build_sdist")
    names = set(contents(archive))
    assert {"models/digits.tflite", "pyproject.toml", "src/digit_reader/__init__.py"} <= names
    shutil.unpack_archive(archive, tmp_path / "unpacked")
    (project,) = (tmp_path / "unpacked").iterdir()
    assert contents(built(builder, project)) == contents(built(builder, example))


def test_what_an_editable_install_leaves_among_the_sources_is_in_no_archive(builder: Env, example: Path) -> None:
    clean = [contents(built(builder, example, hook)) for hook in ("build_wheel", "build_sdist")]
    shutil.rmtree(example / "build")
    edit(
        example, 'where = ["src"]', 'where = ["src"]\n\n[tool.setuptools.package-data]\n"*" = ["*.stow", "*.c", "*.h"]'
    )
    built(builder, example, "build_editable")
    assert generated(example / "src") == set(PLACED)
    for name in PLACED:
        (example / "src" / name).write_bytes(b"something old")
    wheel, sdist = (contents(built(builder, example, hook)) for hook in ("build_wheel", "build_sdist"))
    assert {name: wheel[name] for name in PLACED} == {name: clean[0][name] for name in PLACED}
    assert set(sdist) == set(clean[1])
    assert not any(name.encode() in sdist["src/digit_reader.egg-info/SOURCES.txt"] for name in PLACED)


def test_files_of_a_model_that_is_gone_are_removed(builder: Env, example: Path) -> None:
    edit(example, 'where = ["src"]', f'where = ["src"]\n{DATA}"*" = ["*.stow"]')
    built(builder, example)
    built(builder, example, "build_editable")
    own = example / "src" / "digit_reader" / "own.stow"
    own.write_bytes(b"the user's")
    edit(example, 'package = "digit_reader"', 'package = "digit_reader"\nname = "renamed"')
    wheel = contents(built(builder, example))
    placed = {name for name in wheel if name.endswith((".stow", ".c", ".h"))}
    assert placed == {f"digit_reader/renamed.{suffix}" for suffix in ("stow", "c", "h")} | {"digit_reader/own.stow"}
    built(builder, example, "build_editable")
    assert generated(example / "src") == {"digit_reader/renamed.stow", "digit_reader/own.stow"}
    assert own.read_bytes() == b"the user's"


def test_nothing_is_compiled_twice_here_or_in_another_folder(builder: Env, example: Path) -> None:
    other = Path(shutil.copytree(example, example.parent / "other"))
    call(builder, example, "build_wheel")
    again = call(builder, example, "build_wheel", {"--verbose": ""})
    assert "stowplan: digits: unchanged build/lib/digit_reader/digits.stow" in again.stdout
    assert "stowplan: digits: restored build/lib" in call(builder, other, "build_wheel", {"verbose": "1"}).stdout


@pytest.mark.parametrize("hook", ["build_wheel", "build_editable"])
def test_a_refused_model_is_the_command_lines_line_and_leaves_nothing_old(
    builder: Env, example: Path, tmp_path: Path, hook: str
) -> None:
    built(builder, example, hook)
    edit(example, '"800"', '"100"')
    done = call(builder, example, hook)
    told = stowplan(builder, tmp_path, "compile", str(DIGITS), "-m", "100").stderr.strip().removeprefix("Error: ")
    assert told.startswith("no plan written: ")
    assert done.returncode == 1
    lines = (done.stdout + done.stderr).splitlines()
    assert f"error: stowplan: digits: {told} (does-not-fit)" in lines
    assert not any("Traceback" in line for line in lines)
    assert not generated(example / "src") and not generated(example / "build")
    edit(example, '"100"', '"800"')
    built(builder, example, hook)


TWICE = """
[[tool.stowplan.models]]
path = "models/digits.tflite"
package = "digit_reader"
targets = ["t"]

[tool.stowplan.targets.t]
memory = "1K"
"""
WRONG = {
    "unknown key": ('memory = "800"', 'memry = "800"', "models.0.memry: is unknown; did you mean memory?"),
    "no memory": ('memory = "800"', "", "models.0: memory is missing, and the file has no targets"),
    "no package": ("digit_reader", "digit_raeder", "model digits: no package digit_raeder; packages are digit_reader"),
    "outside": (
        "models/digits.tflite", "../o.tflite",
        "model o: ../o.tflite lies outside the project, so no sdist can have it; move it into the project",
    ),
    "twice": ("c = true", TWICE, "two models digits go into package digit_reader; rename one"),
}  # fmt: skip


@pytest.mark.parametrize("case", WRONG)
def test_a_wrong_table_ends_the_build_with_one_line(builder: Env, example: Path, case: str) -> None:
    old, new, message = WRONG[case]
    shutil.copy(DIGITS, example.parent / "o.tflite")
    edit(example, old, new)
    done = call(builder, example, "build_wheel")
    assert done.returncode == 1
    last = done.stderr.strip().splitlines()[-1]
    assert last == f"error: stowplan: pyproject.toml: {message} (usage)", done.stderr
    assert "Traceback" not in done.stdout + done.stderr
    assert not list((example / "dist").glob("*.whl"))


def unsupported() -> bytes:
    """Return a model with an operator that is not supported."""
    model = ModelBuilder()
    x = model.input("x", (1, 4, 4, 2), "int8", scale=0.5, zero_point=0)
    y = model.tensor("y", (1, 4, 4, 2), "int8", scale=0.5, zero_point=0)
    model.operator("UNIQUE", [x], [y])
    return model.outputs(y).build()


NO_MODELS = {
    "missing": (None, "no such file", "bad-model"),
    "empty": (b"", "the file is empty; export the model again", "bad-model"),
    "damaged": (b"TFL3 is what it is not", "", "bad-model"),
    "unsupported": (unsupported(), 'operator 0 (UNIQUE "y"): not a supported operator', "unsupported"),
}


@pytest.mark.parametrize("case", NO_MODELS)
def test_a_model_that_does_not_convert_ends_the_build_as_it_ends_the_command(
    builder: Env, example: Path, case: str
) -> None:
    data, message, code = NO_MODELS[case]
    model = example / "models" / "digits.tflite"
    model.unlink()
    if data is not None:
        model.write_bytes(data)
    told = stowplan(builder, example, "compile", "models/digits.tflite", "-m", "800").stderr.strip()
    done = call(builder, example, "build_wheel")
    assert done.returncode == 1
    last = done.stderr.strip().splitlines()[-1]
    assert message in told and told.removeprefix("Error: ") in last
    assert last.startswith("error: stowplan: ") and last.endswith(f" ({code})")
    assert "Traceback" not in done.stdout + done.stderr


def test_a_flat_layout_with_a_package_in_a_package_and_commands_of_its_own(builder: Env, example: Path) -> None:
    shutil.move(example / "src" / "digit_reader", example / "digit_reader")
    inner = example / "digit_reader" / "plans"
    inner.mkdir()
    (inner / "__init__.py").write_text("")
    (example / "own_commands.py").write_text(
        "from setuptools.command.build import build\nclass own_build(build):\n    own = True\n"
        "    def run(self):\n        print('OWN BUILD')\n        super().run()\n"
    )
    edit(
        example, '[tool.setuptools.packages.find]\nwhere = ["src"]',
        '[tool.setuptools]\npackages = ["digit_reader", "digit_reader.plans"]\n'
        '[tool.setuptools.cmdclass]\nbuild = "own_commands.own_build"',
    )  # fmt: skip
    edit(example, 'package = "digit_reader"', 'package = "digit_reader.plans"')
    done = call(builder, example, "build_wheel")
    assert done.returncode == 0, done.stderr
    assert "OWN BUILD" in done.stdout
    placed = {f"digit_reader/plans/digits.{suffix}" for suffix in ("c", "h", "stow")}
    assert placed < set(contents(next((example / "dist").glob("*.whl"))))
    built(builder, example, "build_editable")
    assert generated(example / "digit_reader") == {"plans/digits.c", "plans/digits.h", "plans/digits.stow"}
    assert not any(name in contents(built(builder, example, "build_sdist")) for name in placed)


def test_settings_of_the_command_line_win_over_the_table(builder: Env, example: Path, tmp_path: Path) -> None:
    edit(example, "c = true", "c = true\noptions = {keep_names = false}")
    wheel = built(builder, example, settings={"stowplan.keep_names": "true", "stowplan.cache": "off"})
    command = ("compile", str(example / "models" / "digits.tflite"), "-m", "800", "--keep-names", "--no-cache")
    assert stowplan(builder, tmp_path, *command, "-o", "digits.stow").returncode == 0
    assert contents(wheel)["digit_reader/digits.stow"] == (tmp_path / "digits.stow").read_bytes()
    editable = call(builder, example, "build_editable", {"stowplan.keep_names": "true", "verbose": "true"})
    assert editable.returncode == 0, editable.stderr
    assert (example / "src/digit_reader/digits.stow").read_bytes() == (tmp_path / "digits.stow").read_bytes()


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("stowplan.keep-names", "true", "-C stowplan.keep-names: is unknown; did you mean stowplan.keep_names?"),
        ("editable", "strict", "-C editable: is unknown; did you mean editable_mode?"),
        ("zzz", "1", "-C zzz: is unknown; known are stowplan.compress, stowplan.xip, stowplan.keep_names, "),
        ("stowplan.prove", "perhaps", '-C stowplan.prove=perhaps: "perhaps" is no true or false'),
        ("stowplan.recompute", "much", '-C stowplan.recompute=much: "much" is no number'),
        ("stowplan.recompute", "0.5", "-C stowplan.recompute=0.5: 0.5 is not from 1 to 100"),
        ("stowplan.scheduler", "", "-C stowplan.scheduler=: is empty"),
        ("stowplan.cache", "on", "-C stowplan.cache=on: write one of use, off, recache, verify, read-only"),
        ("stowplan.scheduler", "absent", "digits: no scheduler"),
    ],
)
def test_a_setting_that_means_nothing_is_refused(
    builder: Env, example: Path, key: str, value: str, message: str
) -> None:
    done = call(builder, example, "build_wheel", {key: value})
    assert done.returncode == 1
    assert done.stderr.strip().splitlines()[-1].startswith(f"error: stowplan: {message}"), done.stderr
    assert "Traceback" not in done.stderr


def test_a_project_without_our_table_is_none_of_our_business(builder: Env, tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text('[project]\nname = "plain"\nversion = "1"\n')
    (tmp_path / "plain.py").write_text("")
    (tmp_path / "setup.py").write_text(
        "import sys, setuptools\nsetuptools.setup(py_modules=['plain'])\n"
        "print('LOADED', sorted(name for name in sys.modules if name.startswith('stowplan')))\n"
    )
    done = call(builder, tmp_path, "build_wheel", backend="setuptools.build_meta")
    assert done.returncode == 0, done.stderr
    loaded = "['stowplan_setuptools', 'stowplan_setuptools.editable', 'stowplan_setuptools.hook']"
    assert f"LOADED {loaded}" in done.stdout


def test_a_table_without_packages_is_said_to_do_nothing(builder: Env, example: Path) -> None:
    edit(example, 'package = "digit_reader"\n', "")
    done = call(builder, example, "build_wheel")
    assert done.returncode == 0, done.stderr
    assert "stowplan: no model of pyproject.toml has a package, so no wheel gets a plan" in done.stdout + done.stderr
    assert not any(name.endswith(".stow") for name in contents(next((example / "dist").glob("*.whl"))))


VERSIONS = ("65.0.0", "65.5.0", "68.2.2", "75.8.0", "80.9.0", "")


@pytest.mark.parametrize("version", VERSIONS, ids=lambda version: version or "newest")
def test_every_setuptools_from_the_floor_on_builds_wheels_and_editables(
    house: Path, example: Path, version_env: Env, tmp_path: Path, version: str
) -> None:
    requirement = f"setuptools=={version}" if version else "setuptools"
    try:
        fetch(house, requirement, alone=True)
    except NoWheels as err:
        pytest.skip(str(err))
    version_env.install("--upgrade", requirement, cwd=house)
    assert {*PLACED} <= set(contents(built(version_env, example)))
    assert "models/digits.tflite" in contents(built(version_env, example, "build_sdist"))
    for mode in ("lenient", "strict"):
        for path in generated(example / "src"):
            (example / "src" / path).unlink()
        built(version_env, example, "build_editable", {"editable_mode": mode})
        assert generated(example / "src") == set(PLACED)
        links = {path.name for path in (example / "build").glob("__editable__*/**/digits.*") if path.is_symlink()}
        assert links == ({"digits.stow", "digits.c", "digits.h"} if mode == "strict" else set())


def test_a_setuptools_below_the_floor_is_refused_with_what_to_write(
    house: Path, example: Path, version_env: Env
) -> None:
    try:
        fetch(house, "setuptools==64.0.0", alone=True)
    except NoWheels as err:
        pytest.skip(str(err))
    version_env.install("setuptools==64.0.0", cwd=house)
    done = call(version_env, example, "build_wheel")
    assert done.returncode == 1
    assert done.stderr.strip().splitlines()[-1] == (
        "error: stowplan: setuptools 64.0.0 is too old; write setuptools>=65 in build-system.requires (usage)"
    )


@pytest.fixture(scope="module")
def version_env(house: Path, cache: Path, tmp_path_factory: pytest.TempPathFactory) -> Env:
    """An environment whose setuptools is replaced again and again."""
    env = Env(tmp_path_factory.mktemp("versions") / "env", house, cache)
    env.install("wheel", "stowplan-setuptools", cwd=house)
    return env


def test_the_schema_for_validators_is_that_of_the_project_file(builder: Env, house: Path, example: Path) -> None:
    try:
        fetch(house, "validate-pyproject")
    except NoWheels as err:
        pytest.skip(str(err))
    builder.install("validate-pyproject", "packaging", cwd=house)
    validate = (builder.python, "-m", "validate_pyproject", "pyproject.toml")
    builder.done(*validate, cwd=example)
    edit(example, 'memory = "800"', "memory = 800")
    done = builder.run(*validate, cwd=example)
    assert done.returncode != 0
    assert "tool.stowplan.models" in done.stdout + done.stderr


PLUGIN = """
import warnings
from dataclasses import dataclass
from stowplan.plugins.hooks import hook
from stowplan_backend_c import CBackend
from stowplan_scheduler_stream import StreamScheduler

class Warns(StreamScheduler):
    def schedule(self, graph, target, options):
        warnings.warn("no guarantee", UserWarning)
        return StreamScheduler().schedule(graph, target, options)

class Fails(CBackend):
    def generate(self, plan, options):
        raise KeyError("no such table")

@hook
def stowplan_schedulers():
    return [Warns(name="warns")]

@hook
def stowplan_backends():
    return [Fails(name="fails")]
"""


@pytest.fixture
def plugin(tmp_path: Path) -> Path:
    """A folder with an installed plugin: a scheduler that warns, and a backend that generates no C."""
    site = tmp_path / "site"
    info = site / "acme_plugin-1.0.dist-info"
    info.mkdir(parents=True)
    (site / "acme_plugin.py").write_text(PLUGIN)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: acme-plugin\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[stowplan]\nacme = acme_plugin\n")
    return site


def test_what_a_plugin_warns_of_is_said_and_what_it_breaks_is_one_line(
    builder: Env, example: Path, plugin: Path
) -> None:
    warned = call(builder, example, "build_wheel", {"stowplan.scheduler": "warns"}, PYTHONPATH=str(plugin))
    assert warned.returncode == 0, warned.stderr
    assert "stowplan: digits: warning: no guarantee" in warned.stdout
    failed = call(builder, example, "build_wheel", {"stowplan.backend": "fails"}, PYTHONPATH=str(plugin))
    assert failed.returncode == 1
    assert failed.stderr.strip().splitlines()[-1] == (
        "error: stowplan: digits: internal fault: backend fails: KeyError: 'no such table' (internal)"
    )
    assert "Traceback" not in failed.stderr
    assert not generated(example / "build"), "no plan without its source"


@pytest.mark.parametrize(
    ("blocked", "message"),
    [
        ("build/lib/digit_reader/digits.stow/x", "is a directory; name a file in it"),
        ("build/lib/digit_reader/digits.c/x", "cannot be written: Is a directory"),
        ("build/stowplan", "build/stowplan: cannot become a folder: File exists"),
        ("build/stowplan/built.json/x", "cannot be written: Is a directory"),
    ],
)
def test_what_cannot_be_written_is_one_line(builder: Env, example: Path, blocked: str, message: str) -> None:
    path = example / blocked
    path.parent.mkdir(parents=True)
    path.write_text("in the way")
    done = call(builder, example, "build_wheel")
    assert done.returncode == 1
    last = done.stderr.strip().splitlines()[-1]
    assert message in last and last.endswith(" (output)"), done.stderr
    assert "Traceback" not in done.stderr


def test_a_missing_compiler_is_the_line_of_the_command_line(builder: Env, example: Path, tmp_path: Path) -> None:
    alone = {"STOWPLAN_CACHE_DIR": str(tmp_path / "fresh"), "PATH": str(tmp_path), "CC": ""}
    command = (builder.python, "-m", "stowplan", "compile", "models/digits.tflite", "-m", "800", "-o", "digits.stow")
    told = builder.run(*command, cwd=example, **alone).stderr.strip().removeprefix("Error: ")
    assert "compiler" in told
    done = call(builder, example, "build_wheel", **alone)
    assert done.returncode == 1
    assert done.stderr.strip().splitlines()[-1] == f"error: stowplan: digits: {told} (run)"
