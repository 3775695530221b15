"""Events leave out what a message or run has, and are read back as they were published, byte for byte (`E2`)."""

from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from holdfast.schema.events import (
    KnownDurable,
    MessageCreated,
    MessageFinished,
    MessageUpdated,
    RunAccepted,
    RunFinished,
    RunStarted,
    RunUpdated,
)
from holdfast.schema.messages import Context, Finish, Message, Part, Reasoning, Text, ToolCall
from holdfast.schema.runs import Outcome
from holdfast.store import Batch, Committed, Store, apply_run_write, open_store
from holdfast.store import writes as w
from tests.store.batches import AT, a_message, a_run, accept, end, new_session, new_workspace

PROMPT = "a prompt that is found nowhere else"
ANSWER = "an answer that is found nowhere else"


async def check_replay(store: Store, published: Sequence[Committed]) -> None:
    live = [event.body for committed in published for event in committed.events]
    page = await store.events_after(0, upto=store.last_number, limit=10_000, max_bytes=1 << 40)
    assert [event.body for event in page.events][-len(live) :] == live


def put(message: Message, kind: type[MessageCreated | MessageUpdated | MessageFinished], **fields: int) -> Batch:
    return Batch((w.PutMessage(message, **fields),), (kind(AT, message.session_id, message),))


@pytest.mark.promise("E2")
async def test_a_run_with_its_messages_is_replayed_as_it_was_published(ledger: Store) -> None:
    prompt, answer = a_message("msg_1", Text(PROMPT), role="user"), a_message("msg_2")
    thought = Reasoning("hm", wire="w", opaque={"secret": 1})
    run = a_run(state="active", prompt=PROMPT)
    context = Context(blocks=("the system prompt",), changed="today is Monday")
    published = [
        await ledger.commit(accept(run)),
        await ledger.commit(put(prompt, MessageCreated)),
        await ledger.commit(put(replace(prompt, parts=(context, *prompt.parts)), MessageUpdated)),
        await ledger.commit(put(answer, MessageCreated)),
        await ledger.commit(put(replace(answer, parts=(thought,)), MessageUpdated)),
        await ledger.commit(put(replace(answer, parts=(thought, Text(ANSWER), Finish("end_turn"))), MessageFinished)),
        await ledger.commit(end(run)),
    ]
    await check_replay(ledger, published)


async def test_an_event_keeps_the_text_of_an_attempt_that_was_replaced(ledger: Store) -> None:
    message = a_message("msg_1", Text("failed attempt"))
    published = [
        await ledger.commit(put(message, MessageUpdated)),
        await ledger.commit(put(replace(message, parts=()), MessageUpdated, attempt=2)),
        await ledger.commit(put(replace(message, parts=(Text("second"),)), MessageFinished, attempt=2)),
    ]
    await check_replay(ledger, published)


async def test_an_event_keeps_the_prompt_that_was_edited_later(ledger: Store) -> None:
    run = a_run(prompt=PROMPT)
    edit = w.UpdateRun(run_id=run.id, prompt="another prompt")
    edited = apply_run_write(run, edit)
    started = apply_run_write(edited, w.UpdateRun(run_id=run.id, state="active"))
    published = [
        await ledger.commit(accept(run)),
        await ledger.commit(Batch((edit,), (RunUpdated(AT, "ses_1", edited),))),
        await ledger.commit(Batch((w.UpdateRun(run_id=run.id, state="active"),), (RunStarted(AT, "ses_1", started),))),
    ]
    await check_replay(ledger, published)


async def test_an_event_that_differs_from_its_row_is_stored_whole(ledger: Store) -> None:
    message, run = a_message("msg_1", Text("stored")), a_run(prompt="stored")
    events: tuple[KnownDurable, ...] = (
        MessageUpdated(AT, "ses_1", replace(message, parts=(Text("published"),))),
        RunAccepted(AT, "ses_1", replace(run, prompt="published")),
    )
    inserted = w.InsertRun(run=run, body_hash="hash", decision="queued")
    await check_replay(ledger, [await ledger.commit(Batch((w.PutMessage(message), inserted), events))])


async def test_a_deleted_session_leaves_no_text_in_the_log(ledger: Store) -> None:
    await ledger.commit(accept(a_run(prompt=PROMPT)))
    await ledger.commit(put(a_message("msg_1", Text(ANSWER)), MessageUpdated))
    await ledger.commit(end(a_run(prompt=PROMPT)))
    await ledger.commit(Batch((w.DeleteSession("ses_1", AT),)))
    page = await ledger.events_after(0, upto=ledger.last_number)
    assert not any(PROMPT.encode() in event.body or ANSWER.encode() in event.body for event in page.events)


async def test_the_file_has_each_text_of_a_run_a_few_times_only(tmp_path: Path) -> None:
    path = tmp_path / "holdfast.db"
    store = await open_store(path)
    await store.commit(new_workspace())
    await store.commit(new_session())
    prompt, run = a_message("msg_1", Text(PROMPT), role="user"), a_run(state="active", prompt=PROMPT)
    started = RunStarted(AT, "ses_1", run)
    await store.commit(accept(run))
    await store.commit(Batch((w.UpdateRun(run_id=run.id), w.PutMessage(prompt)), (started,)))
    await store.commit(put(prompt, MessageCreated))
    await store.commit(put(replace(prompt, parts=(Context(changed="x"), *prompt.parts)), MessageUpdated))
    answer = a_message("msg_2", Text(ANSWER), Finish("end_turn"))
    write = w.EndRun(run_id=run.id, outcome=Outcome("completed", "end_turn", ANSWER, "msg_2"), finished_at=AT)
    finished = RunFinished(AT, "ses_1", apply_run_write(run, write))
    published = await store.commit(
        Batch((w.PutMessage(answer), write), (MessageFinished(AT, "ses_1", answer), finished))
    )
    await check_replay(store, [published])
    assert (await store.run(run.id)).text == ANSWER
    assert (await store.runs("ses_1", limit=5)).items[0].text == ANSWER
    assert [hit.message_id for hit in await store.search("nowhere")] == ["msg_2", "msg_1"]
    await store.close()
    content = path.read_bytes()
    assert (content.count(PROMPT.encode()), content.count(ANSWER.encode())) == (2, 1)


PARTS: st.SearchStrategy[Part] = st.one_of(
    st.builds(Text, st.sampled_from(["a", "b", "☃"])),
    st.just(Reasoning("r", wire="w", opaque={"x": 1})),
    st.just(ToolCall("call_1", "bash", {"command": "ls"}, opaque={"y": 2})),
    st.just(Context(blocks=("system",), changed="c")),
)
STATES = st.lists(st.tuples(st.sampled_from(["msg_1", "msg_2"]), st.lists(PARTS, max_size=4)), max_size=8)


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture]
)
@given(states=STATES)
async def test_any_sequence_of_replaced_messages_is_replayed_as_it_was_published(
    tmp_path_factory: pytest.TempPathFactory, states: list[tuple[str, list[Part]]]
) -> None:
    store = await open_store(tmp_path_factory.mktemp("ledger") / "holdfast.db")
    try:
        await store.commit(new_workspace())
        await store.commit(new_session())
        published = [await store.commit(put(a_message(one, *parts), MessageUpdated)) for one, parts in states]
        if published:
            await check_replay(store, published)
    finally:
        await store.close()
