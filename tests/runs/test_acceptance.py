"""A prompt is accepted once, durably, and the answer can be asked for again."""

import asyncio
from pathlib import Path

import pytest
from msgspec.structs import replace

from holdfast.agent.protocol import Ending
from holdfast.errors import (
    BadRequest,
    Conflict,
    Gone,
    NoModel,
    NotFound,
    ServerStopping,
    StoreUnwritable,
    SubagentSession,
    TooLarge,
    TooMany,
    WorkspaceClosing,
)
from holdfast.schema.messages import File, Text
from holdfast.schema.runs import Accepted, Limits, RunRequest
from tests.support.house import DEFAULT_LIMITS, WORKSPACE, House, LedgerSeam, opened
from tests.support.scripted import Actor, ScriptedTurns


def kinds(events: list[object]) -> list[str]:
    return [str(type(event).__struct_config__.tag) for event in events]  # type: ignore[attr-defined]


@pytest.mark.promise("R1", "R2", "E5")
async def test_an_idle_session_starts_the_run_in_the_commit_that_accepts_it(house: House) -> None:
    accepted = await house.accept("hello")
    assert accepted.decision == "started"
    assert accepted.run.state == "active"
    ended = await house.ended(accepted)
    assert (ended.state, ended.reason, ended.text) == ("completed", "end_turn", "you said hello")
    assert kinds(await house.events("ses_1")) == [
        "session.created",
        "run.accepted",
        "run.started",
        "message.created",
        "message.created",
        "message.finished",
        "run.finished",
    ]
    assert [(message.role, message.seq) for message in await house.messages()] == [("user", 1), ("assistant", 2)]


@pytest.mark.promise("R2", "R5")
async def test_a_busy_session_queues_in_order_and_says_the_position(house: House) -> None:
    @house.turns.on("wait")
    async def wait(actor: Actor) -> Ending | None:
        await actor.gate("go")
        await actor.finish("done")
        return None

    await house.accept("wait")
    second, third = await house.accept("second"), await house.accept("third")
    assert [(one.decision, one.position) for one in (second, third)] == [("queued", 1), ("queued", 2)]
    queue = await house.engine.queue("ses_1")
    assert queue.run_ids == (second.run.id, third.run.id)
    house.gates.open("go")
    await house.ended(third)
    assert house.turns.started[1:] == [second.run.id, third.run.id]


@pytest.mark.promise("R3")
async def test_a_known_id_with_the_same_body_gets_the_first_answer_and_the_run_as_it_is(house: House) -> None:
    first = await house.accept("hello", run_id="mine")
    await house.ended(first)
    again = await house.accept("hello", run_id="mine")
    assert (again.decision, again.run.state, again.run.text) == ("started", "completed", "you said hello")
    assert len(house.turns.started) == 1


@pytest.mark.promise("R3")
async def test_a_known_id_is_answered_while_its_run_is_stopping_and_while_the_server_stops(house: House) -> None:
    @house.turns.on("slow")
    async def slow(actor: Actor) -> Ending | None:
        try:
            await actor.gate("working")
        finally:
            await actor.gates.pass_through("cleaning up")
        return None

    await house.accept("slow", run_id="mine")
    await house.gates.arrived("working")
    stop = asyncio.create_task(house.engine.stop())
    await house.gates.arrived("cleaning up")
    again = await house.accept("slow", run_id="mine")
    assert (again.decision, again.run.state) == ("started", "stopping")
    with pytest.raises(ServerStopping):
        await house.accept("new")
    house.gates.open("cleaning up")
    await stop


@pytest.mark.promise("R3")
async def test_a_known_id_with_another_body_or_for_another_session_is_refused(house: House) -> None:
    await house.session("ses_2")
    await house.ended(await house.accept("hello", run_id="mine"))
    for attempt in (
        house.accept("other", run_id="mine"),
        house.accept("hello", run_id="mine", session_id="ses_2"),
        house.engine.accept_in_new_session(
            "wsp_other", RunRequest(prompt="hello", run_id="mine"), client="", body_hash="anything"
        ),
    ):
        with pytest.raises(Conflict) as caught:
            await attempt
        assert caught.value.error_code == "run_id_reused"
    assert len(house.turns.started) == 1


