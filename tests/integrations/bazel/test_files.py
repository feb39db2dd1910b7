"""The rule set's files: documented, in step with each other, and without what newer versions of Bazel removed."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from stowplan.version import VERSION

ROOT = Path(__file__).resolve().parents[3]
BAZEL = ROOT / "integrations" / "bazel"
MODULES = (BAZEL / "rules_stowplan" / "MODULE.bazel", BAZEL / "example" / "MODULE.bazel")


def docs():
    spec = importlib.util.spec_from_file_location("bazel_docs", BAZEL / "docs.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def buildifier(*arguments: str) -> subprocess.CompletedProcess[str]:
    program = shutil.which("buildifier") or str(ROOT / ".venv" / "npm" / "node_modules" / ".bin" / "buildifier")
    program = os.environ.get("STOWPLAN_BUILDIFIER", program)
    if not os.access(program, os.X_OK):
        pytest.skip("needs buildifier (npm install @bazel/buildifier)")
    return subprocess.run([program, *arguments], cwd=BAZEL, capture_output=True, text=True, check=False)


def test_the_reference_page_is_what_the_doc_strings_say() -> None:
    written = docs().page()
    assert (ROOT / "docs" / "bazel_rules.md").read_text("utf-8") == written, "run python integrations/bazel/docs.py"
    for name in ("stowplan_model", "stowplan_library", "stowplan_budget_test", "stowplan_toolchain"):
        assert f"## {name}\n" in written


def test_everything_public_is_on_the_reference_page() -> None:
    exported = re.findall(
        r"^(\w+) = _\w+$", (BAZEL / "rules_stowplan/stowplan/defs.bzl").read_text("utf-8"), re.MULTILINE
    )
    assert len(exported) == 7
    for name in exported:
        assert f"## {name}\n" in docs().page()


def test_versions_are_the_same_everywhere() -> None:
    rules, example = (path.read_text("utf-8") for path in MODULES)
    assert f'name = "rules_stowplan",\n    version = "{VERSION}"' in rules
    needed = [dict(re.findall(r'bazel_dep\(name = "(\w+)", version = "([\d.]+)"', text)) for text in (rules, example)]
    assert needed[0] and needed[1] == {**needed[0], "rules_stowplan": VERSION}
    assert f'bazel_dep(name = "rules_stowplan", version = "{VERSION}")' in (ROOT / "docs/bazel.md").read_text("utf-8")


def test_all_files_are_formatted() -> None:
    done = buildifier("--mode=check", "-r", ".")
    assert (done.returncode, done.stdout) == (0, ""), done.stdout + done.stderr


def test_buildifier_warns_of_nothing_but_the_stand_ins_for_what_is_built_into_bazel_4() -> None:
    done = buildifier("--mode=check", "--lint=warn", "--warnings=all", "-r", ".")
    warned = {line.partition(":")[0] for line in (done.stdout + done.stderr).splitlines() if ": " in line}
    assert warned and not [name for name in warned if not name.startswith("bazel4/")], done.stderr


def test_no_file_knows_a_path_of_the_machine_that_wrote_it() -> None:
    for path in (BAZEL / "rules_stowplan").rglob("*"):
        if path.is_file():
            assert not re.search(r"/(home|root|tmp|opt)/", path.read_text("utf-8")), path
