"""What one checkout compiled, another one gets from a cache: nginx, BuildGrid's storage, and remote execution."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from bazel_workspace import Build, Workspace
from buildgrid_servers import execution_server, storage_server
from cache_servers import nginx_server

pytestmark = pytest.mark.slow

Make = Callable[..., Workspace]
TARGETS = ("//:digits", "//:networks_test", "//:recognise")
OUTPUTS = ("digits.stow", "digits.c", "digits.h", "recognise")


def of_grid(root: Path) -> AbstractContextManager[str]:
    return storage_server(root)


def everything_hits(build: Build) -> None:
    assert build.ran == 0, build.text
    assert build.hits > 40, build.text  # the libraries that schedule and prove are among them


@pytest.mark.parametrize(("serve", "prefix"), [(nginx_server, ""), (of_grid, "grpc://")], ids=["nginx", "buildgrid"])
def test_a_second_checkout_path_gets_everything_from_the_cache(
    make_workspace: Make, tmp_path: Path, serve: Callable[[Path], AbstractContextManager[str]], prefix: str
) -> None:
    with serve(tmp_path / "server") as address:
        option = f"--remote_cache={prefix}{address}"
        first, second = make_workspace(option), make_workspace(option)
        assert first.built(*TARGETS).hits == 0
        # Filled by workers, read by a build that would run in sandboxes: the keys are the same.
        everything_hits(second.built(*TARGETS, "--strategy=StowplanCompile=sandboxed"))
        assert first.folder != second.folder
        for name in OUTPUTS:
            assert (first.bin / name).read_bytes() == (second.bin / name).read_bytes()
        second.run("clean")
        everything_hits(second.built(*TARGETS, "--remote_download_minimal"))
        first.close()
        second.close()


@pytest.fixture
def command_files(tmp_path: Path, digits: Path) -> Path:
    """A folder with what the command writes for the example's model."""
    folder = tmp_path / "command"
    folder.mkdir()
    shutil.copy(digits, folder)
    for words in (["compile", digits.name, "-m", "800", "-o", "digits.stow"], ["codegen", "digits.stow"]):
        subprocess.run([sys.executable, "-m", "stowplan", *words], cwd=folder, check=True, capture_output=True)
    return folder


def test_compiling_linking_and_testing_run_remotely(make_workspace: Make, tmp_path: Path, command_files: Path) -> None:
    with execution_server(tmp_path / "grid") as (address, log):
        remote = [
            f"--remote_executor=grpc://{address}", "--remote_default_exec_properties=OSFamily=linux",
            "--remote_timeout=300", "--spawn_strategy=remote", "--strategy=TestRunner=remote",
            *(f"--strategy=Stowplan{kind}=remote" for kind in ("Compile", "Codegen", "Report")),
        ]  # fmt: skip
        workspace = make_workspace(*remote)
        build = workspace.tested("//...")
        assert build.text.count("PASSED") == 2
        assert set(build.processes) == {"internal", "remote"}, build.text
        done = log.read_text("utf-8")
        for made in ("digits.stow", "digits.c", "digits.pic.o", "networks_test", "recognise", "test.xml"):
            assert f"/{made} " in done, made
        assert "test-setup.sh" in done
        workspace.run("clean")
        again = workspace.tested("//...")
        assert again.ran == 0, again.text
        for name in OUTPUTS[:3]:
            assert (workspace.bin / name).read_bytes() == (command_files / name).read_bytes()
        refused = workspace.run("build", "//:digits", "--@rules_stowplan//stowplan:flash=1K")
        assert refused.code == 1
        assert "Error: no plan written" in refused.text
