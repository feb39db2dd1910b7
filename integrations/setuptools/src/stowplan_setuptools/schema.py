"""The schema of [tool.stowplan] for validate-pyproject: the one that the project file is read by."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def tool_schema(tool_name: str = "stowplan") -> dict[str, Any]:
    """Return the schema without references, which a validator that embeds it would look for in its own."""
    from stowplan.build.schema import project_schema

    schema = project_schema()
    whole: dict[str, Any] = _inlined({key: rule for key, rule in schema.items() if key != "$defs"}, schema["$defs"])
    return {**whole, "$schema": "http://json-schema.org/draft-07/schema#", "$id": f"urn:stowplan:{tool_name}"}


def _inlined(rule: Any, definitions: Mapping[str, Any]) -> Any:
    if isinstance(rule, list):
        return [_inlined(item, definitions) for item in rule]
    if not isinstance(rule, dict):
        return rule
    named = definitions[rule["$ref"].rpartition("/")[2]] if "$ref" in rule else {}
    return {key: _inlined(item, definitions) for key, item in {**named, **rule}.items() if key != "$ref"}
