"""Durations and sizes mean what people mean by them, and nothing else is let through."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from takeback.cli.values import format_age, format_size, format_span, parse_duration, parse_size


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("30s", 30), ("10m", 600), ("2h", 7200), ("7d", 604800), ("2w", 1209600),
        ("1h30m", 5400), ("1.5h", 5400), ("1H 30M", 5400), (" 10m ", 600), ("0s", 0),
    ],
)  # fmt: skip
def test_a_duration_is_numbers_with_units(text: str, seconds: float) -> None:
    assert parse_duration(text) == seconds


@pytest.mark.parametrize("text", ["", "10", "m", "10 parsecs", "-5m", "5m!", "1h30", "1e3s", "ten minutes", "5\n"])
def test_what_is_not_a_duration_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(ValueError, match="write it like 30s, 10m, 2h or 7d"):
        parse_duration(text)


def test_a_bare_number_is_seconds_only_where_that_was_said() -> None:
    assert parse_duration("90", bare_seconds=True) == 90
    assert parse_duration("0.5", bare_seconds=True) == 0.5
    with pytest.raises(ValueError):
        parse_duration("90")


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("0", 0), ("1024", 1024), ("500M", 500 * 1024**2), ("2G", 2 * 1024**3), ("2gb", 2 * 1024**3),
        ("1.5 GiB", 3 * 1024**3 // 2), ("64k", 65536), ("1T", 1024**4), ("100B", 100),
    ],
)  # fmt: skip
def test_a_size_is_a_number_with_a_unit_of_1024(text: str, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize("text", ["", "G", "2X", "-1G", "1G2", "1,5G", "two", "2GG"])
def test_what_is_not_a_size_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(ValueError, match="write it like 500M or 2G"):
        parse_size(text)


@given(st.integers(min_value=0, max_value=2**60))
def test_a_size_that_was_written_reads_as_about_the_same(size: int) -> None:
    assert abs(parse_size(format_size(size)) - size) <= size * 0.06


@given(st.text(max_size=12))
def test_any_text_is_a_duration_or_a_clear_refusal(text: str) -> None:
    try:
        assert parse_duration(text) >= 0
    except ValueError as error:
        assert "write it like" in str(error)


def test_ages_are_read_at_a_glance() -> None:
    assert [format_age(seconds) for seconds in (-5, 0, 4, 59, 61, 7300, 3 * 86400)] == [
        "just now", "just now", "4.0 s ago", "59 s ago", "1 min ago", "2 h ago", "3 days ago",
    ]  # fmt: skip
    assert format_span(0.123) == "0.1 s"
