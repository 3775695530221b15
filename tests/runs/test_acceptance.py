"""Accepting a run: once, durably, and with a repeatable answer."""

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
from holdfast.schema.runs import Accepted, Limits, RunRequest, RunSettings
from tests.support.engine_harness import DEFAULT_LIMITS, WORKSPACE, ControlledStore, EngineHarness, open_harness
from tests.support.scripted_turns import ScriptedTurns, TurnActions


def kinds(events: list[object]) -> list[str]:
    return [str(type(event).__struct_config__.tag) for event in events]  # type: ignore[attr-defined]


@pytest.mark.promise("R1", "R2", "E5")
async def test_an_idle_session_starts_the_run_in_the_commit_that_accepts_it(harness: EngineHarness) -> None:
    accepted = await harness.accept("hello")
    assert accepted.decision == "started"
    assert accepted.run.state == "active"
    ended = await harness.ended(accepted)
    assert (ended.state, ended.reason, ended.text) == ("completed", "end_turn", "you said hello")
    assert kinds(await harness.events("ses_1")) == [
        "session.created",
        "run.accepted",
        "run.started",
        "message.created",
        "message.created",
        "message.finished",
        "run.finished",
    ]
    assert [(message.role, message.seq) for message in await harness.messages()] == [("user", 1), ("assistant", 2)]


@pytest.mark.promise("R2", "R5")
async def test_a_busy_session_queues_runs_in_order_and_returns_the_position(harness: EngineHarness) -> None:
    @harness.turns.on("wait")
    async def wait(turn: TurnActions) -> Ending | None:
        await turn.gate("go")
        await turn.finish("done")
        return None

    await harness.accept("wait")
    second, third = await harness.accept("second"), await harness.accept("third")
    assert [(one.decision, one.position) for one in (second, third)] == [("queued", 1), ("queued", 2)]
    queue = await harness.engine.queue("ses_1")
    assert queue.run_ids == (second.run.id, third.run.id)
    harness.gates.open("go")
    await harness.ended(third)
    assert harness.turns.started[1:] == [second.run.id, third.run.id]


@pytest.mark.promise("R6")
async def test_a_steer_that_is_queued_or_started_says_why(harness: EngineHarness) -> None:
    idle = await harness.accept("first", delivery="steer")
    assert (idle.decision, idle.not_steered) == ("started", "idle")
    other = await harness.accept("second", delivery="steer", model="a/b")
    assert (other.decision, other.not_steered) == ("queued", "settings")
    joins = await harness.accept("third", delivery="steer")
    assert (joins.decision, joins.not_steered) == ("steered", None)
    assert (await harness.accept("fourth")).not_steered is None


@pytest.mark.promise("R6")
async def test_a_steer_that_names_what_the_active_run_uses_joins_and_waits_until_that_is_known(
    harness: EngineHarness,
) -> None:
    @harness.turns.on("host")
    async def host(turn: TurnActions) -> Ending | None:
        await turn.gate("reading settings")
        turn.handle.use_settings(RunSettings(model="a/b"))
        await turn.gate("working")
        await turn.finish("one step")
        await turn.finish("done")
        return None

    def steer(model: str, used: str) -> asyncio.Task[Accepted]:
        request = RunRequest(prompt=f"steer {model}", delivery="steer", model=model, in_effect=RunSettings(model=used))
        return asyncio.create_task(harness.engine.accept("ses_1", request, client="", body_hash=""))

    hosting = await harness.accept("host")
    await harness.gates.arrived("reading settings")
    waiting = [steer("a/b", "a/b"), steer("short", "a/b"), steer("x/y", "x/y")]
    assert (await harness.accept("as it is", delivery="steer")).decision == "steered"  # needs no comparison
    assert not any(task.done() for task in waiting)
    harness.gates.open("reading settings")
    same, alias, other = [await task for task in waiting]
    assert [answer.host_run_id for answer in (same, alias)] == [hosting.run.id] * 2
    assert (other.decision, other.not_steered) == ("queued", "settings")
    harness.gates.open("working")
    assert (await harness.ended(same)).host_run_id == hosting.run.id
    assert (await harness.ended(same)).model == "a/b"  # as it was sent
    assert (await harness.ended(other)).host_run_id is None


