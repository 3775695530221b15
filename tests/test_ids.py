"""Ids have prefixes, can be reproduced in tests, and are checked if a client chooses them."""

import re
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.ids import Ids, Prefix, is_valid_client_id, new_token, rfc3339


@pytest.mark.parametrize("prefix", get_args(Prefix))
def test_an_id_has_its_prefix(prefix: Prefix) -> None:
    made = Ids().new(prefix)
    assert re.fullmatch(rf"{prefix}_[0-9a-hjkmnp-tv-z]{{25}}", made)
    assert is_valid_client_id(made)


def test_ids_are_repeatable_with_a_given_clock_and_randomness() -> None:
    def ids() -> Ids:
        return Ids(clock=lambda: 1_767_323_045.678, random=lambda size: bytes(range(size)))

    assert ids().new("run") == ids().new("run") == "run_1kdyak3se0123456789abcdef"


def test_ids_of_the_same_time_differ() -> None:
    ids = Ids(clock=lambda: 1.0)
    assert len({ids.new("msg") for _ in range(1000)}) == 1000


@given(earlier=st.integers(0, 10**12), later=st.integers(0, 10**12))
def test_ids_sort_by_age(earlier: int, later: int) -> None:
    first, second = (Ids(clock=lambda at=at: at / 1000, random=bytes).new("run") for at in (earlier, later))
    assert (first < second) == (int(earlier / 1000 * 1000) < int(later / 1000 * 1000))


@pytest.mark.parametrize("text", ["a", "run_1", "A-b.c:d_e", "0" * 128])
def test_ids_that_a_client_may_choose(text: str) -> None:
    assert is_valid_client_id(text)


@pytest.mark.parametrize(
    "text", ["", "0" * 129, ".", "../x", "_a", "-a", "a/b", "a b", "a\n", "ä", "a?b", "a%2f", "a\0"]
)
def test_ids_that_a_client_may_not_choose(text: str) -> None:
    assert not is_valid_client_id(text)


@given(text=st.text())
def test_a_valid_client_id_is_safe_in_paths_urls_and_logs(text: str) -> None:
    if is_valid_client_id(text):
        assert text.isascii()
        assert text.isprintable()
        assert not set(text) & set("/\\?#%&\"' ")
        assert text not in (".", "..")


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (0, "1970-01-01T00:00:00.000Z"),
        (1_767_323_045.678, "2026-01-02T03:04:05.678Z"),
        (1_767_323_045.9999, "2026-01-02T03:04:05.999Z"),
    ],
)
def test_times_are_formatted_in_utc_with_milliseconds(seconds: float, shown: str) -> None:
    assert rfc3339(seconds) == shown


def test_a_token_is_random_and_safe_in_headers_and_urls() -> None:
    assert re.fullmatch(r"[A-Za-z0-9_-]{43}", new_token(32))
    assert new_token(32) != new_token(32)
