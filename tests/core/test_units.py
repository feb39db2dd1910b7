"""Sizes and shapes at the border: what is read, what is refused, how it is written."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stowplan.errors import UsageError
from stowplan.units import MOST_BYTES, format_shape, format_size, parse_pools, parse_shape, parse_size


@pytest.mark.parametrize(
    ("text", "size_bytes"),
    [
        ("1", 1), ("17B", 17), ("32K", 32768), ("32k", 32768), ("32KB", 32768), ("32KiB", 32768), ("32 kib", 32768),
        ("1M", 1 << 20), ("1MB", 1 << 20), ("1MiB", 1 << 20), ("2G", 2 << 30), ("2GB", 2 << 30), ("2GiB", 2 << 30),
        ("1.5K", 1536), (".5M", 1 << 19), ("0.3K", 307), ("2.M", 2 << 20), (" 4K ", 4096),
    ],
)  # fmt: skip
def test_a_size_is_read_in_powers_of_1024_whatever_its_unit_is_called(text: str, size_bytes: int) -> None:
    assert parse_size(text, "-m") == size_bytes


@pytest.mark.parametrize(
    "text",
    ["", "abc", "K", "-1", "-1K", "+1K", "0", "0K", "0.0001", "1T", "1KK", "1e3", "nan", "inf", "0x10", "1,5K",
     "\N{ARABIC-INDIC DIGIT THREE}K", "1 2", "1\n2", "9" * 30 + "K", "2000G", "1_000"],
)  # fmt: skip
def test_anything_else_is_a_usage_error_in_one_line_that_names_the_option(text: str) -> None:
    with pytest.raises(UsageError, match=r"^-m ") as caught:
        parse_size(text, "-m")
    assert len(str(caught.value)) < 160


def test_two_memories_are_read_from_two_options_or_from_one_sum() -> None:
    expected = (("fast", 32768), ("slow", 1 << 20))
    assert parse_pools(["32K", "1M"]) == parse_pools(["32K+1M"]) == expected
    assert parse_pools([]) == ()


@pytest.mark.parametrize("values", [["1K", "1K", "1K"], ["1K+1K+1K"], ["1K+"], ["+"], [""]])
def test_three_memories_or_half_a_sum_are_refused(values: list[str]) -> None:
    with pytest.raises(UsageError):
        parse_pools(values)


@pytest.mark.parametrize(
    ("size_bytes", "text"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1.00 KiB"),
        (28897, "28.22 KiB"),
        (1 << 20, "1.00 MiB"),
        (3 << 30, "3.00 GiB"),
    ],
)
def test_a_size_is_written_with_two_decimals_in_the_largest_unit(size_bytes: int, text: str) -> None:
    assert format_size(size_bytes) == text


@given(st.integers(1, MOST_BYTES))
def test_a_size_that_is_written_and_read_again_is_off_by_less_than_a_hundredth_of_its_unit(size_bytes: int) -> None:
    text = format_size(size_bytes)
    unit = {"B": 1, "KiB": 1024, "MiB": 1024**2, "GiB": 1024**3}[text.split()[1]]
    assert abs(parse_size(text, "-m") - size_bytes) <= unit * 0.01


def test_an_input_shape_may_belong_to_a_name_with_colons() -> None:
    assert parse_shape("serving:0:1x96x96x3", "--input-shape") == ("serving:0", (1, 96, 96, 3))


@pytest.mark.parametrize("text", ["", "x", "x:", ":1x2", "x:0x2", "x:-1x2", "x:1x", "x:axb", "x:1X2", "x:1x9999999999"])
def test_a_malformed_input_shape_is_a_usage_error(text: str) -> None:
    with pytest.raises(UsageError, match="--input-shape"):
        parse_shape(text, "--input-shape")


def test_a_shape_shows_free_dimensions_and_scalars() -> None:
    assert (format_shape((-1, 96, 3)), format_shape(())) == ("?x96x3", "scalar")
