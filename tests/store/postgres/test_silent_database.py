"""A statement that takes long is waited for; a database that says nothing at all is given up (`R14`)."""

import socket
import time
from collections.abc import Iterator

import pytest

from holdfast.store.postgres import connection
from holdfast.store.postgres.connection import PostgresConnection, SilentDatabase

pytestmark = pytest.mark.promise("R14")


@pytest.fixture
def silent_address() -> Iterator[str]:
    """A server that takes connections and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"postgresql://nobody@127.0.0.1:{server.getsockname()[1]}/none?sslmode=disable&gssencmode=disable"


def begin_sleeping(sql: PostgresConnection, seconds: float) -> None:
    sql.begin(seconds=30.0)
    sql.execute("SELECT pg_sleep(?)", (seconds,))


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "_ASK_SECONDS", 0.05)
    monkeypatch.setattr(connection, "_POLL_SECONDS", 0.05)


@pytest.mark.usefixtures("impatient")
def test_a_long_statement_of_a_database_that_answers_others_is_waited_for(
    postgres_database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[bool] = []
    ask = connection._database_answers
    monkeypatch.setattr(connection, "_database_answers", lambda *given: asked.append(ask(*given)) or asked[-1])
    sql = PostgresConnection.open(postgres_database)
    begin_sleeping(sql, 0.5)
    sql.commit()
    sql.close()
    assert asked
    assert all(asked)


@pytest.mark.usefixtures("impatient")
def test_a_statement_is_given_up_when_the_database_answers_nobody(
    postgres_database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "_database_answers", lambda *given: False)
    sql = PostgresConnection.open(postgres_database)
    began = time.monotonic()
    begin_sleeping(sql, 600.0)
    with pytest.raises(SilentDatabase) as lost:
        sql.commit()
    assert began <= lost.value.since <= time.monotonic()
    sql.close()


def test_a_server_that_takes_connections_and_says_nothing_is_silent(silent_address: str) -> None:
    assert not connection._database_answers(silent_address, {})
    began = time.monotonic()
    with pytest.raises(SilentDatabase) as lost:
        PostgresConnection.open(silent_address, answer_seconds=1.0)
    assert began <= lost.value.since <= time.monotonic()


def test_a_database_that_refuses_a_connection_has_answered(postgres_database: str) -> None:
    assert connection._database_answers(postgres_database, {})
    assert connection._database_answers(postgres_database, {"dbname": "there_is_no_such_database"})