@pytest.mark.promise("R3", "E8")
async def test_a_known_id_of_a_deleted_session_is_gone(house: House) -> None:
    await house.ended(await house.accept("hello", run_id="mine"))
    await house.engine.delete_session("ses_1")
    with pytest.raises(Gone):
        await house.accept("hello", run_id="mine")
    with pytest.raises(Gone):
        await house.engine.get_run("mine")


@pytest.mark.promise("R3")
async def test_of_many_simultaneous_requests_with_one_id_all_get_the_same_run(house: House) -> None:
    answers = await asyncio.gather(*(house.accept("hello", run_id="mine") for _ in range(20)))
    assert {answer.run.id for answer in answers} == {"mine"}
    assert {answer.decision for answer in answers} == {"started"}
    await house.ended("mine")
    assert house.turns.started == ["mine"]


@pytest.mark.promise("R3")
async def test_of_simultaneous_requests_with_one_id_in_many_sessions_one_wins(house: House) -> None:
    sessions = [await house.session(f"ses_{number}") for number in range(2, 12)]
    answers = await asyncio.gather(
        *(house.accept("hello", run_id="mine", session_id=session_id) for session_id in sessions),
        return_exceptions=True,
    )
    won = [answer for answer in answers if isinstance(answer, Accepted)]
    lost = [answer for answer in answers if isinstance(answer, Conflict)]
    assert (len(won), len(lost)) == (1, 9)
    assert {error.error_code for error in lost} == {"run_id_reused"}
    await house.ended("mine")
    assert house.turns.started == ["mine"]


@pytest.mark.promise("R3")
async def test_of_simultaneous_requests_that_make_a_session_one_session_is_made(house: House) -> None:
    request = RunRequest(prompt="hello", run_id="mine")
    answers = await asyncio.gather(
        *(house.engine.accept_in_new_session(WORKSPACE, request, client="", body_hash="h") for _ in range(10))
    )
    assert len({answer.run.session_id for answer in answers}) == 1
    await house.ended("mine")
    sessions = await house.store.sessions(WORKSPACE, limit=100)
    assert len(sessions.items) == 2


@pytest.mark.promise("R1")
async def test_a_new_session_and_its_first_run_are_one_commit(house: House) -> None:
    before = house.store.last_number
    accepted = await house.engine.accept_in_new_session(
        WORKSPACE, RunRequest(prompt="hello"), client="c", body_hash="h", title="greeting"
    )
    session = await house.store.session(accepted.run.session_id)
    assert (session.title, session.workspace_id) == ("greeting", WORKSPACE)
    page = await house.store.events_after(before, upto=house.store.last_number, session_id=session.id)
    assert [event.kind for event in page.events][:4] == [
        "session.created",
        "run.accepted",
        "run.started",
        "message.created",
    ]


@pytest.mark.promise("R14")
async def test_a_refused_commit_accepts_nothing_and_makes_no_session(tmp_path: Path) -> None:
    async with opened(tmp_path / "holdfast.db", seam=True) as house:
        await house.session()
        assert isinstance(house.store, LedgerSeam)
        house.store.refuse()
        for attempt in (
            house.accept("hello", run_id="mine"),
            house.engine.accept_in_new_session(
                WORKSPACE, RunRequest(prompt="hello", run_id="mine"), client="", body_hash="h"
            ),
        ):
            with pytest.raises(StoreUnwritable):
                await attempt
        house.store.refusing = None
        assert house.turns.started == []
        assert await house.store.run_record("mine") is None
        assert house.engine.count_unfinished() == 0
        assert (await house.accept("hello", run_id="mine")).decision == "started"


