"""The pages of the reference, made from what they describe: commands, settings, operators, plan files, hooks."""

from __future__ import annotations

import argparse
import inspect
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from importlib import import_module
from typing import Any

SETTINGS: Mapping[str, str] = {
    "STOWPLAN_CACHE_DIR": "Folder of the cache; without it the platform's cache folder.",
    "STOWPLAN_CACHE_SIZE": "Most bytes it may hold, such as `10G` (default 5 GiB).",
    "STOWPLAN_CACHE_READ_ONLY": "`1`: read the cache and change nothing in it.",
    "STOWPLAN_REMOTE_CACHE": "A server of the team: `http://HOST/PATH`.",
    "STOWPLAN_REMOTE_MODE": "`read-write` (default) or `read-only`, which never uploads.",
    "STOWPLAN_REMOTE_TIMEOUT": "Seconds that the server may take (default 1.5).",
    "STOWPLAN_REMOTE_TOKEN": "Bearer token for the server.",
    "STOWPLAN_REMOTE_USER": "Name for the server, with STOWPLAN_REMOTE_PASSWORD.",
    "STOWPLAN_REMOTE_PASSWORD": "Password for the server.",
    "STOWPLAN_PLUGINS": "Only these plugins are loaded, by name, with commas between.",
    "STOWPLAN_PLUGINS_BLOCK": "These plugins are not loaded.",
    "STOWPLAN_PLUGINS_SECONDS": "Seconds that importing one plugin may take (default 30).",
    "STOWPLAN_KERNELS": "Which kernels run plans here: `avx512`, `avx2`, `plain`; without it the best there are.",
    "STOWPLAN_NATIVE": "Folder with libraries for this machine ready-made, where a build tool compiled them.",
    "STOWPLAN_LITERT_ANY_VERSION": "`1`: use a version of LiteRT that was not tried.",
    "STOWPLAN_DEBUG": "`1`: errors come with their traceback.",
}
"""Every environment variable that a user may set; a test compares these with the sources."""
MODULES = (
    "stowplan.errors",
    "stowplan.flow.model",
    "stowplan.flow.graph",
    "stowplan.flow.target",
    "stowplan.flow.schedule",
    "stowplan.flow.plan",
    "stowplan.build.pipeline",
    "stowplan.build.analyze",
    "stowplan.build.facts",
    "stowplan.build.memory_map",
    "stowplan.planfile.reader",
    "stowplan.units",
)


def commands() -> Iterator[str]:
    from stowplan.cli.entry import COMMANDS
    from stowplan.cli.options import Parser

    os.environ["COLUMNS"] = "76"
    yield "# Commands\n\nEach takes `--help`. Exit codes are 0 done, 1 refused, 2 usage, 3 an internal fault.\n"
    yield "Sizes are numbers with K, M or G (powers of 1024), such as `32K` or `1.5M`.\n"
    for name, (module, summary) in COMMANDS.items():
        parser = Parser(prog=f"stowplan {name}", description="")
        import_module(f"stowplan.cli.{module}").configure(parser)
        yield f"\n## {name}\n\n{summary[0].upper()}{summary[1:]}.\n\n```text\n{parser.format_usage().strip()}\n```\n"
        yield from _options(parser)


def _options(parser: argparse.ArgumentParser) -> Iterator[str]:
    yield from _table(("Argument", "Meaning"), _option_rows(parser))
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for name, inner in action.choices.items():
                yield f"\n### {parser.prog.partition(' ')[2]} {name}\n\n"
                yield from _options(inner)


def _option_rows(parser: argparse.ArgumentParser) -> Iterator[tuple[str, str]]:
    for action in parser._actions:
        if action.help == argparse.SUPPRESS or isinstance(action, (argparse._HelpAction, argparse._SubParsersAction)):
            continue
        value = parser._get_formatter()._format_args(action, action.dest.upper()) if action.nargs != 0 else ""
        names = ", ".join(action.option_strings)
        yield f"`{' '.join(filter(None, (names, value)))}`", (action.help or "").replace("%%", "%")


