"""How long a model may be silent, by a clock that the test moves."""

from __future__ import annotations

import pytest

from holdfast.models.stall_timeout import Deadlines, StallTimeout


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def patience(clock: Clock) -> StallTimeout:
    return StallTimeout(Deadlines(first_token=10, between_tokens=5), clock=clock)


def waits(patience: StallTimeout, clock: Clock, seconds: float) -> float | None:
    """One wait of this length; when it would have had to end."""
    due = patience.wait()
    clock.now += seconds
    patience.rest()
    return due


def test_the_first_token_has_its_own_deadline(patience: StallTimeout, clock: Clock) -> None:
    assert waits(patience, clock, 4) == 1010
    patience.progress(token=True)
    assert waits(patience, clock, 1) == 1009


def test_before_the_first_token_other_events_buy_no_time(patience: StallTimeout, clock: Clock) -> None:
    waits(patience, clock, 4)
    patience.progress(token=False)
    assert waits(patience, clock, 0) == 1010


def test_after_the_first_token_every_event_buys_time(patience: StallTimeout, clock: Clock) -> None:
    patience.progress(token=True)
    waits(patience, clock, 4)
    patience.progress(token=False)
    assert waits(patience, clock, 0) == 1009


def test_waits_without_progress_add_up(patience: StallTimeout, clock: Clock) -> None:
    patience.progress(token=True)
    waits(patience, clock, 2)
    assert waits(patience, clock, 2) == 1005


def test_a_slow_reader_is_no_stall(patience: StallTimeout, clock: Clock) -> None:
    patience.progress(token=True)
    waits(patience, clock, 1)
    clock.now += 3600  # the reader's own work
    assert patience.wait() == 1000 + 1 + 3600 + 4


@pytest.mark.parametrize("token", [False, True])
def test_a_deadline_of_zero_is_none(clock: Clock, token: bool) -> None:
    patience = StallTimeout(Deadlines(first_token=0, between_tokens=0), clock=clock)
    patience.progress(token=token)
    assert patience.wait() is None


def test_a_stall_says_which_deadline_passed_and_after_how_long(patience: StallTimeout, clock: Clock) -> None:
    patience.wait()
    clock.now += 10.5
    first = patience.stall()
    assert first.message == "the model gave no first token within 10 s (limits.first_token)"
    assert first.detail == {"deadline": "first_token", "seconds": 10, "waited": 10.5}
    patience.progress(token=True)
    patience.wait()
    clock.now += 5
    between = patience.stall()
    assert between.message == "the model fell silent in the middle of its answer for 5 s (limits.between_tokens)"
    assert between.detail == {"deadline": "between_tokens", "seconds": 5, "waited": 5.0}
