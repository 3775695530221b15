"""A connection whose buffers have become large is replaced: it would keep them, however long nothing large comes."""

from pathlib import Path
from typing import Any

import pytest

from holdfast.schema.messages import text_of
from holdfast.store.postgres import connection, open_postgres_store
from holdfast.store.postgres.commit_thread import CommitThread
from holdfast.store.postgres.connection import PostgresConnection
from holdfast.store.rows import row_bodies
from tests.store.batches import new_session, new_workspace, says

LARGE = "a word, " * 1000


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[PostgresConnection]:
    """All connections that the test opens."""
    connections: list[PostgresConnection] = []
    make = PostgresConnection.__init__

    def noted(self: PostgresConnection, raw: Any) -> None:
        make(self, raw)
        connections.append(self)

    monkeypatch.setattr(PostgresConnection, "__init__", noted)
    monkeypatch.setattr(connection, "_LARGE_BYTES", len(LARGE))
    return connections


async def test_no_connection_stays_open_with_large_buffers(
    postgres_database: str, tmp_path: Path, opened: list[PostgresConnection], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(row_bodies, "_MOST_COMPRESSED", 0)
    monkeypatch.setattr(CommitThread, "_maintain", lambda thread: None)  # reads new text, too
    store = await open_postgres_store(postgres_database, home=tmp_path)
    try:
        texts = {"msg_1": "short", "msg_2": "short", "msg_3": LARGE, "msg_4": "short"}
        for batch in (new_workspace(), new_session(), *(says(*message) for message in texts.items())):
            await store.commit(batch)
        assert (await store.session("ses_1")).id == "ses_1"
        assert [each.is_broken for each in opened if each.has_large_buffers] == [True]
        found = (await store.messages("ses_1", limit=10)).items
        assert {message.id: text_of(message.parts) for message in found} == texts
        assert [each.is_broken for each in opened if each.has_large_buffers] == [True, True]
        assert (await store.messages("ses_1", limit=10)).items == found
    finally:
        await store.close()
