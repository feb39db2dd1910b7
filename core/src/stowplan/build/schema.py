"""Checks plain data against the JSON schema that is shipped for the project file; the schema is the only description.

Knows the words that the schema uses, no more: a test compares its verdicts with a complete validator.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from math import inf
from pathlib import Path
from typing import Any

TYPES: Mapping[str, type | tuple[type, ...]] = {
    "object": dict, "array": list, "string": str, "boolean": bool,
    "number": (int, float),
}  # fmt: skip
SCHEMA = Path(__file__).with_name("project.schema.json")


def project_schema() -> dict[str, Any]:
    schema: dict[str, Any] = json.loads(SCHEMA.read_text("utf-8"))
    return schema


def problems(value: object, schema: Mapping[str, Any]) -> list[str]:
    """Return what is wrong, one line each: where, what, and what would be right."""
    return list(_problems(value, schema, "", schema))


def _problems(value: Any, rule: Mapping[str, Any], where: str, root: Mapping[str, Any]) -> Iterator[str]:
    rule = _resolved(rule, root)
    if "anyOf" in rule:
        yield from _any(value, rule["anyOf"], where, root)
        return
    wanted = rule.get("type")
    if wanted is not None and not _is(value, wanted):
        yield f"{where or 'the file'}: {_shown(value)} is no {_word(wanted)}"
    elif isinstance(value, dict):
        yield from _object(value, rule, where, root)
    elif isinstance(value, list):
        yield from _array(value, rule, where, root)
    elif isinstance(value, str):
        yield from _string(value, rule, where)
    elif wanted == "number":
        yield from _number(value, rule, where)


def _is(value: object, wanted: str) -> bool:
    """Say whether a value is of a type; Python's truths are numbers, a schema's are not."""
    return isinstance(value, TYPES[wanted]) and not (wanted == "number" and isinstance(value, bool))


def _any(value: Any, rules: list[Mapping[str, Any]], where: str, root: Mapping[str, Any]) -> Iterator[str]:
    """Yield the problems of the alternative whose type fits, or that none does."""
    fitting = [rule for rule in rules if _is(value, _resolved(rule, root)["type"])]
    if not fitting:
        names = " or ".join(_word(_resolved(rule, root)["type"]) for rule in rules)
        yield f"{where}: {_shown(value)} is no {names}"
    for rule in fitting[:1]:
        yield from _problems(value, rule, where, root)


def _object(value: dict[str, Any], rule: Mapping[str, Any], where: str, root: Mapping[str, Any]) -> Iterator[str]:
    known: Mapping[str, Any] = rule.get("properties", {})
    for name in rule.get("required", ()):
        if name not in value:
            yield f"{where or 'the file'}: {name} is missing"
    if len(value) < rule.get("minProperties", 0):
        yield f"{where}: is empty"
    for name, item in value.items():
        inside = f"{where}.{name}" if where else name
        if "propertyNames" in rule:
            yield from _string(name, _resolved(rule["propertyNames"], root), inside)
        if name in known:
            yield from _problems(item, known[name], inside, root)
        elif isinstance(rule.get("additionalProperties"), Mapping):
            yield from _problems(item, rule["additionalProperties"], inside, root)
        elif rule.get("additionalProperties") is False:
            near = get_close_matches(name, known, n=1)
            yield f"{inside}: is unknown; " + (f"did you mean {near[0]}?" if near else f"known are {', '.join(known)}")


def _array(value: list[Any], rule: Mapping[str, Any], where: str, root: Mapping[str, Any]) -> Iterator[str]:
    if len(value) < rule.get("minItems", 0):
        yield f"{where}: is empty"
    if rule.get("uniqueItems") and len(set(map(json.dumps, value))) != len(value):
        yield f"{where}: names something twice"
    for index, item in enumerate(value):
        yield from _problems(item, rule.get("items", {}), f"{where}.{index}", root)


def _string(value: str, rule: Mapping[str, Any], where: str) -> Iterator[str]:
    if len(value) < rule.get("minLength", 0):
        yield f"{where}: is empty"
    pattern = rule.get("pattern")
    # In a schema `$` is the end, in Python also the place before a last newline.
    if pattern is not None and not re.search(re.sub(r"\$$", r"\\Z", pattern), value):
        yield f"{where}: {_shown(value)} does not have the form {pattern}"


def _number(value: float, rule: Mapping[str, Any], where: str) -> Iterator[str]:
    least, most = rule.get("minimum", -inf), rule.get("maximum", inf)
    if not least <= value <= most:  # nor is what is no number at all
        yield f"{where}: {value} is not from {least} to {most}"


def _resolved(rule: Mapping[str, Any], root: Mapping[str, Any]) -> Mapping[str, Any]:
    if "$ref" not in rule:
        return rule
    found: Mapping[str, Any] = root["$defs"][rule["$ref"].rpartition("/")[2]]
    return found


def _word(wanted: str) -> str:
    return {"object": "table", "array": "list", "string": "text", "boolean": "true or false", "number": "number"}[
        wanted
    ]


def _shown(value: object) -> str:
    text = str(value) if isinstance(value, (dict, list)) else json.dumps(value, default=str)
    return text if len(text) <= 60 else text[:57] + "..."
