"""Draft text: read at once, kept over a restart, replaced by what is committed (`E3`)."""

import pytest
from msgspec.structs import replace

from holdfast.schema.messages import Finish, Reasoning, Text
from holdfast.store import Batch, Store
from holdfast.store import writes as w
from tests.store.batches import a_message, a_run, accept, end
from tests.store.conftest import Reopen

OPEN = a_message("msg_1")


async def open_message(ledger: Store) -> None:
    await ledger.commit(accept(a_run(state="active")))
    await ledger.commit(Batch((w.PutMessage(OPEN),)))


def append(store: Store, text: str, *, part: int = 0, attempt: int = 1, is_reasoning: bool = False) -> None:
    store.append_draft("ses_1", "msg_1", part, text, attempt=attempt, is_reasoning=is_reasoning)


@pytest.mark.promise("E3")
async def test_every_read_sees_draft_text_at_once(ledger: Store) -> None:
    await open_message(ledger)
    append(ledger, "hm", is_reasoning=True)
    append(ledger, "half a ", part=1)
    append(ledger, "thought", part=1)
    expected = (Reasoning("hm"), Text("half a thought"))
    assert (await ledger.message("msg_1")).parts == expected
    assert (await ledger.messages("ses_1", limit=5)).items[0].parts == expected
    assert (await ledger.messages("ses_1", limit=5, before=99)).items[0].parts == expected
    assert (await ledger.messages_since_summary("ses_1"))[0].parts == expected


@pytest.mark.promise("E3", "R13")
async def test_draft_text_of_another_attempt_is_not_read(ledger: Store) -> None:
    await open_message(ledger)
    append(ledger, "failed")
    await ledger.commit(Batch((w.PutMessage(OPEN, attempt=2),)))
    assert (await ledger.message("msg_1")).parts == ()
    append(ledger, "second", attempt=2)
    assert (await ledger.message("msg_1")).parts == (Text("second"),)


@pytest.mark.promise("E3")
async def test_a_finished_message_has_the_text_of_its_commit_only(ledger: Store) -> None:
    await open_message(ledger)
    append(ledger, "streamed and more")
    finished = replace(OPEN, parts=(Text("streamed"), Finish("end_turn")))
    await ledger.commit(Batch((w.PutMessage(finished),)))
    assert (await ledger.message("msg_1")).parts == finished.parts


@pytest.mark.promise("E3", "W6")
async def test_draft_text_is_there_after_a_restart_until_the_message_is_finished(ledger: Store, reopen: Reopen) -> None:
    await open_message(ledger)
    append(ledger, "kept ☃")
    store = await reopen()
    assert (await store.message("msg_1")).parts == (Text("kept ☃"),)
    store = await reopen()
    assert (await store.message("msg_1")).parts == (Text("kept ☃"),)
    await store.commit(Batch((w.PutMessage(replace(OPEN, parts=(Text("kept"), Finish("interrupted")))),)))
    store = await reopen()
    assert (await store.message("msg_1")).parts == (Text("kept"), Finish("interrupted"))


async def test_the_draft_of_a_run_that_has_ended_is_forgotten_at_the_next_start(ledger: Store, reopen: Reopen) -> None:
    await open_message(ledger)
    append(ledger, "left")
    await ledger.commit(end(a_run(state="active")))
    assert (await (await reopen()).message("msg_1")).parts == ()
