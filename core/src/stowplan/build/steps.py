"""Notices that a caller's step has other code than when a plan was made, although its version says it is the same.

Only a warning: what a function does also depends on what it calls, so its code is no identity and not in any key.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Mapping, Sequence
from types import CodeType
from typing import Any

from stowplan.build.request import Step
from stowplan.cache.files import sha256


def code_digests(steps: Sequence[Step]) -> dict[str, str]:
    """Return a digest of each step's byte code by name; a callable without any, a class's instance say, is left out."""
    found = {step.name: getattr(step.run, "__code__", None) for step in steps}
    return {name: _digest(code) for name, code in found.items() if isinstance(code, CodeType)}


def warn_of_changed_code(meta: Mapping[str, Any], steps: Sequence[Step]) -> None:
    """Warn of each step whose code is not that which made the plan. Other interpreters' byte code tells nothing."""
    made = meta.get("steps")
    known = made.get("code") if isinstance(made, Mapping) and made.get("python") == sys.version else None
    if not isinstance(known, Mapping):
        return
    now = code_digests(steps)
    for step in steps:
        before = known.get(step.name)
        if before is not None and step.name in now and before != now[step.name]:
            warnings.warn(
                f"step {step.name}: its code changed and its version is still {step.version}: the plan is the one that "
                f"the old code gave; give the step another version",
                stacklevel=2,
            )


def steps_meta(steps: Sequence[Step]) -> dict[str, Any]:
    """Return what `warn_of_changed_code` looks at later; nothing where there are no steps."""
    return {"steps": {"python": sys.version, "code": code_digests(steps)}} if steps else {}


def _digest(code: CodeType) -> str:
    return sha256(repr(_parts(code)).encode("utf-8", "surrogatepass"))


def _parts(code: CodeType) -> tuple[object, ...]:
    """Return what decides what code does; neither its file nor its lines."""
    constants = [_parts(value) if isinstance(value, CodeType) else _plain(value) for value in code.co_consts]
    return code.co_code.hex(), code.co_names, code.co_varnames, code.co_freevars, constants


def _plain(value: object) -> object:
    """Return a constant in one form: the order of a set is another one in each process."""
    return sorted(map(repr, value)) if isinstance(value, frozenset) else repr(value)
