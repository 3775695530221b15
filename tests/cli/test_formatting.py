"""Formatted numbers, times, tables and bars."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.cli.formatting import ago, bar, byte_size, duration, short_number, table


@pytest.mark.parametrize(
    ("number", "words"), [(0, "0"), (999, "999"), (1_234, "1.2k"), (3_400_000, "3.4M"), (2_000_000_000, "2000.0M")]
)
def test_thousands(number: int, words: str) -> None:
    assert short_number(number) == words


@pytest.mark.parametrize(("number", "words"), [(12, "12 bytes"), (2048, "2.0 kB"), (5 << 20, "5.0 MB")])
def test_sizes(number: int, words: str) -> None:
    assert byte_size(number) == words


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(-1, "0 s"), (59, "59 s"), (60, "1 min"), (7200, "2 h"), (86_400, "24 h"), (345_600, "4 days")],
)
def test_spans(seconds: float, words: str) -> None:
    assert duration(seconds) == words


def test_how_long_ago() -> None:
    assert ago("1970-01-01T00:00:10.000Z", now=70.0) == "1 min ago"
    assert ago("1970-01-01T00:00:10.000Z", now=9.0) == "just now"
    assert ago("", now=0.0) == ""


def test_table_columns_are_aligned_without_trailing_spaces() -> None:
    assert table([("a", "1", "x"), ("bbb", "22", "")], right=frozenset({1})) == ["a     1  x", "bbb  22"]
    assert table([]) == []


@given(share=st.floats(min_value=-1, max_value=2, allow_nan=False), fine=st.booleans())
def test_a_bar_fits_its_width_and_is_empty_only_for_zero(share: float, fine: bool) -> None:
    drawn = bar(share, width=10, fine=fine)
    assert len(drawn) <= 10
    assert bool(drawn) == (share > 0)
    assert not fine or set(drawn) <= set("▏▎▍▌▋▊▉█")
