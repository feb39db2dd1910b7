"""REFERENCE.md: all of the reference document has a name here that exists, and a test that exists."""

from __future__ import annotations

import ast
import importlib
import inspect
import re
from pathlib import Path

import pytest

import stowplan_backend_mlir as package

HERE = Path(__file__).parent
DOCUMENT = HERE.parents[3] / "shared" / "reference" / "003_35ed1ba1c0e7c9aa.txt"
HOMES = {"plan_of": "stowplan_backend_mlir.plan", "Layer": "stowplan.cache.layers"}
ROW = re.compile(r"^\| `([^`]+)` \| `([^`]+)` \| `(test_\w+)` \|$")


def rows() -> list[tuple[str, str, str]]:
    lines = (HERE.parent / "REFERENCE.md").read_text("utf-8").splitlines()
    return [(found[1], found[2], found[3]) for found in map(ROW.match, lines) if found]


def named_tests() -> set[str]:
    trees = [ast.parse(path.read_text("utf-8")) for path in HERE.glob("test_*.py")]
    return {node.name for tree in trees for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}


@pytest.mark.parametrize(("there", "here", "test"), rows())
def test_the_name_and_the_test_of_each_entry_exist(there: str, here: str, test: str) -> None:
    plain, _, parameter = here.rstrip(")").partition("(")
    name, _, member = plain.partition(".")
    found = getattr(importlib.import_module(HOMES[name]) if name in HOMES else package, name)
    if member:
        assert hasattr(found, member) or member in found.__dataclass_fields__
        found = getattr(found, member, None)
    if parameter:
        assert parameter.removesuffix("=") in inspect.signature(found).parameters
    assert test in named_tests()


def test_the_table_has_every_function_type_and_option_of_the_reference_document() -> None:
    if not DOCUMENT.is_file():
        pytest.skip("needs ../shared/reference")
    text = DOCUMENT.read_text("utf-8")
    wanted = set(re.findall(r"@type (\w+)\(\)", text)) | set(re.findall(r"\{:(\w+), ", text)) - {"ok", "error"}
    for name, arguments in re.findall(r"@spec ([a-z_]+!?)\(([^@]*?)\) ::", text):
        arity = len([part for part in re.sub(r"\([^)]*\)|\[[^]]*\]", "x", arguments).split(",") if part.strip()])
        wanted.add(f"{name}/{arity}")
    wanted |= {f"invalidates: {part.strip(' .;')}" for part in re.findall(r"^  • ([^\n]+)", text, re.MULTILINE)}
    assert len(wanted) == 28
    assert wanted <= {there for there, _, _ in rows()}
