"""REFERENCE.md: every function of the reference document has a name here that exists, and a test that exists."""

from __future__ import annotations

import ast
import importlib
import re
from pathlib import Path

import pytest

import stowplan_backend_litert as package

HERE = Path(__file__).parent
DOCUMENT = HERE.parents[3] / "shared" / "reference" / "000_37d9bcbef3e26771.txt"
HOMES = {
    "CompileOptions": "stowplan_backend_litert.options",
    "Event": "stowplan_backend_litert.recorder",
    "SummaryEntry": "stowplan_backend_litert.recorder",
    "Metrics": "stowplan.plugins.kinds",
}
ROW = re.compile(r"^\| (?:`([^`]+)`|(its [a-z ]+)) \| `([^`]+)` \| `(test_\w+)` \|$")


def rows() -> list[tuple[str, str, str]]:
    lines = (HERE.parent / "REFERENCE.md").read_text("utf-8").splitlines()
    return [(m[1] or m[2], m[3], m[4]) for m in map(ROW.match, lines) if m]


def named_tests() -> set[str]:
    trees = [ast.parse(path.read_text("utf-8")) for path in HERE.glob("test_*.py")]
    return {node.name for tree in trees for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}


@pytest.mark.parametrize(("there", "here", "test"), rows())
def test_the_name_and_the_test_of_each_function_exist(there: str, here: str, test: str) -> None:
    name, _, member = here.partition(".")
    home = importlib.import_module(HOMES[name]) if name in HOMES else package
    found = getattr(home, name)
    assert not member or hasattr(found, member) or member in found.__dataclass_fields__
    assert test in named_tests()


def test_the_table_has_every_function_and_type_of_the_reference_document() -> None:
    if not DOCUMENT.is_file():
        pytest.skip("needs ../shared/reference")
    text = DOCUMENT.read_text("utf-8")
    wanted = set(re.findall(r"@type (\w+)\(\)", text))
    for name, arguments in re.findall(r"@spec ([a-z_]+[?!]?)\(([^)]*(?:\([^)]*\)[^)]*)*)\) ::", text):
        arity = len([part for part in re.sub(r"\([^)]*\)|\[[^]]*\]", "x", arguments).split(",") if part.strip()])
        wanted.add(f"{name}/{arity}")
    assert len(wanted) > 25
    assert wanted <= {there for there, _, _ in rows()}
