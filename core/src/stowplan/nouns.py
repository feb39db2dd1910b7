"""Records that cost nothing to define: `dataclasses` compiles up to six functions per class at every start.

The same decorator, and `field`, `replace` and `asdict` beside it, for what this project uses of them: frozen or not,
keyword-only or not, defaults, factories, fields left out of comparison or representation, `__post_init__`. Classes
made here also work with the standard functions, which are imported when somebody asks them; making one instance takes
a little longer. A hundred classes took 50 ms of each cold command. `NamedTuple` is there for the same reason.
"""

from __future__ import annotations

from operator import itemgetter
from typing import TYPE_CHECKING, Any

_MISSING = object()

if TYPE_CHECKING:
    from dataclasses import asdict as asdict
    from dataclasses import dataclass as dataclass
    from dataclasses import field as field
    from dataclasses import replace as replace
    from typing import NamedTuple as NamedTuple
else:

    class NamedTuple(tuple):
        """As `typing.NamedTuple`, for classes that inherit from nothing else."""

        def __init_subclass__(cls):
            names = tuple(cls.__annotations__)
            cls._fields = cls.__match_args__ = names
            cls._defaults = tuple(cls.__dict__[name] for name in names if name in cls.__dict__)  # of the last ones
            for place, name in enumerate(names):
                setattr(cls, name, property(itemgetter(place)))

        def __new__(cls, *values, **named):
            names, defaults = cls._fields, cls._defaults
            if named:
                given = dict(zip(names[::-1], defaults[::-1], strict=False)) | dict(zip(names, values, strict=False))
                if not named.keys() <= set(names[len(values) :]):
                    raise TypeError(f"{cls.__name__}() got an unexpected or repeated argument: {', '.join(named)}")
                given.update(named)
                values = tuple(given[name] for name in names if name in given)
            elif len(values) < len(names):
                values += defaults[len(values) - len(names) :] if defaults else ()
            if len(values) != len(names):
                raise TypeError(f"{cls.__name__}() takes {', '.join(names)}")
            return tuple.__new__(cls, values)

        def __getnewargs__(self):
            return tuple(self)

        def __repr__(self):
            return f"{type(self).__name__}({', '.join(f'{n}={v!r}' for n, v in zip(self._fields, self, strict=True))})"

        def _replace(self, **changes):
            return type(self)(**{**dict(zip(self._fields, self, strict=True)), **changes})

        def _asdict(self):
            return dict(zip(self._fields, self, strict=True))

    def field(*, default=_MISSING, default_factory=_MISSING, repr=True, compare=True):  # noqa: A002
        """As `dataclasses.field` with these options."""
        return _Field(default, default_factory, repr, compare)

    def replace(noun, /, **changes):
        """As `dataclasses.replace`: a copy with these fields changed, checked as a new one is."""
        if not hasattr(noun, "_noun"):  # somebody else's, made by the standard decorator
            from dataclasses import replace as standard

            return standard(noun, **changes)
        own = noun.__dict__  # which may also hold cached properties
        return type(noun)(**{**{name: own[name] for name in noun._noun}, **changes})

    def asdict(noun):
        """As `dataclasses.asdict`: nested nouns, sequences and mappings are copied too."""
        if getattr(noun, "_noun", None) is not None:
            return {name: asdict(getattr(noun, name)) for name in noun._noun}
        if isinstance(noun, tuple) and hasattr(noun, "_fields"):
            return type(noun)(*map(asdict, noun))
        if isinstance(noun, list | tuple):
            return type(noun)(map(asdict, noun))
        if isinstance(noun, dict):
            return type(noun)((asdict(key), asdict(value)) for key, value in noun.items())
        return noun

    def dataclass(cls=None, /, *, frozen=False, kw_only=False):
        """As `dataclasses.dataclass` with these options; a class may not inherit fields."""
        if cls is None:
            return lambda found: _made(found, frozen, kw_only)
        return _made(cls, frozen, kw_only)


def field_names(value: object) -> tuple[str, ...] | None:
    """Return the fields of a noun or of any other dataclass's instance, None for what is neither."""
    own = getattr(value, "_noun", None)
    if own is None and hasattr(value, "__dataclass_fields__"):
        return tuple(value.__dataclass_fields__)
    return own


def _made(cls: type[Any], frozen: bool, kw_only: bool) -> type[Any]:
    annotations = cls.__dict__.get("__annotations__", {})  # noqa: RUF063 (the other way imports inspect)
    names = tuple(n for n, kind in annotations.items() if not str(kind).startswith(("ClassVar", "typing.ClassVar")))
    given = {name: cls.__dict__[name] for name in names if name in cls.__dict__}
    defaults: dict[str, Any] = {}
    factories: dict[str, Any] = {}
    compared, shown = list(names), list(names)
    for name, value in given.items():
        if hasattr(value, "default_factory"):
            raise TypeError(f"{cls.__name__}.{name}: use stowplan.nouns.field")
        if not isinstance(value, _Field):
            defaults[name] = value
            continue
        delattr(cls, name)
        if value.factory is not _MISSING:
            factories[name] = value.factory
        elif value.default is not _MISSING:
            defaults[name] = value.default
            setattr(cls, name, value.default)
        if not value.compare:
            compared.remove(name)
        if not value.shown:
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
    cls._noun = names
    cls.__dataclass_fields__ = _Fields({name: annotations[name] for name in names}, given)
    return cls


class _Field:
    """What `field` was given."""

    def __init__(self, default: Any, factory: Any, shown: bool, compare: bool) -> None:
        self.default, self.factory, self.shown, self.compare = default, factory, shown, compare

    def standard(self) -> Any:
        import dataclasses

        given = {"default": self.default, "default_factory": self.factory}
        options = {name: value for name, value in given.items() if value is not _MISSING}
        return dataclasses.field(repr=self.shown, compare=self.compare, **options)


class _Fields:
    """A class's fields as `dataclasses` describes them, made when something of that module asks."""

    def __init__(self, annotations: dict[str, Any], given: dict[str, Any]) -> None:
        self.annotations, self.given = annotations, given

    def __get__(self, instance: object, owner: type[Any]) -> dict[str, Any]:
        import dataclasses

        given = {name: v.standard() if isinstance(v, _Field) else v for name, v in self.given.items()}
        shadow = type(owner.__name__, (), {"__annotations__": self.annotations, **given})
        described: Any = dataclasses.dataclass(kw_only=True)(shadow)
        found: dict[str, Any] = described.__dataclass_fields__
        owner.__dataclass_fields__ = found
        return found


def _frozen_set(self: object, name: str, value: object) -> None:
    from dataclasses import FrozenInstanceError

    raise FrozenInstanceError(f"cannot assign to field {name!r}")


def _frozen_delete(self: object, name: str) -> None:
    from dataclasses import FrozenInstanceError

    raise FrozenInstanceError(f"cannot delete field {name!r}")
