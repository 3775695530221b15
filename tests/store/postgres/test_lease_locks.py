"""Commits and renewals do not wait for each other; the death of a server and a takeover wait for its commits."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from uuid import uuid4

import psycopg
import pytest

from holdfast.store.postgres import lease_table
from holdfast.store.postgres.connection import PostgresConnection
from holdfast.store.postgres.lease_check import LeaseCheck
from holdfast.store.postgres.single_owner import SingleOwner
from tests.store.postgres.held_leases import HeldLeases
from tests.support.postgres_cluster import shared_cluster

Begin = Callable[[], PostgresConnection]

_WAITS = psycopg.errors.LockNotAvailable


@pytest.fixture
def begin() -> Iterator[Begin]:
    """Begins a transaction of its own connection. A lock that is not free at once is an error.

    The server ``one`` holds the lease of ``wsp`` with fence 1; its time is over. ``two`` lives.
    """
    cluster = shared_cluster()
    address = cluster.take_database()
    with ExitStack() as stack:

        def begun() -> PostgresConnection:
            sql = PostgresConnection.open(address)
            stack.callback(sql.close)
            sql.begin(seconds=30.0)
            sql.execute("SET LOCAL idle_in_transaction_session_timeout = 0")
            sql.execute("SET LOCAL lock_timeout = 1")
            return sql

        sql = begun()
        for server_id, seconds in (("one", 0), ("two", 60)):
            lease_table.register(sql, server_id, host_id="h", lasts=seconds, info={"home": server_id})
        assert lease_table.take(sql, "wsp", server_id="one", kind="owner") == 1
        sql.commit()
        yield begun
    cluster.give_back(address)


def _check(sql: PostgresConnection) -> None:
    """Do what a commit of the server ``one`` does, up to its COMMIT."""
    check = LeaseCheck(HeldLeases("one", {"wsp": 1}))
    check.add(["wsp"], {})
    check.insert_commit(sql, uuid4().hex)
    sql.flush()


def _renew(sql: PostgresConnection, server_id: str = "one") -> bool:
    return lease_table.renew(sql, server_id, lasts=60, address=None, info={"home": server_id})().is_renewed


@pytest.mark.promise("W16")
def test_a_renewal_does_not_wait_for_a_commit_that_is_under_way(begin: Begin) -> None:
    commit, renewal = begin(), begin()
    _check(commit)
    assert _renew(renewal)
    renewal.commit()
    commit.commit()


@pytest.mark.promise("W16")
def test_a_commit_does_not_wait_for_a_renewal_that_is_under_way(begin: Begin) -> None:
    commit, renewal = begin(), begin()
    assert _renew(renewal)
    _check(commit)
    commit.commit()
    renewal.commit()


@pytest.mark.promise("W16")
def test_a_renewal_does_not_wait_for_a_lease_that_the_server_is_taking(begin: Begin) -> None:
    taking, renewal = begin(), begin()
    assert lease_table.take(taking, "wsp_2", server_id="two", kind="owner") == 1
    assert _renew(renewal, "two")
    renewal.commit()
    taking.commit()


@pytest.mark.promise("W16")
@pytest.mark.parametrize("renews", ["", "before", "after"])
@pytest.mark.parametrize("change", ["declare", "start again", "own alone", "leave"])
def test_the_end_of_a_server_waits_for_its_commit(begin: Begin, change: str, renews: str) -> None:
    commit, renewal, other = begin(), begin(), begin()
    if renews == "before":
        assert _renew(renewal)
    _check(commit)
    if renews == "after":
        assert _renew(renewal)
    if renews:
        renewal.execute("UPDATE servers SET expires_at = clock_timestamp()")  # the renewal is over at once
        renewal.commit()
    with pytest.raises(_WAITS):
        _end(other, change)
    other.rollback()
    commit.commit()
    _end(begin(), change)


@pytest.mark.promise("W16")
def test_a_takeover_waits_for_a_commit_of_the_dead_owner(begin: Begin) -> None:
    commit, other = begin(), begin()
    _check(commit)
    commit.execute("UPDATE servers SET dead = true WHERE id = 'one'")  # as if nothing had waited
    with pytest.raises(_WAITS):
        lease_table.take(other, "wsp", server_id="two", kind="owner")
    commit.commit()
    assert lease_table.take(begin(), "wsp", server_id="two", kind="owner") == 2


@pytest.mark.promise("W16")
def test_a_commit_after_the_death_is_refused(begin: Begin) -> None:
    death, commit, late = begin(), begin(), begin()
    assert lease_table.declare_dead(death, "one")()
    with pytest.raises(_WAITS):
        _check(commit)
    death.commit()
    with pytest.raises(psycopg.errors.CheckViolation):
        _check(late)


def _end(sql: PostgresConnection, change: str) -> None:
    """End the server ``one`` in one of the ways that there are."""
    if change == "declare":
        assert lease_table.declare_dead(sql, "one")()
    elif change == "start again":
        lease_table.register(sql, "new", host_id="h", lasts=60, info={"home": "one"})
    elif change == "own alone":
        lease_table.leave(sql, "two")
        SingleOwner(home_id="alone").acquire(sql)
    else:
        lease_table.leave(sql, "one")
    sql.commit()