@pytest.mark.parametrize(
    ("request_", "said"),
    [
        (RunRequest(prompt=" \n"), "the prompt is empty"),
        (RunRequest(prompt="", attachments=(File("a.png", "image/png", data="AAAA"),)), "the prompt is empty"),
        (RunRequest(prompt="x", run_id="../x"), "'../x' is invalid"),
        (RunRequest(kind="shell"), "arguments.command"),
        (RunRequest(kind="delete"), "DELETE"),
    ],
)
@pytest.mark.promise("W9", "R3")
async def test_what_no_run_can_be_is_refused_and_changes_nothing(house: House, request_: RunRequest, said: str) -> None:
    with pytest.raises(BadRequest, match=said):
        await house.engine.accept("ses_1", request_, client="", body_hash="h")
    assert (await house.store.lane("ses_1")).lane.next_seq == 1


async def test_an_empty_prompt_with_a_text_attachment_is_a_prompt(house: House) -> None:
    file = File("notes.txt", "text/plain", text="read me")
    accepted = await house.accept("", attachments=(file,), kind="prompt")
    await house.ended(accepted)
    assert (await house.messages())[0].parts == (file,)
    events = [event for event in await house.events() if getattr(event, "run", None)]
    assert {event.run.attachments for event in events} == {(File("notes.txt", "text/plain"),)}  # type: ignore[union-attr]


async def test_an_unknown_session_or_workspace_is_not_found(house: House) -> None:
    with pytest.raises(NotFound):
        await house.accept("hello", session_id="ses_no")
    with pytest.raises(NotFound):
        await house.engine.accept_in_new_session("wsp_no", RunRequest(prompt="x"), client="", body_hash="")
    assert house.engine.count_unfinished() == 0


@pytest.mark.promise("R3")
async def test_what_the_turns_refuse_is_not_stored_but_a_known_id_is_not_asked_about(house: House) -> None:
    await house.ended(await house.accept("hello", run_id="mine"))
    house.turns.refusal = NoModel("no model is configured")
    with pytest.raises(NoModel):
        await house.accept("another")
    assert (await house.accept("hello", run_id="mine")).run.state == "completed"


@pytest.mark.promise("R3")
async def test_a_workspace_that_is_not_open_takes_no_prompts_but_answers_known_ids(house: House) -> None:
    await house.ended(await house.accept("hello", run_id="mine"))
    await house.engine.close_workspace(WORKSPACE)
    with pytest.raises(WorkspaceClosing):
        await house.accept("more")
    with pytest.raises(NotFound):
        await house.accept("more", session_id="ses_no")
    assert (await house.accept("hello", run_id="mine")).run.state == "completed"
    await house.engine.open_workspace(WORKSPACE)
    assert (await house.accept("more")).decision == "started"


async def test_a_child_session_takes_no_prompts(house: House) -> None:
    await house.session("ses_child", parent_id="ses_1")
    with pytest.raises(SubagentSession):
        await house.accept("hello", session_id="ses_child")


async def test_too_many_unfinished_runs_are_refused(tmp_path: Path) -> None:
    async with opened(tmp_path / "holdfast.db", limits=replace(DEFAULT_LIMITS, unfinished_runs=2)) as house:
        await house.session()
        await house.engine.pause("ses_1")
        await house.accept("one")
        await house.accept("two", run_id="two")
        with pytest.raises(TooMany):
            await house.accept("three")
        assert (await house.accept("two", run_id="two")).position == 2


@pytest.mark.promise("R10")
async def test_a_run_goes_on_when_whoever_asked_for_it_has_left(house: House) -> None:
    asking = asyncio.create_task(house.accept("hello", run_id="mine"))
    await house.until(lambda: house.engine.count_unfinished() > 0)
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    assert (await house.ended("mine")).state == "completed"


