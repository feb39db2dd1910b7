"""The C against the rules: MISRA C:2012 but for a published list of deviations, and compilers' warnings without one."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from stowplan.native.toolchain import find_compiler
from stowplan.planfile.kinds import NODE_KINDS
from stowplan_backend_c.amalgam import amalgamate
from stowplan_backend_c.library import LIBRARY

PUBLISHED = Path(__file__).parents[3] / "docs" / "misra.md"
ONLY_IN_SMALL = {"2.4", "2.5", "14.1"}
"""What only a source with few kernels shows: names of the layout that it does not use."""


def broken_rules(source: str, folder: Path) -> set[str]:
    """Return the numbers of the rules that cppcheck finds broken."""
    (folder / "source.c").write_text(source)
    command = ["cppcheck", "--addon=misra", "--std=c11", "--quiet", "--template={id}", "source.c"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=1200)
    found = re.findall(r"^misra-c2012-(\d+\.\d+)$", done.stderr, re.MULTILINE)
    if not found and "misra" in done.stderr:
        pytest.skip(f"needs cppcheck with its addon for MISRA: {done.stderr.splitlines()[0]}")
    assert found, "not a single finding: the addon did not run"
    return set(found)


@pytest.fixture(scope="module")
def published() -> set[str]:
    return set(re.findall(r"^\| (\d+\.\d+) \|", PUBLISHED.read_text("utf-8"), re.MULTILINE))


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("cppcheck") is None, reason="needs cppcheck")
def test_exactly_the_rules_are_broken_that_the_published_list_names(published: set[str], tmp_path: Path) -> None:
    everything = broken_rules(amalgamate(set(NODE_KINDS), lz4=True, kernels="portable", range_coder=True), tmp_path)
    assert everything - published == set()
    assert published - everything <= ONLY_IN_SMALL


@pytest.mark.skipif(shutil.which("cppcheck") is None, reason="needs cppcheck")
def test_a_source_with_one_kernel_breaks_no_rule_that_is_not_published(published: set[str], tmp_path: Path) -> None:
    assert broken_rules(amalgamate({"conv_2d_s8"}, lz4=False, kernels="portable"), tmp_path) - published == set()


WARNINGS = ("-std=c11", "-Wall", "-Wextra", "-Wshadow", "-Wconversion", "-Werror")


@pytest.mark.parametrize(
    "path", [path for path in LIBRARY.sources() if path.suffix == ".c"], ids=lambda path: path.name
)
def test_every_file_of_the_host_library_compiles_without_a_warning(path: Path) -> None:
    includes = [word for folder in LIBRARY.folders for word in ("-I", str(folder))]
    command = [*find_compiler().command, *WARNINGS, *LIBRARY.flags, *includes, "-fsyntax-only", str(path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert (done.returncode, done.stderr) == (0, "")