def configuration() -> Iterator[str]:
    from stowplan.build.schema import project_schema

    schema = project_schema()
    yield "# Configuration\n\n## Project file\n\n"
    yield "What [`stowplan build`](commands.md#build) reads: `stowplan.toml`, or `[tool.stowplan]` in `pyproject.toml`."
    yield " [Compiling only what changed](../incremental.md#projects) has an example.\n\n"
    definitions = schema["$defs"]
    tables = [("Top level", schema["properties"]), ("A model", definitions["model"]["properties"])]
    target = schema["properties"]["targets"]["additionalProperties"]["properties"]
    for title, keys in (*tables, ("A target", target), ("`options`", definitions["options"]["properties"])):
        yield f"### {title}\n\n"
        yield from _table(
            ("Key", "Type", "Default", "Meaning"), (_key(name, key, definitions) for name, key in keys.items())
        )
    yield "\n## Environment\n\n"
    yield from _table(("Variable", "Meaning"), ((f"`{name}`", meaning) for name, meaning in SETTINGS.items()))


def _key(name: str, key: Mapping[str, Any], definitions: Mapping[str, Any]) -> tuple[str, ...]:
    if "$ref" in key:
        key = {**definitions[key["$ref"].rpartition("/")[2]], **key}
    default = f"`{key['default']}`".lower() if "default" in key else ""
    return f"`{name}`", key.get("type", "table or list"), default, key.get("description", "")


def operators() -> Iterator[str]:
    from stowplan.build.lower.dispatch import LOWERINGS
    from stowplan.flow.operators import KINDS

    yield "# Operators\n\n"
    yield "Importers turn what a model format has into canonical operators; kernels compute those row by row. "
    yield "`stowplan inspect MODEL` says of your model which operators do not convert, and why.\n\n"
    for title, package in (("TFLite", "stowplan_importer_tflite"), ("ONNX", "stowplan_importer_onnx")):
        names = sorted(import_module(f"{package}.lower").LOWERINGS)
        yield f"## {title}\n\n{len(names)} operators convert: {', '.join(f'`{name}`' for name in names)}.\n\n"
    yield "## Backends\n\nPlans run with the C kernels, here and in firmware. LiteRT takes TFLite models as they are "
    yield "and decides by itself what it takes: `stowplan accelerate` shows that, operator by operator.\n"
    yield from _table(("Backend", "Takes", "What it is"), _backend_rows())
    yield "\n## C kernels by data type\n\nAn operator whose type has no kernel is refused by name. What each computes "
    yield "is in [plan files](plan-format.md#nodes).\n"
    own, others = _kernels()
    yield from _table(("", *_TYPES.values()), own)
    yield "\nThese convert, move bytes, or have the type as a parameter:\n"
    yield from _table(("Kernel", "Meaning"), others)
    yield "\n## Canonical operators\n\n"
    rows = ((f"`{k.name}`", f"`{k.inputs}`", f"`{k.output}`", k.formula) for k in KINDS.values() if k.name in LOWERINGS)
    yield from _table(("Operator", "Inputs", "Output", "Meaning"), rows)


_TYPES = {"s8": "int8", "s16": "int16", "s32": "int32", "f32": "float32"}
_INTEGERS = ("int8", "int16", "int32")


def _backend_rows() -> Iterator[tuple[str, ...]]:
    from stowplan.plugins.host import host

    for name, backend in host().backends().items():
        yield f"`{name}`", "models" if hasattr(backend, "load_model") else "plans", backend.summary


def _kernels() -> tuple[list[tuple[str, ...]], list[tuple[str, ...]]]:
    """Return rows of the kernels for each type, by the operator in their names, and rows of all others."""
    from stowplan.planfile.kinds import NODE_KINDS

    found: dict[str, dict[str, list[str]]] = {}
    others: list[tuple[str, ...]] = []
    for kind in NODE_KINDS.values():
        name, _, suffix = kind.name.rpartition("_")
        if suffix not in (*_TYPES, "int") or name.endswith(tuple(_TYPES)):  # a conversion ends in two types
            others.append((f"`{kind.name}`", kind.meaning))
            continue
        integers = [word for word in _INTEGERS if re.search(rf"\b{word}\b", kind.meaning)] or _INTEGERS
        for dtype in [_TYPES[suffix]] if suffix in _TYPES else integers:
            found.setdefault(name, {}).setdefault(dtype, []).append(f"`{kind.name}`")
    rows = [(f"`{name}`", *(", ".join(own.get(t, ())) for t in _TYPES.values())) for name, own in found.items()]
    return rows, others


