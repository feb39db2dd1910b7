"""Dataclasses that cost nothing to define: `dataclasses` compiles up to six functions per class at every start.

The same decorator for what this project uses of it: frozen or not, keyword-only or not, defaults, factories, fields
left out of comparison or representation, `__post_init__`. Classes made here work with `dataclasses.replace`, `fields`
and `asdict`; making one instance takes a little longer. A hundred classes took 50 ms of each cold command.
"""

from __future__ import annotations

import dataclasses
from dataclasses import MISSING, Field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass
else:

    def dataclass(cls=None, /, *, frozen=False, kw_only=False):
        """As `dataclasses.dataclass` with these options; a class may not inherit fields."""
        if cls is None:
            return lambda found: _made(found, frozen, kw_only)
        return _made(cls, frozen, kw_only)


def _made(cls: type[Any], frozen: bool, kw_only: bool) -> type[Any]:
    annotations = cls.__dict__.get("__annotations__", {})  # noqa: RUF063 (the other way imports inspect)
    names = tuple(n for n, kind in annotations.items() if not str(kind).startswith(("ClassVar", "typing.ClassVar")))
    given = {name: cls.__dict__[name] for name in names if name in cls.__dict__}
    defaults: dict[str, Any] = {}
    factories: dict[str, Any] = {}
    compared, shown = list(names), list(names)
    for name, value in given.items():
        if not isinstance(value, Field):
            defaults[name] = value
            continue
        delattr(cls, name)
        if value.default_factory is not MISSING:
            factories[name] = value.default_factory
        elif value.default is not MISSING:
            defaults[name] = value.default
            setattr(cls, name, value.default)
        if value.compare is False:
            compared.remove(name)
        if value.repr is False:
            shown.remove(name)
    post = getattr(cls, "__post_init__", None)
    positional = () if kw_only else names
    accepted = frozenset(names)

    def start(self: Any, *values: Any, **named: Any) -> None:
        own = self.__dict__
        if len(values) > len(positional):
            raise TypeError(f"{cls.__name__}() takes {len(positional)} positional arguments, {len(values)} were given")
        own.update(zip(positional, values, strict=False))
        for name, value in named.items():
            if name in own or name not in accepted:
                raise TypeError(f"{cls.__name__}() got an unexpected or repeated argument {name!r}")
            own[name] = value
        if len(own) != len(names):
            for name in names:
                if name in own:
                    continue
                if name in defaults:
                    own[name] = defaults[name]
                elif name in factories:
                    own[name] = factories[name]()
                else:
                    raise TypeError(f"{cls.__name__}() missing a required argument: {name!r}")
        if post is not None:
            post(self)

    def equal(self: Any, other: object) -> bool:
        if other.__class__ is not self.__class__:
            return False
        return all(getattr(self, name) == getattr(other, name) for name in compared)

    def hashed(self: Any) -> int:
        return hash(tuple(getattr(self, name) for name in compared))

    def text(self: Any) -> str:
        return f"{cls.__qualname__}({', '.join(f'{name}={getattr(self, name)!r}' for name in shown)})"

    made: dict[str, Any] = {"__init__": start, "__eq__": equal, "__hash__": hashed if frozen else None}
    if "__repr__" not in cls.__dict__:
        made["__repr__"] = text
    if frozen:
        made.update(__setattr__=_frozen_set, __delattr__=_frozen_delete)
    if not kw_only:
        made["__match_args__"] = names
    for name, function in made.items():
        if name not in cls.__dict__ or name == "__hash__":
            setattr(cls, name, function)
    cls.__dataclass_fields__ = _Fields({name: annotations[name] for name in names}, given)
    return cls


class _Fields:
    """A class's fields as `dataclasses` describes them, made when something of that module asks."""

    def __init__(self, annotations: dict[str, Any], given: dict[str, Any]) -> None:
        self.annotations, self.given = annotations, given

    def __get__(self, instance: object, owner: type[Any]) -> dict[str, Any]:
        shadow = type(owner.__name__, (), {"__annotations__": self.annotations, **self.given})
        described: Any = dataclasses.dataclass(kw_only=True)(shadow)
        found: dict[str, Any] = described.__dataclass_fields__
        owner.__dataclass_fields__ = found
        return found


def _frozen_set(self: object, name: str, value: object) -> None:
    raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")


def _frozen_delete(self: object, name: str) -> None:
    raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")
