import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.events import Cursor, parse_cursor


@given(st.from_regex(r"[0-9a-f]{8}", fullmatch=True), st.integers(0, 10**18 - 1))
def test_a_cursor_is_parsed_from_its_text(log_id: str, number: int) -> None:
    assert parse_cursor(str(Cursor(log_id, number))) == Cursor(log_id, number)


@given(st.text())
def test_any_text_is_parsed_or_rejected(text: str) -> None:
    cursor = parse_cursor(text)
    assert cursor is None or str(cursor).split(".")[0] == text.split(".")[0]


@pytest.mark.parametrize("text", ["", ".", "a.", ".1", "a.-1", "a.1.2", "a. 1", "a.1\n", "A.1", "a.1e3", "a.١"])
def test_an_invalid_cursor_is_rejected(text: str) -> None:
    assert parse_cursor(text) is None
