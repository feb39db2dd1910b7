"""Holds that a check is waived in one way only: overridden under `@pytest.mark.xfail(reason=...)`."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any

HOME = "stowplan.testing."
FORBIDDEN = frozenset({"skip", "skipif", "xfail"})
"""Marks of pytest that would leave out a whole class; others (slow, say) are nobody's business."""


def is_ours(cls: type) -> bool:
    return cls.__module__.startswith(HOME)


def settings(cls: type) -> frozenset[str]:
    """Return the attributes of the kit's classes that authors may set: plain values with an annotation."""
    found: set[str] = set()
    for base in cls.__mro__:
        if is_ours(base):
            annotations = inspect.get_annotations(base)
            found |= {name for name, kind in annotations.items() if "ClassVar" not in kind and not name.startswith("_")}
    return frozenset(found)


def complaints(cls: type) -> Iterator[str]:
    """Yield what an author's class does to checks that it must not."""
    allowed, ours = settings(cls), [base for base in cls.__mro__ if is_ours(base)]
    for base in cls.__mro__:
        if is_ours(base) or base is object:
            continue
        if any(mark.name in FORBIDDEN for mark in _marks(base)):
            yield f"{base.__name__} is marked as a whole. Waive single checks by @pytest.mark.xfail(reason=...)."
        for name, value in vars(base).items():
            kit = any(name in vars(our) for our in ours)
            if kit and name.startswith("test_") and not _waived(value):
                yield (
                    f"{base.__name__}.{name} replaces a check of the kit. To waive it, mark it with "
                    "@pytest.mark.xfail(reason=...) and let it call super()."
                )
            elif name.startswith("supports_") and name not in allowed:
                known = ", ".join(sorted(flag for flag in allowed if flag.startswith("supports_"))) or "none"
                yield f"{base.__name__}.{name} is no capability that the kit asks about. Those are: {known}."
            elif kit and name not in allowed and not name.startswith(("test_", "__")):
                yield f"{base.__name__}.{name} replaces a part of the kit. Set only {', '.join(sorted(allowed))}."


def _waived(value: Any) -> bool:
    marks = _marks(value)
    return bool(marks) and all(mark.name == "xfail" and str(mark.kwargs.get("reason", "")).strip() for mark in marks)


def _marks(value: Any) -> list[Any]:
    marks = getattr(value, "__dict__", {}).get("pytestmark", [])
    return marks if isinstance(marks, list) else [marks]
