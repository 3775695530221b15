"""Which errors are retried, how often, and after which wait (R13)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast import errors
from holdfast.errors import ModelError
from holdfast.models.retry import BACKOFFS, MAX_RETRY_AFTER, retry_wait

CLASSES = {kind.code: kind for kind in ModelError.__subclasses__()}
RETRIED = {"rate_limit", "overloaded", "network", "stall", "garbage"}

TABLE = {
    "rate_limit": [2, 4, 8, 16, 32, 60, 60, 60, None],
    "overloaded": [1, 2, 4, 8, 16, 32, 60, 60, None],
    "network": [0.5, 1, 2, 4, 8, 16, None],
    "stall": [1, 2, None],
    "garbage": [1, 2, None],
    "auth": [None],
    "context": [None],
    "refused": [None],
    "invalid_request_to_model": [None],
}
"""Seconds after each attempt, without jitter."""

pytestmark = pytest.mark.promise("R13")


def test_table_covers_every_error_class() -> None:
    assert TABLE.keys() == CLASSES.keys()
    assert BACKOFFS.keys() == RETRIED == {code for code, kind in CLASSES.items() if kind.retryable}


@pytest.mark.parametrize("code", TABLE)
def test_waits_double_up_to_a_limit_and_then_end(code: str) -> None:
    waits = [retry_wait(CLASSES[code]("no"), attempt=attempt + 1, jitter=0.0) for attempt in range(len(TABLE[code]))]
    assert waits == TABLE[code]


@pytest.mark.parametrize("code", sorted(RETRIED))
def test_jitter_shortens_a_wait_by_up_to_half(code: str) -> None:
    error = CLASSES[code]("no")
    full = retry_wait(error, attempt=1, jitter=0.0)
    assert full is not None
    assert retry_wait(error, attempt=1, jitter=0.5) == full * 0.75
    assert retry_wait(error, attempt=1, jitter=1.0) == full * 0.5


@given(st.sampled_from(sorted(RETRIED)), st.integers(1, 10_000), st.floats(0, 1), st.none() | st.floats(0, 10_000))
def test_wait_is_at_least_the_providers_and_never_exceeds_the_limit(
    code: str, attempt: int, jitter: float, after: float | None
) -> None:
    wait = retry_wait(CLASSES[code]("no", retry_after=after), attempt=attempt, jitter=jitter)
    if wait is not None:
        assert 0 <= wait <= MAX_RETRY_AFTER * 1.1
        assert after is None or wait >= after


@pytest.mark.parametrize(
    ("after", "jitter", "expected"),
    [(0.0, 0.5, 0.0), (7.0, 0.0, 7.0), (7.0, 1.0, 7.7), (600.0, 0.0, 600.0), (600.1, 0.0, None), (86_400.0, 0.0, None)],
)
def test_wait_of_the_provider_replaces_ours_up_to_a_limit(after: float, jitter: float, expected: float | None) -> None:
    wait = retry_wait(errors.ModelRateLimit("no", retry_after=after), attempt=1, jitter=jitter)
    assert wait == (None if expected is None else pytest.approx(expected))


def test_wait_of_the_provider_does_not_allow_more_attempts() -> None:
    assert retry_wait(errors.ModelRateLimit("no", retry_after=1.0), attempt=9, jitter=0.0) is None


def test_wait_of_the_provider_does_not_make_an_error_retryable() -> None:
    assert retry_wait(errors.ModelAuth("no", retry_after=1.0), attempt=1, jitter=0.0) is None


def test_specific_error_code_is_retried_like_its_class() -> None:
    assert retry_wait(errors.ModelNetwork("no", code="dns"), attempt=1, jitter=0.0) == 0.5