@pytest.mark.promise("R6", "C1")
@pytest.mark.parametrize("end", ["cancelled", "failed"])
async def test_a_steer_that_waits_to_be_compared_has_its_own_turn_when_the_active_run_ends(
    harness: EngineHarness, end: str
) -> None:
    @harness.turns.on("host")
    async def host(turn: TurnActions) -> Ending | None:
        await turn.gate("reading settings")
        raise NoModel("it cannot start")

    hosting = await harness.accept("host")
    await harness.gates.arrived("reading settings")
    request = RunRequest(prompt="steer", delivery="steer", model="a/b", in_effect=RunSettings(model="a/b"))
    steer = asyncio.create_task(harness.engine.accept("ses_1", request, client="", body_hash=""))
    await harness.accept("as it is", delivery="steer")
    assert not steer.done()
    if end == "cancelled":
        await harness.engine.cancel_run(hosting.run.id)
    else:
        harness.gates.open("reading settings")
    assert (await harness.ended(hosting)).state == end
    accepted = await steer
    assert accepted.host_run_id is None
    assert (await harness.ended(accepted)).state == "completed"


@pytest.mark.promise("R3")
async def test_a_known_id_with_the_same_body_gets_the_first_answer_and_the_current_run(harness: EngineHarness) -> None:
    first = await harness.accept("hello", run_id="mine")
    await harness.ended(first)
    again = await harness.accept("hello", run_id="mine")
    assert (again.decision, again.run.state, again.run.text) == ("started", "completed", "you said hello")
    assert len(harness.turns.started) == 1


@pytest.mark.promise("R3")
async def test_a_known_id_is_answered_while_its_run_is_stopping_and_while_the_server_stops(
    harness: EngineHarness,
) -> None:
    @harness.turns.on("slow")
    async def slow(turn: TurnActions) -> Ending | None:
        try:
            await turn.gate("working")
        finally:
            await turn.gates.pass_through("cleaning up")
        return None

    await harness.accept("slow", run_id="mine")
    await harness.gates.arrived("working")
    stop = asyncio.create_task(harness.engine.stop())
    await harness.gates.arrived("cleaning up")
    again = await harness.accept("slow", run_id="mine")
    assert (again.decision, again.run.state) == ("started", "stopping")
    with pytest.raises(ServerStopping):
        await harness.accept("new")
    harness.gates.open("cleaning up")
    await stop


@pytest.mark.promise("R3")
async def test_a_known_id_with_another_body_or_for_another_session_is_refused(harness: EngineHarness) -> None:
    await harness.session("ses_2")
    await harness.ended(await harness.accept("hello", run_id="mine"))
    for attempt in (
        harness.accept("other", run_id="mine"),
        harness.accept("hello", run_id="mine", session_id="ses_2"),
        harness.engine.accept_in_new_session(
            "wsp_other", RunRequest(prompt="hello", run_id="mine"), client="", body_hash="anything"
        ),
    ):
        with pytest.raises(Conflict) as caught:
            await attempt
        assert caught.value.error_code == "run_id_reused"
    assert len(harness.turns.started) == 1


@pytest.mark.promise("R3")
async def test_a_known_id_is_answered_whatever_would_refuse_a_new_run(tmp_path: Path) -> None:
    async with open_harness(tmp_path / "holdfast.db", controlled=True) as harness:
        await harness.session()
        assert isinstance(harness.store, ControlledStore)
        await harness.ended(await harness.accept("hello", run_id="mine"))
        harness.store.refuse()
        assert (await harness.accept("hello", run_id="mine")).run.state == "completed"
        with pytest.raises(StoreUnwritable):
            await harness.accept("hello", run_id="other")
        harness.store.refusing = None
        await harness.engine.close_workspace(WORKSPACE)
        assert (await harness.accept("hello", run_id="mine")).run.state == "completed"
        with pytest.raises(WorkspaceClosing):
            await harness.accept("hello", run_id="other")
        assert harness.turns.started == ["mine"]


