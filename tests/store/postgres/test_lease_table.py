"""The statements on the rows of servers and leases follow the rules of `fleet.lease_rules`."""

from collections.abc import Callable, Iterator
from functools import partial
from itertools import product
from typing import TypeVar

import pytest

from holdfast.fleet import lease_rules
from holdfast.fleet.lease_rules import LeaseRow, LeaseTimes, ServerRow
from holdfast.store.postgres import lease_table
from holdfast.store.postgres.connection import PostgresConnection
from tests.support.postgres_cluster import shared_cluster

T = TypeVar("T")

_TIMES = LeaseTimes(lasts=60, stops_after=30)
_NOW = 1000.0


@pytest.fixture
def sql() -> Iterator[PostgresConnection]:
    cluster = shared_cluster()
    address = cluster.take_database()
    connection = PostgresConnection.open(address)
    yield connection
    connection.close()
    cluster.give_back(address)


def _done(sql: PostgresConnection, work: Callable[[], T]) -> T:
    sql.begin(seconds=10.0)
    result = work()
    sql.commit()
    return result


def _insert(sql: PostgresConnection, server: ServerRow) -> None:
    sql.execute(
        "INSERT INTO servers (id, host_id, expires_at, dead)"
        " VALUES (?, 'h', clock_timestamp() + ? * interval '1 second', CAST(? AS boolean))",
        (server.id, server.expires_at - _NOW, server.dead),
    )


_SERVERS = tuple(ServerRow("one", _NOW + seconds, dead=dead) for seconds, dead in product((-60, 60), (False, True)))


@pytest.mark.promise("W16")
def test_renewals_and_deaths_follow_the_rules(sql: PostgresConnection) -> None:
    for server in _SERVERS:
        for statement, rule in (
            (
                lambda: lease_table.renew(sql, "one", lasts=60, address=None, info={})().is_renewed,
                lease_rules.renew(server, now=_NOW, times=_TIMES),
            ),
            (lambda: bool(lease_table.declare_dead(sql, "one")()), lease_rules.declare_dead(server, now=_NOW)),
        ):
            _done(sql, lambda server=server: (sql.execute("DELETE FROM servers"), _insert(sql, server)))  # type: ignore[misc]
            assert _done(sql, statement) is (rule is not None), server
            (found,) = _done(sql, lambda: lease_table.read_servers(sql))
            expected = rule or server
            assert (found.dead, found.expires_in > 0) == (expected.dead, expected.expires_at > _NOW), server


@pytest.mark.promise("W16")
def test_leases_are_taken_and_released_as_the_rules_say(sql: PostgresConnection) -> None:
    takers = tuple(ServerRow("two", _NOW + 60, dead=dead) for dead in (False, True))
    for holder, taker, fence in product((None, *_SERVERS), takers, (1, 7)):
        lease = LeaseRow(None if holder is None else holder.id, fence)

        def prepare(holder: ServerRow | None = holder, taker: ServerRow = taker, lease: LeaseRow = lease) -> None:
            sql.execute("DELETE FROM servers")
            sql.execute("DELETE FROM leases")
            for server in (holder, taker):
                if server is not None:
                    _insert(sql, server)
            sql.execute("INSERT INTO leases VALUES ('wsp', ?, ?, 'owner')", (lease.holder, lease.fence))

        _done(sql, prepare)
        expected = lease_rules.take(lease, taker=taker, holder=holder)
        taken = _done(sql, lambda: lease_table.take(sql, "wsp", server_id="two", kind="owner"))
        assert taken == (None if expected is None else expected.fence), (holder, taker)

        _done(sql, prepare)
        for given in (fence, fence - 1):
            rule = lease_rules.release(lease, server_id="one", fence=given)
            released = _done(sql, lambda given=given: lease_table.release(sql, "wsp", server_id="one", fence=given))  # type: ignore[misc]
            assert released is (rule is not None), (lease, given)
            _done(sql, prepare)


def test_a_server_that_starts_again_in_its_home_replaces_itself_at_once(sql: PostgresConnection) -> None:
    def register(server_id: str, home: str) -> None:
        _done(sql, lambda: lease_table.register(sql, server_id, host_id="h", lasts=60, info={"home": home}))

    register("first", "a")
    register("other", "b")
    assert _done(sql, lambda: lease_table.take(sql, "wsp", server_id="first", kind="owner")) == 1
    register("second", "a")
    states = {one.id: one.dead for one in _done(sql, lambda: lease_table.read_servers(sql))}
    assert states == {"first": True, "other": False, "second": False}
    assert _done(sql, lambda: lease_table.take(sql, "wsp", server_id="second", kind="owner")) == 2
    _done(sql, lambda: lease_table.leave(sql, "second"))
    assert _done(sql, lambda: lease_table.read_leases(sql)) == ()


def test_servers_that_died_long_ago_are_forgotten_when_one_starts(sql: PostgresConnection) -> None:
    def register(server_id: str) -> None:
        _done(sql, lambda: lease_table.register(sql, server_id, host_id="h", lasts=60, info={"home": server_id}))

    states = {"old": (True, 2), "late": (False, 2), "recent": (True, 0)}
    for server_id in states:
        register(server_id)
    for server_id, (dead, days) in states.items():
        state = "dead = (? = 1), expires_at = clock_timestamp() - make_interval(days => ?)"
        _done(sql, partial(sql.execute, f"UPDATE servers SET {state} WHERE id = ?", (dead, days, server_id)))
    _done(sql, lambda: sql.execute("INSERT INTO leases (workspace_id, server_id, fence) VALUES ('w', 'old', 7)"))
    register("new")
    assert [server.id for server in _done(sql, lambda: lease_table.read_servers(sql))] == ["late", "recent", "new"]
    assert _done(sql, lambda: lease_table.take(sql, "w", server_id="new", kind="owner")) == 9


def test_a_renewal_is_one_message(sql: PostgresConnection) -> None:
    """Nothing is sent before the COMMIT, so no lock is held while the database waits for the server."""
    _done(sql, lambda: lease_table.register(sql, "one", host_id="h", lasts=60, info={"home": "a"}))
    _done(sql, lambda: lease_table.take(sql, "wsp", server_id="one", kind="owner"))
    sql.begin(seconds=10.0)
    answer = lease_table.renew(sql, "one", lasts=60, address="here", info={"home": "a"})
    assert not sql.in_transaction
    sql.commit()
    look = answer()
    assert look.is_renewed
    assert [(server.id, server.address) for server in look.servers] == [("one", "here")]
    assert [(lease.workspace_id, lease.server_id) for lease in look.leases] == [("wsp", "one")]
