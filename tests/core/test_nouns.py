"""Our dataclasses behave like the standard ones in everything the project uses of them."""

from __future__ import annotations

import copy
import dataclasses
import pickle
import typing
from collections.abc import Callable
from functools import cached_property
from typing import Any, ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stowplan import nouns
from stowplan.nouns import dataclass as ours

DECORATORS = [ours, dataclasses.dataclass]


def point(decorator: Callable[..., Any], **options: bool) -> Any:
    field = nouns.field if decorator is ours else dataclasses.field

    @decorator(**options)
    class Point:
        x: int
        y: int = 2
        names: list[str] = field(default_factory=list)
        hidden: int = field(default=0, repr=False, compare=False)
        shared: ClassVar[int] = 7

        @property
        def total(self) -> int:
            return self.x + self.y

    return Point


@ours(frozen=True, kw_only=True)
class Kept:
    value: int
    names: tuple[str, ...] = ()


@pytest.mark.parametrize("decorator", DECORATORS)
def test_defaults_factories_equality_and_text(decorator: Callable[..., Any]) -> None:
    made = point(decorator, frozen=True, kw_only=True)
    a, b = made(x=1), made(x=1, hidden=5)
    assert (a.y, a.names, a.hidden, a.total, made.shared) == (2, [], 0, 3, 7)
    assert a == b
    assert a != made(x=2)
    assert a.names is not made(x=1).names
    assert repr(a).endswith("Point(x=1, y=2, names=[])")
    assert a != (1, 2, [])


@pytest.mark.parametrize("decorator", DECORATORS)
def test_wrong_arguments_are_type_errors(decorator: Callable[..., Any]) -> None:
    keywords, positions = point(decorator, kw_only=True), point(decorator)
    for call in (
        lambda: keywords(1),
        lambda: keywords(),
        lambda: keywords(x=1, z=2),
        lambda: keywords(x=1, shared=2),
        lambda: positions(1, 2, [], 4, 5),
        lambda: positions(1, x=1),
    ):
        with pytest.raises(TypeError):
            call()
    assert positions(1, 3).y == 3


@pytest.mark.parametrize("decorator", DECORATORS)
def test_frozen_ones_hash_and_refuse_changes(decorator: Callable[..., Any]) -> None:
    @decorator(frozen=True)
    class Pair:
        a: int
        b: str = "b"

    assert hash(Pair(1)) == hash(Pair(1))
    assert {Pair(1): 1}[Pair(1, "b")] == 1
    with pytest.raises(dataclasses.FrozenInstanceError):
        Pair(1).a = 2
    with pytest.raises(dataclasses.FrozenInstanceError):
        del Pair(1).a
    with pytest.raises(TypeError):
        hash(point(decorator)(1))


@pytest.mark.parametrize("decorator", DECORATORS)
def test_replace_fields_asdict_and_post_init(decorator: Callable[..., Any]) -> None:
    seen: list[int] = []

    @decorator(frozen=True, kw_only=True)
    class Checked:
        a: int
        b: int = 1

        def __post_init__(self) -> None:
            seen.append(self.a)

    for replace in (dataclasses.replace, nouns.replace):
        changed = replace(Checked(a=1), b=5)
        assert (changed.a, changed.b) == (1, 5)
    assert [f.name for f in dataclasses.fields(Checked)] == ["a", "b"]
    assert dataclasses.asdict(changed) == {"a": 1, "b": 5}
    assert nouns.field_names(changed) == ("a", "b")
    assert dataclasses.is_dataclass(Checked)
    assert seen == [1, 1, 1, 1]


def test_they_survive_pickling() -> None:
    kept = Kept(value=3, names=("a",))
    assert pickle.loads(pickle.dumps(kept)) == kept


def test_a_standard_field_is_refused_rather_than_taken_for_a_default() -> None:
    with pytest.raises(TypeError, match=r"Wrong\.names: use stowplan\.nouns\.field"):

        @ours
        class Wrong:
            names: list[str] = dataclasses.field(default_factory=list)


def test_nested_ones_become_plain_and_cached_properties_are_not_carried_over() -> None:
    @ours(frozen=True)
    class Outer:
        inner: Any
        named: dict[str, Any]

        @cached_property
        def twice(self) -> int:
            return 2 * self.inner[0].value

    outer = Outer((Kept(value=1),), {"a": [Kept(value=2)]})
    assert outer.twice == 2
    assert nouns.replace(outer, inner=(Kept(value=4),)).twice == 8
    assert nouns.asdict(outer) == dataclasses.asdict(outer)


class Cell(nouns.NamedTuple):
    row: int
    column: int = 2
    text: str = ""

    def next(self) -> Cell:
        return self._replace(column=self.column + 1)


class StandardCell(typing.NamedTuple):
    row: int
    column: int = 2
    text: str = ""


@given(
    st.lists(st.integers(), max_size=4), st.dictionaries(st.sampled_from(["row", "column", "text", "none"]), st.text())
)
def test_a_named_tuple_takes_what_the_standard_one_takes(values: list[int], named: dict[str, str]) -> None:
    made: list[Any] = []
    for kind in (Cell, StandardCell):
        try:
            made.append(tuple(kind(*values, **named)))  # type: ignore[arg-type]
        except TypeError:
            made.append(None)
    assert made[0] == made[1]


def test_a_named_tuple_is_a_tuple_with_names() -> None:
    cell = Cell(1)
    row, column, text = cell
    assert (row, column, text) == (cell.row, cell.column, cell.text) == cell == (1, 2, "")
    assert cell.next() == Cell(1, 3)
    assert hash(cell) == hash((1, 2, ""))
    assert repr(cell) == "Cell(row=1, column=2, text='')"
    assert cell._fields == ("row", "column", "text")
    assert cell._asdict() == {"row": 1, "column": 2, "text": ""}
    assert pickle.loads(pickle.dumps(cell)) == copy.deepcopy(cell) == cell
    assert type(copy.copy(cell)) is Cell
    with pytest.raises(AttributeError):
        cell.row = 2  # type: ignore[misc]
    with pytest.raises(TypeError, match="unexpected"):
        cell._replace(colour=1)  # type: ignore[call-arg]
    match cell:
        case Cell(1, found):
            assert found == 2