def plan_format() -> Iterator[str]:
    from stowplan.planfile import layout
    from stowplan.planfile.kinds import NODE_KINDS

    yield f"# Plan files\n\nVersion {layout.VERSION_MAJOR}.{layout.VERSION_MINOR}. {_prose(layout.__doc__ or '')}\n\n"
    yield "The header comes first, then the directory of sections, then the sections.\n\n## Sections\n\n"
    sizes = layout.ELEMENT_BYTES
    rows = ((f"`{name}`", str(number), str(sizes[name])) for name, number in layout.SECTION_KINDS.items())
    yield from _table(("Section", "Number", "Bytes of an entry"), rows)
    yield "\n`dims` and `row_offsets` are u32, `operands` u16 (buffers), `params` i32; `strings` is UTF-8, each ended "
    yield "by a zero byte; `provenance` is JSON that no runtime reads.\n\n## Data types\n\n"
    yield from _table(("Type", "Code"), ((f"`{name}`", str(code)) for name, code in layout.DTYPE_CODES.items()))
    yield "\n## Records\n"
    for record in layout.RECORDS:
        yield f"\n### {record.name}\n\n{record.meaning} {record.size_bytes} bytes.\n\n"
        fields = ((str(record.offset_of(f.name)), f"`{f.name}`", f.type, f.meaning) for f in record.fields)
        yield from _table(("Offset", "Field", "Type", "Meaning"), fields)
    yield "\n## Nodes\n\nWhat each kernel does, and its parameters: one 32-bit word each.\n"
    for kind in NODE_KINDS.values():
        params = ", ".join(p.name if p.type == "i32" else f"{p.name} ({p.type})" for p in kind.params) or "none"
        yield f"\n### {kind.name}\n\nCode {kind.code}: {_cell(kind.meaning)}.\n\nParameters: {params}.\n"


def hooks() -> Iterator[str]:
    from stowplan.plugins import hooks as module

    yield f"# Hooks and kinds\n\n{_prose((module.__doc__ or '').partition('    #')[0])}\n\n"
    yield "[Write a plugin](../guides/plugins.md) shows one from beginning to end.\n\n## Hooks\n\n"
    found = [(name, item) for name, item in vars(module).items() if name.startswith("stowplan_")]
    rows = ((f"`{name}{inspect.signature(item)}`", inspect.getdoc(item) or "") for name, item in found)
    yield from _table(("Hook", "What it does"), rows)
    yield "\n## Kinds and their records\n\n::: stowplan.plugins.kinds\n"


def python() -> Iterator[str]:
    yield "# Python\n\nSizes are integers in bytes; ranges are half-open; shapes are NHWC. Every error is a "
    yield "`StowplanError` with one readable line.\n"
    for module in MODULES:
        yield f"\n## {module}\n\n::: {module}\n"


PAGES: Mapping[str, Callable[[], Iterable[str]]] = {
    "reference/commands.md": commands,
    "reference/configuration.md": configuration,
    "reference/operators.md": operators,
    "reference/plan-format.md": plan_format,
    "reference/hooks.md": hooks,
    "reference/python.md": python,
}


def on_files(files: Any, config: Any) -> Any:
    """Add the pages; mkdocs calls this before it builds."""
    from mkdocs.structure.files import File

    for path, make in PAGES.items():
        files.append(File.generated(config, path, content="".join(make())))
    return files


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    yield f"\n| {' | '.join(head)} |\n|{' --- |' * len(head)}\n"
    for row in rows:
        yield f"| {' | '.join(map(_cell, row))} |\n"


def _cell(text: str) -> str:
    """Return text for one cell: in one line, bars and brackets harmless outside of code."""
    text = " ".join(text.split()).replace("|", "\\|")
    return "".join(part if part.startswith("`") else _plain(part) for part in re.split(r"(`[^`]*`)", text))


def _plain(text: str) -> str:
    return text.replace("<", "&lt;").replace("[", "\\[").replace("*", "\\*").replace("_", "\\_")


def _prose(docstring: str) -> str:
    return _plain(inspect.cleandoc(docstring))


if __name__ == "__main__":  # to read a page without mkdocs: python docs/generated.py commands
    import sys

    print("".join(PAGES[f"reference/{sys.argv[1]}.md"]()))
