"""What a cache key is made of: a document of labelled plain data, its canonical form, its digest, and differences."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from stowplan.errors import UsageError
from stowplan.nouns import dataclass

FORMAT = 1
"""Goes up when the same inputs get another document; entries of other formats are never looked up."""
Document = Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class Difference:
    """One labelled input that is not what it was; None stands for "was not there"."""

    label: str
    old: object
    new: object

    def __str__(self) -> str:
        return f"{self.label}: {shown(self.old)} -> {shown(self.new)}"


def canonical(document: Document) -> bytes:
    """Return the one form of a document: keys sorted, no blanks, ASCII.

    Raises `UsageError` for what is no plain data: a function or an object has no identity outside its process.
    """
    return json.dumps(_checked(document, ""), sort_keys=True, separators=(",", ":"), allow_nan=False).encode("ascii")


def digest(document: Document) -> str:
    """Return the SHA-256 of the canonical form: the key itself."""
    return hashlib.sha256(canonical(document)).hexdigest()


def differences(old: Document, new: Document) -> tuple[Difference, ...]:
    """Return which labelled inputs differ, by label; labels are paths such as `target.pools.0.size_bytes`."""
    before, after = dict(leaves(old, "")), dict(leaves(new, ""))
    labels = [label for label in sorted({*before, *after}) if _unequal(before.get(label), after.get(label))]
    return tuple(Difference(label=label, old=before.get(label), new=after.get(label)) for label in labels)


def shown(value: object) -> str:
    """Return a value as explanations print it: digests shortened, nothing as "nothing"."""
    if value is None:
        return "nothing"
    text = value if isinstance(value, str) else json.dumps(value)
    is_digest = len(text) == 64 and all(c in "0123456789abcdef" for c in text)
    return f"{text[:12]}..." if is_digest else text


def _unequal(old: object, new: object) -> bool:
    return type(old) is not type(new) or old != new


def leaves(value: Any, label: str = "") -> Iterator[tuple[str, object]]:
    """Yield each labelled input of a document."""
    if isinstance(value, Mapping) and value:
        for name, item in value.items():
            yield from leaves(item, f"{label}.{name}" if label else str(name))
    elif isinstance(value, (list, tuple)) and value:
        for index, item in enumerate(value):
            yield from leaves(item, f"{label}.{index}")
    else:
        yield label, list(value) if isinstance(value, tuple) else value


def _checked(value: object, label: str) -> object:
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        return {"float": value.hex()}  # the shortest decimal is no one's contract; its bits are
    if isinstance(value, Mapping):
        for name in value:
            if not isinstance(name, str):
                raise UsageError(f"cache input {label or 'document'}: the name {name!r} is no text")
        return {name: _checked(item, f"{label}.{name}" if label else name) for name, item in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, (bytes, bytearray)):
        return [_checked(item, f"{label}.{index}") for index, item in enumerate(value)]
    kind = "function" if callable(value) else type(value).__name__
    raise UsageError(
        f"cache input {label}: a {kind} is no stable identity; give plain data, or a step with a version of its own"
    )
