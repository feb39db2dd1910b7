"""Key documents: one canonical form, the same everywhere, and differences that name the input."""

from __future__ import annotations

import subprocess
import sys

import pytest

from stowplan.cache import key
from stowplan.errors import UsageError

DOCUMENT = {"b": [1, 2, {"c": None}], "a": {"x": True, "y": 0.1, "z": "\N{SNOWMAN}"}}


def test_the_order_of_names_does_not_matter_and_that_of_items_does() -> None:
    assert key.digest({"a": 1, "b": 2}) == key.digest({"b": 2, "a": 1})
    assert key.digest({"a": [1, 2]}) != key.digest({"a": [2, 1]})


@pytest.mark.parametrize(
    ("one", "other"),
    [(1, 1.0), (1, True), (0, False), (0, None), ("1", 1), (0.0, -0.0), ([], {}), ("", None), ([[]], [])],
)
def test_values_that_python_calls_equal_are_told_apart(one: object, other: object) -> None:
    assert key.digest({"v": one}) != key.digest({"v": other})


def test_the_digest_is_the_same_in_another_process_with_another_hash_seed() -> None:
    code = f"from stowplan.cache import key; print(key.digest({DOCUMENT!r}))"
    for seed in ("1", "2"):
        done = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, env={"PYTHONHASHSEED": seed}, check=True
        )
        assert done.stdout.strip() == key.digest(DOCUMENT)


@pytest.mark.parametrize("value", [print, object(), b"bytes", {1, 2}, {3: "number"}, lambda: 0])
def test_what_has_no_identity_outside_its_process_is_refused_with_its_place(value: object) -> None:
    with pytest.raises(UsageError, match=r"cache input (options\.v|options)") as caught:
        key.digest({"options": {"v": value}})
    assert "\n" not in str(caught.value)


def test_differences_name_the_input_with_old_and_new_value() -> None:
    old = {"target": {"pools": {"fast": {"size_bytes": 800}}}, "same": 1, "gone": "x"}
    new = {"target": {"pools": {"fast": {"size_bytes": 900}}}, "same": 1, "more": [True]}
    assert [str(d) for d in key.differences(old, new)] == [
        "gone: x -> nothing",
        "more.0: nothing -> true",
        "target.pools.fast.size_bytes: 800 -> 900",
    ]


def test_digests_are_shortened_where_people_read_them() -> None:
    assert str(key.differences({"d": "a" * 64}, {"d": "b" * 64})[0]) == "d: aaaaaaaaaaaa... -> bbbbbbbbbbbb..."