@pytest.mark.promise("R3", "E8")
async def test_a_known_id_of_a_deleted_session_is_gone(harness: EngineHarness) -> None:
    await harness.ended(await harness.accept("hello", run_id="mine"))
    await harness.engine.delete_session("ses_1")
    with pytest.raises(Gone):
        await harness.accept("hello", run_id="mine")
    with pytest.raises(Gone):
        await harness.engine.get_run("mine")


@pytest.mark.promise("R3")
async def test_simultaneous_requests_with_one_id_get_the_same_run(harness: EngineHarness) -> None:
    answers = await asyncio.gather(*(harness.accept("hello", run_id="mine") for _ in range(20)))
    assert {answer.run.id for answer in answers} == {"mine"}
    assert {answer.decision for answer in answers} == {"started"}
    await harness.ended("mine")
    assert harness.turns.started == ["mine"]


@pytest.mark.promise("R3")
async def test_one_of_simultaneous_requests_with_one_id_in_many_sessions_is_accepted(harness: EngineHarness) -> None:
    sessions = [await harness.session(f"ses_{number}") for number in range(2, 12)]
    answers = await asyncio.gather(
        *(harness.accept("hello", run_id="mine", session_id=session_id) for session_id in sessions),
        return_exceptions=True,
    )
    won = [answer for answer in answers if isinstance(answer, Accepted)]
    lost = [answer for answer in answers if isinstance(answer, Conflict)]
    assert (len(won), len(lost)) == (1, 9)
    assert {error.error_code for error in lost} == {"run_id_reused"}
    await harness.ended("mine")
    assert harness.turns.started == ["mine"]


@pytest.mark.promise("R3")
async def test_simultaneous_requests_with_one_id_create_one_session(harness: EngineHarness) -> None:
    request = RunRequest(prompt="hello", run_id="mine")
    answers = await asyncio.gather(
        *(harness.engine.accept_in_new_session(WORKSPACE, request, client="", body_hash="h") for _ in range(10))
    )
    assert len({answer.run.session_id for answer in answers}) == 1
    await harness.ended("mine")
    sessions = await harness.store.sessions(WORKSPACE, limit=100)
    assert len(sessions.items) == 2


@pytest.mark.promise("R1")
async def test_a_new_session_and_its_first_run_are_one_commit(harness: EngineHarness) -> None:
    before = harness.store.last_number
    accepted = await harness.engine.accept_in_new_session(
        WORKSPACE, RunRequest(prompt="hello"), client="c", body_hash="h", title="greeting"
    )
    session = await harness.store.session(accepted.run.session_id)
    assert (session.title, session.workspace_id) == ("greeting", WORKSPACE)
    page = await harness.store.events_after(before, upto=harness.store.last_number, session_id=session.id)
    assert [event.kind for event in page.events][:4] == [
        "session.created",
        "run.accepted",
        "run.started",
        "message.created",
    ]


@pytest.mark.promise("R14")
async def test_a_refused_commit_accepts_no_run_and_creates_no_session(tmp_path: Path) -> None:
    async with open_harness(tmp_path / "holdfast.db", controlled=True) as harness:
        await harness.session()
        assert isinstance(harness.store, ControlledStore)
        harness.store.refuse()
        for attempt in (
            harness.accept("hello", run_id="mine"),
            harness.engine.accept_in_new_session(
                WORKSPACE, RunRequest(prompt="hello", run_id="mine"), client="", body_hash="h"
            ),
        ):
            with pytest.raises(StoreUnwritable):
                await attempt
        harness.store.refusing = None
        assert harness.turns.started == []
        assert await harness.store.run_record("mine") is None
        assert harness.engine.count_unfinished() == 0
        assert (await harness.accept("hello", run_id="mine")).decision == "started"


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
async def test_an_invalid_request_is_refused_and_changes_nothing(
    harness: EngineHarness, request_: RunRequest, said: str
) -> None:
    with pytest.raises(BadRequest, match=said):
        await harness.engine.accept("ses_1", request_, client="", body_hash="h")
    assert (await harness.store.lane("ses_1")).lane.next_seq == 1


