"""Messages and the search in their text."""

import pytest
from msgspec.structs import replace

from holdfast.errors import StoreConflict
from holdfast.schema.events import (
    MessageFinished,
    MessageUpdated,
    read_event,
)
from holdfast.schema.messages import Finish, Reasoning, Summary, Text, ToolCall
from holdfast.store import Batch, Store
from holdfast.store import writes as w
from tests.store.batches import AT, a_message, new_session, new_workspace, says
from tests.store.conftest import Reopen


async def test_messages_get_the_next_seq_of_the_session_and_keep_it_when_replaced(ledger: Store) -> None:
    assert (await ledger.commit(says("msg_1", "a"))).seqs == {"msg_1": 1}
    assert (await ledger.commit(says("msg_2", "b"))).seqs == {"msg_2": 2}
    assert (await ledger.commit(says("msg_1", "a again"))).seqs == {"msg_1": 1}
    page = await ledger.messages("ses_1", limit=10)
    assert [(message.id, message.seq) for message in page.items] == [("msg_1", 1), ("msg_2", 2)]
    assert page.items[0].parts == (Text("a again"),)


async def test_the_events_of_a_message_have_its_assigned_seq(ledger: Store) -> None:
    committed = await ledger.commit(says("msg_1", "a"))
    event = read_event(committed.events[0].body)
    assert isinstance(event, MessageUpdated)
    assert event.message.seq == 1


async def test_a_message_id_of_another_session_is_a_conflict(ledger: Store) -> None:
    await ledger.commit(new_session("ses_2"))
    await ledger.commit(says("msg_1", "mine"))
    with pytest.raises(StoreConflict):
        await ledger.commit(says("msg_1", "yours", session_id="ses_2"))
    assert (await ledger.message("msg_1")).parts == (Text("mine"),)


async def test_opaque_provider_data_is_stored_but_not_in_events(ledger: Store) -> None:
    parts = (
        Reasoning("thought", wire="w", opaque={"signature": "secret"}),
        ToolCall("call_1", "bash", opaque={"token": "secret"}),
    )
    message = a_message("msg_1", *parts)
    batch = Batch((w.PutMessage(message),), (MessageFinished(at=AT, session_id="ses_1", message=message),))
    committed = await ledger.commit(batch)
    assert (await ledger.message("msg_1")).parts == parts
    assert b"secret" not in committed.events[0].body
    page = await ledger.events_after(0, upto=ledger.last_number)
    assert [event.body for event in page.events if b"secret" in event.body] == []


async def test_messages_are_paged_in_order_from_either_end(ledger: Store) -> None:
    for n in range(1, 8):
        await ledger.commit(says(f"msg_{n}", "x"))

    async def page(**kw: int) -> tuple[list[int], int | None]:
        found = await ledger.messages("ses_1", **kw)  # type: ignore[arg-type]
        return [message.seq for message in found.items], found.next

    assert await page(limit=3) == ([1, 2, 3], 3)
    assert await page(limit=3, after=3) == ([4, 5, 6], 6)
    assert await page(limit=3, after=6) == ([7], None)
    assert await page(limit=3, before=100) == ([5, 6, 7], 5)
    assert await page(limit=3, before=5) == ([2, 3, 4], 2)
    assert await page(limit=3, before=2) == ([1], None)
    assert await page(limit=3, before=1) == ([], None)


async def test_messages_since_the_last_summary(ledger: Store) -> None:
    await ledger.commit(says("msg_1", "a"))
    assert [m.id for m in await ledger.messages_since_summary("ses_1")] == ["msg_1"]
    for n in (2, 3):
        await ledger.commit(Batch((w.PutMessage(a_message(f"msg_{n}", Summary("so far"))),)))
    await ledger.commit(says("msg_4", "b"))
    assert [m.id for m in await ledger.messages_since_summary("ses_1")] == ["msg_3", "msg_4"]


async def test_search_finds_user_messages_and_finished_answers(reopen: Reopen, ledger: Store) -> None:
    await ledger.commit(new_workspace("wsp_2"))
    await ledger.commit(new_session("ses_2", workspace_id="wsp_2", title="Bees"))
    await ledger.commit(says("msg_1", "Where do the honey bees sleep?"))
    await ledger.commit(says("msg_2", "About honey", session_id="ses_2"))
    unfinished = a_message("msg_3", Text("honey, unfinished"))
    await ledger.commit(Batch((w.PutMessage(unfinished),)))
    assert {hit.message_id for hit in await ledger.search("honey")} == {"msg_1", "msg_2"}
    await ledger.commit(Batch((w.PutMessage(replace(unfinished, parts=(*unfinished.parts, Finish("end_turn")))),)))
    for again in (False, True):
        store = await reopen() if again else ledger
        assert {hit.message_id for hit in await store.search("HONEY")} == {"msg_1", "msg_2", "msg_3"}
        assert [hit.message_id for hit in await store.search("bee slee")] == ["msg_1"]
        assert await store.search("oney") == ()
        (hit,) = await store.search("honey", workspace_id="wsp_2")
        assert (hit.session_id, hit.session_title, hit.excerpt) == ("ses_2", "Bees", "About honey")
        assert len(await store.search("honey", limit=2)) == 2


@pytest.mark.parametrize("q", ["", "  ", '"', "AND OR NOT", "a:b", "(x", "*", "-- ; DROP TABLE messages", "'\"^"])
async def test_search_syntax_in_the_query_has_no_effect(reopen: Reopen, ledger: Store, q: str) -> None:
    await ledger.commit(says("msg_1", "plain words"))
    assert await ledger.search(q) == ()
    assert await (await reopen()).search(q) == ()


async def test_search_finds_only_the_new_words_of_a_changed_text(reopen: Reopen, ledger: Store) -> None:
    await ledger.commit(says("msg_1", "red"))
    store = await reopen()
    await store.commit(says("msg_1", "blue"))
    for again in (False, True):
        store = await reopen() if again else store
        assert await store.search("red") == ()
        assert len(await store.search("blue")) == 1


async def test_search_accepts_any_text(reopen: Reopen, ledger: Store) -> None:
    await ledger.commit(says("msg_1", "honey"))
    for again in (False, True):
        store = await reopen() if again else ledger
        for odd in ("\0", '"', "hon\0", "* OR", "NEAR(", "'--", "\ud7ff\uffff"):
            assert isinstance(await store.search(odd), tuple)
        assert [hit.message_id for hit in await store.search("\0honey\0")] == ["msg_1"]
