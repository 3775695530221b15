"""How long a database that does not answer is waited for, decided from times and outcomes (`R14`)."""

import psycopg
import pytest

from holdfast.store.postgres.connection import SilentDatabase
from holdfast.store.postgres.outage import PROBE_SECONDS, WAIT_SECONDS, Outage

pytestmark = pytest.mark.promise("R14")

LOST = psycopg.OperationalError("gone")


def test_a_database_that_answers_refuses_nothing() -> None:
    outage = Outage()
    assert outage.refusal(now=1000.0) is None
    outage.answered()
    assert outage.refusal(now=1000.0) is None


def test_all_wait_once_counted_from_the_loss() -> None:
    outage = Outage()
    outage.lost(LOST, now=100.0)
    outage.lost(LOST, now=103.0)  # does not begin the wait again
    assert outage.refusal(now=100.0 + WAIT_SECONDS - 0.01) is None
    assert not outage.must_give_up(began=104.0, now=100.0 + WAIT_SECONDS - 0.01)
    assert outage.must_give_up(began=104.0, now=100.0 + WAIT_SECONDS)


def test_one_who_waited_for_a_thread_waits_no_longer_than_others() -> None:
    outage = Outage()
    outage.lost(LOST, now=100.0)
    assert outage.must_give_up(began=90.0, now=100.0)


def test_one_whose_connection_fails_gives_up_although_others_are_answered() -> None:
    outage = Outage()
    outage.lost(LOST, now=100.0)
    outage.answered()
    assert not outage.must_give_up(began=100.0, now=102.0)
    assert outage.must_give_up(began=100.0, now=100.0 + WAIT_SECONDS)


def test_after_the_wait_one_at_a_time_tries_and_the_others_are_refused_with_the_last_reason() -> None:
    outage = Outage()
    outage.lost(LOST, now=100.0)
    later = 100.0 + WAIT_SECONDS
    assert outage.refusal(now=later) is None  # the first tries
    outage.lost(psycopg.OperationalError("too many clients already"), now=later)
    refused = outage.refusal(now=later + PROBE_SECONDS / 2)
    assert refused is not None
    assert "raise max_connections" in refused.message
    assert outage.refusal(now=later + PROBE_SECONDS) is None
    assert outage.refusal(now=later + PROBE_SECONDS) is not None


def test_an_answer_ends_the_refusals_at_once() -> None:
    outage = Outage()
    outage.lost(LOST, now=100.0)
    assert outage.refusal(now=106.0) is None
    assert outage.refusal(now=106.0) is not None
    outage.answered()
    assert outage.refusal(now=106.0) is None
    outage.lost(LOST, now=107.0)
    assert outage.refusal(now=108.0) is None


def test_a_silent_database_is_lost_since_its_first_answer_was_missing() -> None:
    outage = Outage()
    outage.lost(SilentDatabase(since=100.0), now=100.0 + WAIT_SECONDS)
    assert outage.must_give_up(began=103.0, now=100.0 + WAIT_SECONDS)


def test_the_next_one_tries_when_the_one_before_has_failed() -> None:
    outage = Outage()
    outage.lost(LOST, now=100.0)
    assert outage.refusal(now=106.0) is None
    assert outage.refusal(now=109.0) is not None  # it still tries
    outage.lost(LOST, now=111.0)
    assert outage.refusal(now=111.0) is None


def test_one_that_never_says_how_it_ended_does_not_keep_others_from_trying() -> None:
    outage = Outage()
    outage.lost(LOST, now=100.0)
    assert outage.refusal(now=106.0) is None
    assert outage.refusal(now=106.0 + 2 * WAIT_SECONDS) is None


def test_what_waited_for_its_turn_during_the_loss_is_refused_without_a_try() -> None:
    outage = Outage()
    assert outage.late_refusal(began=90.0, now=100.0) is None  # it was only late
    outage.lost(LOST, now=100.0)
    assert outage.late_refusal(began=101.0, now=102.0) is None
    assert outage.late_refusal(began=101.0, now=100.0 + WAIT_SECONDS) is not None
    assert outage.late_refusal(began=106.0, now=106.0) is None  # it is the one that tries