async def test_an_empty_prompt_with_a_text_attachment_is_a_prompt(harness: EngineHarness) -> None:
    file = File("notes.txt", "text/plain", text="read me")
    accepted = await harness.accept("", attachments=(file,), kind="prompt")
    await harness.ended(accepted)
    assert (await harness.messages())[0].parts == (file,)
    events = [event for event in await harness.events() if getattr(event, "run", None)]
    assert {event.run.attachments for event in events} == {(File("notes.txt", "text/plain"),)}  # type: ignore[union-attr]


async def test_an_unknown_session_or_workspace_is_not_found(harness: EngineHarness) -> None:
    with pytest.raises(NotFound):
        await harness.accept("hello", session_id="ses_no")
    with pytest.raises(NotFound):
        await harness.engine.accept_in_new_session("wsp_no", RunRequest(prompt="x"), client="", body_hash="")
    assert harness.engine.count_unfinished() == 0


@pytest.mark.promise("R3")
async def test_a_request_that_cannot_run_is_not_stored_and_known_ids_are_not_checked(harness: EngineHarness) -> None:
    await harness.ended(await harness.accept("hello", run_id="mine"))
    harness.turns.refusal = NoModel("no model is configured")
    with pytest.raises(NoModel):
        await harness.accept("another")
    assert (await harness.accept("hello", run_id="mine")).run.state == "completed"


@pytest.mark.promise("R3")
async def test_a_closed_workspace_takes_no_prompts_but_answers_known_ids(harness: EngineHarness) -> None:
    await harness.ended(await harness.accept("hello", run_id="mine"))
    await harness.engine.close_workspace(WORKSPACE)
    with pytest.raises(WorkspaceClosing):
        await harness.accept("more")
    with pytest.raises(NotFound):
        await harness.accept("more", session_id="ses_no")
    assert (await harness.accept("hello", run_id="mine")).run.state == "completed"
    await harness.engine.open_workspace(WORKSPACE)
    assert (await harness.accept("more")).decision == "started"


async def test_the_session_of_a_sub_agent_takes_no_prompts(harness: EngineHarness) -> None:
    await harness.session("ses_child", parent_id="ses_1")
    with pytest.raises(SubagentSession):
        await harness.accept("hello", session_id="ses_child")


async def test_too_many_unfinished_runs_are_refused(tmp_path: Path) -> None:
    async with open_harness(tmp_path / "holdfast.db", limits=replace(DEFAULT_LIMITS, unfinished_runs=2)) as harness:
        await harness.session()
        await harness.engine.pause("ses_1")
        await harness.accept("one")
        await harness.accept("two", run_id="two")
        with pytest.raises(TooMany):
            await harness.accept("three")
        assert (await harness.accept("two", run_id="two")).position == 2


@pytest.mark.promise("R10")
async def test_a_run_continues_after_its_caller_has_left(harness: EngineHarness) -> None:
    asking = asyncio.create_task(harness.accept("hello", run_id="mine"))
    await harness.until(lambda: harness.engine.count_unfinished() > 0)
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    assert (await harness.ended("mine")).state == "completed"


