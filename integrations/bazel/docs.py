"""Writes docs/bazel_rules.md from the doc strings of the rules; run it after changing one.

    python integrations/bazel/docs.py

Starlark is read as Python, which its syntax is a part of; nothing is executed.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

HERE = Path(__file__).parent
RULES = HERE / "rules_stowplan" / "stowplan"
PAGE = HERE.parents[1] / "docs" / "bazel_rules.md"
FILES = (
    "private/model.bzl", "private/library.bzl", "private/budget_test.bzl", "private/toolchain.bzl",
    "private/installed.bzl", "repositories.bzl", "providers.bzl",
)  # fmt: skip
NOT_PUBLIC = ("stowplan_tool",)
HEAD = """# rules_stowplan

Rules and providers that `@rules_stowplan//stowplan:defs.bzl` has, and what `repositories.bzl` has for WORKSPACE files.
Written by `integrations/bazel/docs.py` from the rules' doc strings. How to begin: [bazel.md](bazel.md).
"""


def page() -> str:
    """Return the whole page."""
    return "\n".join([HEAD, *(section for name in FILES for section in sections(RULES / name))])


def sections(path: Path) -> Iterator[str]:
    """Yield the sections of a file: its public rules, providers and functions."""
    tree = ast.parse(path.read_text("utf-8"))
    values = {name: node.value for node in tree.body if (name := assigned(node)) and isinstance(node, ast.Assign)}
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and not node.name.startswith("_"):
            yield section(node.name, "function", ast.get_docstring(node) or "", [])
        name = assigned(node)
        if not name or name.startswith("_") or name in NOT_PUBLIC or not isinstance(values[name], ast.Call):
            continue
        kind, words = called(values[name]), keywords(values[name])
        if kind in ("rule", "repository_rule"):
            yield section(name, kind.replace("_", " "), text(words["doc"]), list(attributes(words["attrs"], values)))
        elif kind == "provider":
            fields = zip(words["fields"].keys, words["fields"].values, strict=True)
            yield section(
                name, "provider", text(words["doc"]), [f"| `{text(key)}` | {text(doc)} |" for key, doc in fields]
            )


def section(name: str, kind: str, doc: str, rows: list[str]) -> str:
    table = ["", "| field | |" if kind == "provider" else "| attribute | kind | default | |"]
    table += ["| --- | --- |" if kind == "provider" else "| --- | --- | --- | --- |", *rows]
    return "\n".join([f"## {name}\n\n*{kind}*\n", doc, *(table if rows else []), ""])


def attributes(attrs: ast.expr, values: dict[str, ast.expr]) -> Iterator[str]:
    """Yield a row for each public attribute, in the order of the alphabet."""
    table = values[attrs.id] if isinstance(attrs, ast.Name) else attrs
    assert isinstance(table, ast.Dict)
    for key, value in sorted(zip(table.keys, table.values, strict=True), key=lambda pair: text(pair[0])):
        name, words = text(key), keywords(value)
        if not name.startswith("_"):
            default = "required" if "mandatory" in words else shown(words.get("default"))
            yield f"| `{name}` | {called(value).removeprefix('attr.')} | {default} | {text(words['doc'])} |"


def shown(default: ast.expr | None) -> str:
    return "" if default is None else f"`{ast.unparse(default)}`".replace("'", '"')


def assigned(node: ast.stmt) -> str:
    """Return the name that a statement binds, or nothing."""
    if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
        return node.targets[0].id
    return ""


def called(node: ast.expr) -> str:
    return ast.unparse(node.func) if isinstance(node, ast.Call) else ""


def keywords(node: ast.expr) -> dict[str, ast.expr]:
    assert isinstance(node, ast.Call)
    return {word.arg: word.value for word in node.keywords if word.arg}


def text(node: ast.expr | None) -> str:
    """Return a string of the source."""
    assert isinstance(node, ast.Constant) and isinstance(node.value, str), ast.dump(node) if node else "no doc string"
    return node.value


if __name__ == "__main__":
    PAGE.write_text(page(), "utf-8")
