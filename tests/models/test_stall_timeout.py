"""Time-outs of a silent model, with a clock that the test moves."""

from __future__ import annotations

import pytest

from holdfast.models.stall_timeout import StallLimits, StallTimeout


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def stall(clock: Clock) -> StallTimeout:
    return StallTimeout(StallLimits(first_token=10, between_tokens=5), clock=clock)


def wait(stall: StallTimeout, clock: Clock, seconds: float) -> float | None:
    """Wait for some seconds. Returns when the wait had to end."""
    due = stall.begin_wait()
    clock.now += seconds
    stall.end_wait()
    return due


def test_first_token_has_its_own_limit(stall: StallTimeout, clock: Clock) -> None:
    assert wait(stall, clock, 4) == 1010
    stall.event_received(token=True)
    assert wait(stall, clock, 1) == 1009


def test_before_the_first_token_other_events_do_not_reset_the_time(stall: StallTimeout, clock: Clock) -> None:
    wait(stall, clock, 4)
    stall.event_received(token=False)
    assert wait(stall, clock, 0) == 1010


def test_after_the_first_token_every_event_resets_the_time(stall: StallTimeout, clock: Clock) -> None:
    stall.event_received(token=True)
    wait(stall, clock, 4)
    stall.event_received(token=False)
    assert wait(stall, clock, 0) == 1009


def test_waits_without_an_event_add_up(stall: StallTimeout, clock: Clock) -> None:
    stall.event_received(token=True)
    wait(stall, clock, 2)
    assert wait(stall, clock, 2) == 1005


def test_time_of_a_slow_reader_does_not_count(stall: StallTimeout, clock: Clock) -> None:
    stall.event_received(token=True)
    wait(stall, clock, 1)
    clock.now += 3600  # the reader's own work
    assert stall.begin_wait() == 1000 + 1 + 3600 + 4


@pytest.mark.parametrize("token", [False, True])
def test_zero_is_no_limit(clock: Clock, token: bool) -> None:
    stall = StallTimeout(StallLimits(first_token=0, between_tokens=0), clock=clock)
    stall.event_received(token=token)
    assert stall.begin_wait() is None


def test_error_names_the_limit_and_the_time_waited(stall: StallTimeout, clock: Clock) -> None:
    stall.begin_wait()
    clock.now += 10.5
    first = stall.error()
    assert first.message == "the model sent no first token within 10 s (limits.first_token)"
    assert first.detail == {"deadline": "first_token", "seconds": 10, "waited": 10.5}
    stall.event_received(token=True)
    stall.begin_wait()
    clock.now += 5
    between = stall.error()
    assert (
        between.message
        == "the model stopped in the middle of its answer and sent nothing for 5 s (limits.between_tokens)"
    )
    assert between.detail == {"deadline": "between_tokens", "seconds": 5, "waited": 5.0}