@pytest.mark.promise("R10", "R1")
async def test_a_caller_that_leaves_during_the_commit_does_not_undo_it(harness: EngineHarness) -> None:
    for number in range(5):
        asking = asyncio.create_task(harness.accept("hello", run_id=f"run_{number}"))
        for _ in range(number):
            await asyncio.sleep(0)
        asking.cancel()
        await asyncio.gather(asking, return_exceptions=True)
        again = await harness.accept("hello", run_id=f"run_{number}")
        assert (await harness.ended(again)).state == "completed"
    assert sorted(harness.turns.started) == [f"run_{number}" for number in range(5)]


@pytest.mark.promise("R4")
async def test_sessions_run_side_by_side(harness: EngineHarness) -> None:
    harness.turns.scripts["first"] = _until_opened
    await harness.session("ses_2")
    held = await harness.accept("first")
    free = await harness.accept("second", session_id="ses_2")
    assert (await harness.ended(free)).state == "completed"
    assert (await harness.engine.get_run(held.run.id)).state == "active"
    harness.gates.open("go")
    await harness.ended(held)


@pytest.mark.promise("R11")
async def test_settings_apply_to_their_run_only(harness: EngineHarness) -> None:
    plain = await harness.ended(await harness.accept("one"))
    chosen = await harness.ended(
        await harness.accept("two", model="a/b", mode="auto", interactive=False, limits=Limits(max_steps=3))
    )
    after = await harness.ended(await harness.accept("three"))
    assert (chosen.model, chosen.mode, chosen.interactive, chosen.limits.max_steps) == ("a/b", "auto", False, 3)
    for run in (plain, after):
        assert (run.model, run.mode, run.interactive, run.limits) == (None, None, True, Limits())


async def test_idle_sessions_are_not_kept_in_memory(harness: EngineHarness) -> None:
    for number in range(2, 22):
        await harness.session(f"ses_{number}")
        await harness.ended(await harness.accept("hello", session_id=f"ses_{number}"))
    state = harness.engine._state
    await harness.quiet()
    assert (len(state.mailboxes), len(state.active_runs)) == (0, 0)


async def test_the_prompt_is_stored_as_the_users_message_when_the_run_starts(harness: EngineHarness) -> None:
    harness.turns.scripts["first"] = _until_opened
    await harness.accept("first")
    second = await harness.accept("second")
    assert [message.parts for message in await harness.messages()] == [(Text("first"),)]
    harness.gates.open("go")
    await harness.ended(second)
    said = [message.parts[0] for message in await harness.messages() if message.role == "user"]
    assert said == [Text("first"), Text("second")]


async def _until_opened(turn: TurnActions) -> Ending | None:
    await turn.gate("go")
    await turn.finish("done")
    return None


@pytest.mark.promise("R4")
async def test_runs_of_all_kinds_go_through_the_same_lane(harness: EngineHarness) -> None:
    turns: ScriptedTurns = harness.turns
    order: list[str] = []

    async def note(turn: TurnActions) -> Ending | None:
        order.append(turn.run.kind)
        await turn.gate(turn.run.kind)
        await turn.finish("done")
        return None

    turns.scripts |= {"compact": note, "shell": note, "undo": note, "prompt": note}
    for kind in ("compact", "shell", "undo"):
        arguments = {"command": "ls"} if kind == "shell" else {}
        request = RunRequest(kind=kind, arguments=arguments)  # type: ignore[arg-type]
        await harness.engine.accept("ses_1", request, client="", body_hash="h")
    last = await harness.accept("prompt")
    for kind in ("compact", "shell", "undo", "prompt"):
        await harness.gates.arrived(kind)
        assert harness.engine.count_active() == 1
        harness.gates.open(kind)
    await harness.ended(last)
    assert order == ["compact", "shell", "undo", "prompt"]
    assert [message.role for message in await harness.messages()].count("user") == 1


async def test_a_prompt_that_is_too_long_is_refused(harness: EngineHarness) -> None:
    with pytest.raises(TooLarge, match="attach"):
        await harness.accept("x" * 1_000_001)
    assert (await harness.ended(await harness.accept("x" * 1_000_000))).state == "completed"
