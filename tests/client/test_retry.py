"""Every retry decision, without I/O."""

import pytest

from holdfast.client.retry import CallRetry, LongPoll, Retry, RetryBudget
from holdfast.errors import (
    Conflict,
    HoldfastError,
    InternalError,
    NoAnswer,
    ServerStopping,
    TooMany,
    Unauthorized,
    Unreachable,
)

LOST = Unreachable("gone")


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def call_retry(
    *, retry_seconds: float = 10.0, can_revive: bool = False, leave_stopped: bool = False, clock: Clock | None = None
) -> CallRetry:
    budget = RetryBudget(retry_seconds, clock=clock or Clock())
    return CallRetry(budget, can_revive=can_revive, leave_stopped=leave_stopped)


def test_a_budget_is_spent_after_its_seconds() -> None:
    clock = Clock()
    budget = RetryBudget(1.0, clock=clock)
    assert [budget.next_wait(LOST) for _ in range(3)] == [0.02, 0.04, 0.08]
    clock.now = 1.0
    with pytest.raises(Unreachable):
        budget.next_wait(LOST)
    budget.succeeded()
    assert budget.next_wait(LOST) == 0.02


def test_a_budget_without_a_limit_has_a_longest_wait() -> None:
    clock = Clock()
    budget = RetryBudget(None, clock=clock)
    waits = []
    for _ in range(12):
        waits.append(budget.next_wait(LOST))
        clock.now += 1000
    assert waits == sorted(waits)
    assert waits[-1] == 1.0


def test_a_budget_of_zero_raises_the_first_error() -> None:
    with pytest.raises(Unreachable):
        call_retry(retry_seconds=0.0).after_loss(LOST)


@pytest.mark.parametrize("can_revive", [True, False])
@pytest.mark.parametrize("leave_stopped", [True, False])
def test_a_lost_response_is_retried_and_the_server_revived_if_possible(can_revive: bool, leave_stopped: bool) -> None:
    retry = call_retry(can_revive=can_revive, leave_stopped=leave_stopped)
    assert retry.after_loss(LOST) == Retry(0.02, revive=can_revive)
    assert retry.after_loss(LOST) == Retry(0.04, revive=can_revive)


def test_a_stale_connection_is_replaced_at_once() -> None:
    retry = call_retry(retry_seconds=0.0, can_revive=True)
    assert retry.after_loss(LOST, reused=True) == Retry()


@pytest.mark.parametrize(
    "error",
    [Conflict("x"), Unauthorized("x"), TooMany("x"), InternalError("x"), NoAnswer("x"), LOST],
    ids=lambda error: type(error).__name__,
)
def test_an_error_response_is_raised(error: HoldfastError) -> None:
    with pytest.raises(type(error)):
        call_retry(can_revive=True).after_refusal(error)


@pytest.mark.parametrize("can_revive", [True, False])
@pytest.mark.parametrize("leave_stopped", [True, False])
def test_a_stopping_server_is_replaced_unless_leave_stopped(can_revive: bool, leave_stopped: bool) -> None:
    retry = call_retry(can_revive=can_revive, leave_stopped=leave_stopped)
    if can_revive and not leave_stopped:
        assert retry.after_refusal(ServerStopping("x")) == Retry(0.02, revive=True)
    else:
        with pytest.raises(ServerStopping):
            retry.after_refusal(ServerStopping("x"))


def test_losses_and_error_responses_share_one_budget() -> None:
    clock = Clock()
    retry = call_retry(retry_seconds=5.0, can_revive=True, clock=clock)
    retry.after_loss(LOST)
    clock.now = 5.0
    with pytest.raises(ServerStopping):
        retry.after_refusal(ServerStopping("x"))


def test_a_long_poll_splits_its_time_into_requests() -> None:
    clock = Clock()
    poll = LongPoll(70.0, clock=clock)
    waits = []
    while not poll.is_over:
        waits.append(poll.next_wait())
        clock.now += waits[-1]
    assert waits == [30.0, 30.0, 10.0]
    assert poll.next_wait() == 0.0
    assert LongPoll(0.0, clock=clock).is_over


def test_a_long_poll_without_a_limit_is_never_over() -> None:
    clock = Clock()
    poll = LongPoll(None, clock=clock)
    clock.now = 1e9
    assert (poll.next_wait(), poll.next_wait(2.0), poll.is_over) == (30.0, 2.0, False)