@pytest.mark.promise("R10", "R1")
async def test_a_caller_that_leaves_in_the_middle_of_the_commit_does_not_recall_it(house: House) -> None:
    for number in range(5):
        asking = asyncio.create_task(house.accept("hello", run_id=f"run_{number}"))
        for _ in range(number):
            await asyncio.sleep(0)
        asking.cancel()
        await asyncio.gather(asking, return_exceptions=True)
        again = await house.accept("hello", run_id=f"run_{number}")
        assert (await house.ended(again)).state == "completed"
    assert sorted(house.turns.started) == [f"run_{number}" for number in range(5)]


@pytest.mark.promise("R4")
async def test_sessions_run_side_by_side(house: House) -> None:
    house.turns.scripts["first"] = _until_opened
    await house.session("ses_2")
    held = await house.accept("first")
    free = await house.accept("second", session_id="ses_2")
    assert (await house.ended(free)).state == "completed"
    assert (await house.engine.get_run(held.run.id)).state == "active"
    house.gates.open("go")
    await house.ended(held)


@pytest.mark.promise("R11")
async def test_settings_belong_to_their_run_alone(house: House) -> None:
    plain = await house.ended(await house.accept("one"))
    chosen = await house.ended(
        await house.accept("two", model="a/b", mode="auto", interactive=False, limits=Limits(max_steps=3))
    )
    after = await house.ended(await house.accept("three"))
    assert (chosen.model, chosen.mode, chosen.interactive, chosen.limits.max_steps) == ("a/b", "auto", False, 3)
    for run in (plain, after):
        assert (run.model, run.mode, run.interactive, run.limits) == (None, None, True, Limits())


async def test_idle_sessions_are_not_kept_in_memory(house: House) -> None:
    for number in range(2, 22):
        await house.session(f"ses_{number}")
        await house.ended(await house.accept("hello", session_id=f"ses_{number}"))
    state = house.engine._state
    await house.quiet()
    assert (len(state.mailboxes), len(state.active_runs)) == (0, 0)


async def test_the_prompt_is_stored_as_the_users_message_when_the_run_starts(house: House) -> None:
    house.turns.scripts["first"] = _until_opened
    await house.accept("first")
    second = await house.accept("second")
    assert [message.parts for message in await house.messages()] == [(Text("first"),)]
    house.gates.open("go")
    await house.ended(second)
    said = [message.parts[0] for message in await house.messages() if message.role == "user"]
    assert said == [Text("first"), Text("second")]


async def _until_opened(actor: Actor) -> Ending | None:
    await actor.gate("go")
    await actor.finish("done")
    return None


@pytest.mark.promise("R4")
async def test_runs_of_other_kinds_pass_through_the_same_lane(house: House) -> None:
    turns: ScriptedTurns = house.turns
    order: list[str] = []

    async def note(actor: Actor) -> Ending | None:
        order.append(actor.run.kind)
        await actor.gate(actor.run.kind)
        await actor.finish("done")
        return None

    turns.scripts |= {"compact": note, "shell": note, "undo": note, "prompt": note}
    for kind in ("compact", "shell", "undo"):
        arguments = {"command": "ls"} if kind == "shell" else {}
        request = RunRequest(kind=kind, arguments=arguments)  # type: ignore[arg-type]
        await house.engine.accept("ses_1", request, client="", body_hash="h")
    last = await house.accept("prompt")
    for kind in ("compact", "shell", "undo", "prompt"):
        await house.gates.arrived(kind)
        assert house.engine.count_active() == 1
        house.gates.open(kind)
    await house.ended(last)
    assert order == ["compact", "shell", "undo", "prompt"]
    assert [message.role for message in await house.messages()].count("user") == 1


async def test_a_prompt_that_belongs_into_an_attachment_is_refused(house: House) -> None:
    with pytest.raises(TooLarge, match="attach"):
        await house.accept("x" * 1_000_001)
    assert (await house.ended(await house.accept("x" * 1_000_000))).state == "completed"
