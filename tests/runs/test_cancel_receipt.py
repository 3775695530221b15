"""Cancels: which runs they cover, what the receipt says, and which records they leave."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from msgspec.structs import replace

from holdfast.agent.protocol import Ending
from holdfast.errors import Conflict, Gone, NotFound, StoreUnwritable
from holdfast.runs import IntentFile
from holdfast.schema.approvals import Approval, Question, QuestionItem
from holdfast.schema.events import (
    ApprovalRequested,
    ApprovalResolved,
    QuestionAsked,
    QuestionResolved,
    RunFinished,
    RunStarted,
    RunStopping,
)
from holdfast.schema.messages import Finish, Text, ToolResult
from holdfast.schema.runs import CancelScope, Outcome, Receipt, Run
from holdfast.store import CommittedEvent
from holdfast.store.writes import OpenApproval, OpenQuestion
from tests.support.any_store import need_file_copies
from tests.support.engine_harness import (
    DEFAULT_LIMITS,
    LONG_LIMITS,
    WORKSPACE,
    ControlledStore,
    EngineHarness,
    open_harness,
)
from tests.support.scripted_turns import TurnActions


def lines(receipt: Receipt) -> list[tuple[str, str, str | None]]:
    return [(line.prompt, line.was, line.ended_as) for line in receipt.runs]


async def working(turn: TurnActions) -> Ending | None:
    """Write some text, then wait at the gate `working`."""
    await turn.say("I am on it")
    await turn.gate("working")
    await turn.finish(" and done")
    return None


@pytest.fixture(autouse=True)
def scripts(harness: EngineHarness) -> None:
    harness.turns.scripts["work"] = working


@pytest.mark.promise("C1", "C3", "C4")
async def test_a_cancel_covers_everything_accepted_before_it_and_nothing_after(harness: EngineHarness) -> None:
    await harness.accept("work now")
    await harness.gates.arrived("working")
    await harness.accept("queued")
    await harness.accept("steer", delivery="steer")
    receipt = await harness.engine.cancel_session("ses_1")
    assert lines(receipt) == [
        ("work now", "active", "cancelled"),
        ("queued", "queued", "cancelled"),
        ("steer", "waiting", "cancelled"),
    ]
    assert receipt.mark == 3
    later = await harness.accept("later")
    assert later.decision == "started"
    assert (await harness.ended(later)).state == "completed"
    assert len(harness.turns.started) == 2


@pytest.mark.promise("C1", "R7", "R8")
@pytest.mark.parametrize("refused", [0, 1, 3])
async def test_a_cancel_and_the_end_of_a_run_that_stops_at_once_are_one_commit(tmp_path: Path, refused: int) -> None:
    patient = replace(LONG_LIMITS, end_with_cancel_seconds=1000)
    async with open_harness(tmp_path / "own.db", controlled=True, limits=patient) as harness:
        store = harness.store
        assert isinstance(store, ControlledStore)
        await harness.session()
        harness.turns.scripts["work"] = working
        active = await harness.accept("work")
        queued = await harness.accept("queued")
        await harness.gates.arrived("working")
        before = store.committed
        if refused:
            store.refuse()
        cancelling = asyncio.create_task(harness.engine.cancel_session("ses_1"))
        if refused:
            await harness.until(lambda: store.refused >= refused)
            store.refusing = None
        receipt = await cancelling
        assert (await harness.ended(active)).state == "cancelled"
        assert (await harness.ended(queued)).state == "cancelled"
        assert {line.run_id for line in receipt.runs} == {active.run.id, queued.run.id}
        assert store.committed - before == (2 if refused else 1)
        events = [event for event in await harness.events() if isinstance(event, RunStopping | RunFinished)]
        assert [(type(event), event.run.id) for event in events] == [
            *((RunFinished, queued.run.id), (RunStopping, active.run.id), (RunFinished, active.run.id))
        ]
        assert len(harness.turns.started) == 1


@pytest.mark.promise("C1", "C7")
async def test_a_cancel_does_not_wait_for_a_turn_that_writes_while_it_stops(tmp_path: Path) -> None:
    patient = replace(LONG_LIMITS, end_with_cancel_seconds=1000)
    async with open_harness(tmp_path / "own.db", limits=patient) as harness:
        await harness.session()

        @harness.turns.on("writes")
        async def writes(turn: TurnActions) -> Ending | None:
            try:
                await turn.gate("working")
            finally:
                await turn.say("last words")
            return None

        accepted = await harness.accept("writes")
        await harness.gates.arrived("working")
        (line,) = (await harness.engine.cancel_session("ses_1")).runs
        assert line.ended_as == "cancelled"
        assert (await harness.ended(accepted)).text == "last words"


@pytest.mark.promise("C2")
async def test_a_cancel_when_idle_has_an_empty_receipt_and_does_not_affect_the_next_run(harness: EngineHarness) -> None:
    receipt = await harness.engine.cancel_session("ses_1")
    assert receipt == Receipt(0)
    active = await harness.engine.cancel_session("ses_1", "active")
    assert active.runs == ()
    assert (await harness.ended(await harness.accept("hello"))).state == "completed"
    assert (await harness.engine.cancel_session("ses_1")).runs == ()


def ends_in(events: tuple[CommittedEvent, ...]) -> list[Run]:
    return [logged.event.run for logged in events if isinstance(logged.event, RunFinished)]


@pytest.mark.promise("C3")
@pytest.mark.parametrize("in_fleet", [False, True])
async def test_the_receipt_lists_what_the_run_was_doing_killed_and_left_running(
    harness: EngineHarness, in_fleet: bool
) -> None:
    if in_fleet:  # ends are also told by the log, sooner than by the lane
        harness.store.listen(lambda events: [harness.engine.note_end(end) for end in ends_in(events)])

    @harness.turns.on("busy")
    async def busy(turn: TurnActions) -> Ending | None:
        turn.handle.progress("tool", "bash: pytest")
        try:
            await turn.gates.pass_through("busy")
        finally:
            turn.handle.report(killed=["bash: pytest (pid 7)"], left_running=["zombie (pid 9)"])
        return None

    accepted = await harness.accept("busy")
    await harness.gates.arrived("busy")
    (line,) = (await harness.engine.cancel_session("ses_1")).runs
    assert line.doing is not None
    assert (line.doing.phase, line.doing.what) == ("tool", "bash: pytest")
    assert (line.killed, line.left_running) == (("bash: pytest (pid 7)",), ("zombie (pid 9)",))
    assert (await harness.ended(accepted)).left_running == ("zombie (pid 9)",)


@pytest.mark.promise("C3", "C7")
async def test_the_receipt_comes_in_time_without_the_ends_of_runs_that_are_still_stopping(tmp_path: Path) -> None:
    async with open_harness(
        tmp_path / "own.db", limits=replace(DEFAULT_LIMITS, receipt_seconds=0.01, stop_seconds=20)
    ) as harness:
        await harness.session()

        @harness.turns.on("slow")
        async def slow(turn: TurnActions) -> Ending | None:
            try:
                await turn.gate("working")
            finally:
                await turn.gates.pass_through("cleaning up")
            return None

        accepted = await harness.accept("slow")
        await harness.gates.arrived("working")
        (line,) = (await harness.engine.cancel_session("ses_1")).runs
        assert (line.was, line.ended_as, line.reason) == ("active", None, None)
        assert (await harness.engine.get_run(accepted.run.id)).state == "stopping"
        harness.gates.open("cleaning up")
        assert (await harness.ended(accepted)).state == "cancelled"


@pytest.mark.promise("C7", "C3", "R8")
async def test_a_turn_that_does_not_stop_is_abandoned_and_named_and_can_write_nothing(tmp_path: Path) -> None:
    async with open_harness(tmp_path / "own.db", limits=replace(DEFAULT_LIMITS, stop_seconds=0.01)) as harness:
        await harness.session()
        tried: list[str] = []

        @harness.turns.on("stubborn")
        async def stubborn(turn: TurnActions) -> Ending | None:
            await turn.say("I will")
            for _ in range(2):
                try:
                    await turn.gates.pass_through("stubborn")
                except asyncio.CancelledError:
                    tried.append("ignored a cancel")
            for attempt in (turn.say(" not stop"), turn.finish("at all")):
                with pytest.raises(Conflict) as caught:
                    await attempt
                tried.append(caught.value.error_code)
            return Ending(Outcome("completed", "end_turn", text="never seen"))

        accepted = await harness.accept("stubborn")
        await harness.gates.arrived("stubborn")
        (line,) = (await harness.engine.cancel_session("ses_1")).runs
        assert line.ended_as == "cancelled"
        assert line.left_running == (f"the turn of run {accepted.run.id}",)
        assert (await harness.ended(await harness.accept("next"))).state == "completed"
        harness.gates.open("stubborn")
        await harness.quiet()
        assert tried == ["ignored a cancel", "ignored a cancel", "run_over", "run_over"]
        run = await harness.engine.get_run(accepted.run.id)
        assert (run.state, run.text) == ("cancelled", "I will")


@pytest.mark.promise("C3")
async def test_a_repeated_cancel_and_one_of_a_finished_run_change_nothing(harness: EngineHarness) -> None:
    done = await harness.ended(await harness.accept("hello"))
    before = harness.store.last_number
    (line,) = (await harness.engine.cancel_run(done.id)).runs
    assert (line.was, line.ended_as, line.reason) == ("completed", "completed", "end_turn")
    assert harness.store.last_number == before

    @harness.turns.on("slow")
    async def slow(turn: TurnActions) -> Ending | None:
        try:
            await turn.gate("working")
        finally:
            await turn.gates.pass_through("cleaning up")
        return None

    await harness.accept("slow")
    await harness.gates.arrived("working")
    first = asyncio.create_task(harness.engine.cancel_session("ses_1"))
    await harness.gates.arrived("cleaning up")
    before = harness.store.last_number
    second = asyncio.create_task(harness.engine.cancel_session("ses_1"))
    await harness.until(lambda: len(harness.engine._state.end_waiters) == 2)
    assert harness.store.last_number == before
    harness.gates.open("cleaning up")
    assert lines(await first) == [("slow", "active", "cancelled")]
    assert lines(await second) == [("slow", "stopping", "cancelled")]


@pytest.mark.promise("C3")
async def test_a_run_that_ends_before_the_cancel_is_listed_with_its_own_end(harness: EngineHarness) -> None:
    accepted = await harness.accept("hello")
    receipt = await harness.engine.cancel_run(accepted.run.id)
    ended = await harness.ended(accepted)
    assert [(line.run_id, line.ended_as) for line in receipt.runs] == [(ended.id, ended.state)]


@pytest.mark.promise("C4", "R5")
async def test_a_cancel_of_the_active_run_keeps_the_queue_and_waiting_steers(harness: EngineHarness) -> None:
    await harness.accept("work")
    await harness.gates.arrived("working")
    queued = await harness.accept("queued")
    steer = await harness.accept("steer", delivery="steer")
    receipt = await harness.engine.cancel_session("ses_1", "active")
    assert lines(receipt) == [("work", "active", "cancelled")]
    assert (await harness.ended(queued)).state == "completed"
    assert (await harness.ended(steer)).state == "completed"
    assert harness.turns.started[1:] == [steer.run.id, queued.run.id]


@pytest.mark.promise("C4")
async def test_one_queued_run_can_be_cancelled_by_its_id(harness: EngineHarness) -> None:
    first = await harness.accept("work")
    await harness.gates.arrived("working")
    second, third = await harness.accept("second"), await harness.accept("third")
    assert lines(await harness.engine.cancel_run(second.run.id)) == [("second", "queued", "cancelled")]
    assert (await harness.engine.queue("ses_1")).run_ids == (third.run.id,)
    harness.gates.open("working")
    assert (await harness.ended(first)).state == "completed"
    assert (await harness.ended(third)).state == "completed"
    with pytest.raises(NotFound):
        await harness.engine.cancel_run("run_no")


@pytest.mark.promise("C4")
async def test_a_joined_run_cannot_be_cancelled_without_its_host(harness: EngineHarness) -> None:
    @harness.turns.on("host")
    async def host(turn: TurnActions) -> Ending | None:
        await turn.gate("first step")
        await turn.tool("look")
        await turn.gate("second step")
        await turn.finish("done")
        return None

    hosting = await harness.accept("host")
    await harness.gates.arrived("first step")
    steer = await harness.accept("steer", delivery="steer")
    harness.gates.open("first step")
    await harness.gates.arrived("second step")
    with pytest.raises(Conflict) as caught:
        await harness.engine.cancel_run(steer.run.id)
    assert (caught.value.error_code, caught.value.detail["host_run_id"]) == ("run_joined", hosting.run.id)
    receipt = await harness.engine.cancel_session("ses_1")
    assert lines(receipt) == [("host", "active", "cancelled"), ("steer", "joined", "cancelled")]


@pytest.mark.promise("C5", "C6")
async def test_a_cancelled_run_leaves_its_prompt_once_and_its_partial_text(harness: EngineHarness) -> None:
    accepted = await harness.accept("work")
    await harness.gates.arrived("working")
    await harness.engine.cancel_session("ses_1")
    user, assistant = await harness.messages()
    assert user.parts == (Text("work"),)
    assert assistant.parts == (Text("I am on it"), Finish("cancelled", "cancelled"))
    run = await harness.ended(accepted)
    assert (run.text, run.message_id, run.error) == ("I am on it", assistant.id, None)


@pytest.mark.promise("C5")
async def test_a_run_cancelled_before_its_first_token_has_an_assistant_message(harness: EngineHarness) -> None:
    @harness.turns.on("think")
    async def think(turn: TurnActions) -> Ending | None:
        await turn.gate("thinking")
        return None

    await harness.accept("think")
    await harness.gates.arrived("thinking")
    await harness.engine.cancel_session("ses_1")
    user, assistant = await harness.messages()
    assert (user.role, user.unsent) == ("user", False)
    assert assistant.parts == (Finish("cancelled", "cancelled"),)


@pytest.mark.promise("C5", "C10")
async def test_the_record_of_a_run_that_never_started_is_flagged_unsent(harness: EngineHarness) -> None:
    await harness.accept("work")
    await harness.gates.arrived("working")
    await harness.accept("never sent")
    receipt = await harness.engine.cancel_session("ses_1")
    assert receipt.runs[1].prompt == "never sent"
    unsent = [message for message in await harness.messages() if message.unsent]
    assert [message.parts for message in unsent] == [(Text("never sent"),)]
    assert sum(message.role == "assistant" for message in await harness.messages()) == 1


@pytest.mark.promise("C6")
async def test_calls_without_a_result_get_one(harness: EngineHarness) -> None:
    @harness.turns.on("tools")
    async def tools(turn: TurnActions) -> Ending | None:
        await turn.call("bash", "view")
        await turn.gates.pass_through("in tools")
        return None

    await harness.accept("tools")
    await harness.gates.arrived("in tools")
    await harness.engine.cancel_session("ses_1")
    _, asked, results, closing = await harness.messages()
    assert [part.name for part in results.parts if isinstance(part, ToolResult)] == ["bash", "view"]
    assert {part.status for part in results.parts if isinstance(part, ToolResult)} == {"cancelled"}
    assert asked.parts[-1] == Finish("tool_use")
    assert closing.parts == (Finish("cancelled", "cancelled"),)


@pytest.mark.promise("C5", "R8")
async def test_the_ending_of_a_cancelled_turn_is_kept(harness: EngineHarness) -> None:
    @harness.turns.on("tidy")
    async def tidy(turn: TurnActions) -> Ending | None:
        await turn.say("Once upon a")
        try:
            await turn.gate("tidy")
        except asyncio.CancelledError:
            message = replace(turn.closed(), parts=(Text("Once upon a time"), Finish("cancelled")))
            return Ending(Outcome("completed", "end_turn", text="Once upon a time", message_id=message.id), (message,))
        return None

    accepted = await harness.accept("tidy")
    await harness.gates.arrived("tidy")
    await harness.engine.cancel_session("ses_1")
    run = await harness.ended(accepted)
    assert (run.state, run.reason, run.text) == ("cancelled", "user_cancel", "Once upon a time")
    _, assistant = await harness.messages()
    assert assistant.parts == (Text("Once upon a time"), Finish("cancelled"))


@pytest.mark.promise("C8", "R8", "W4")
async def test_open_approvals_and_questions_are_closed_with_the_run(harness: EngineHarness) -> None:
    @harness.turns.on("ask")
    async def ask(turn: TurnActions) -> Ending | None:
        handle = turn.handle
        common = {"workspace_id": WORKSPACE, "session_id": "ses_1", "root_session_id": "ses_1", "run_id": handle.run.id}
        approval = Approval(id="apr_1", call_id="call_1", tool="bash", title="rm", **common)
        question = Question(id="qst_1", call_id="call_2", items=(QuestionItem("why?"),), **common)
        await handle.commit(
            [OpenApproval(approval), OpenQuestion(question)],
            [ApprovalRequested(handle.now(), "ses_1", approval), QuestionAsked(handle.now(), "ses_1", question)],
        )
        await turn.gate("asking")
        return None

    await harness.accept("ask")
    await harness.gates.arrived("asking")
    await harness.engine.cancel_session("ses_1")
    assert (await harness.store.open_approvals(workspace_id=WORKSPACE)).items == ()
    assert (await harness.store.open_questions(workspace_id=WORKSPACE)).items == ()
    events = await harness.events()
    closed = [type(event) for event in events if isinstance(event, ApprovalResolved | QuestionResolved)]
    assert closed == [ApprovalResolved, QuestionResolved]


@pytest.mark.promise("C9")
async def test_a_turn_that_fails_during_a_cancel_ends_cancelled(
    harness: EngineHarness,
) -> None:
    @harness.turns.on("clumsy")
    async def clumsy(turn: TurnActions) -> Ending | None:
        try:
            await turn.gate("clumsy")
        finally:
            raise RuntimeError("stumbled over its own clean-up")

    accepted = await harness.accept("clumsy")
    await harness.gates.arrived("clumsy")
    await harness.engine.cancel_session("ses_1")
    run = await harness.ended(accepted)
    assert (run.state, run.reason, run.error) == ("cancelled", "user_cancel", None)


@pytest.fixture
async def controlled(tmp_path: Path) -> AsyncIterator[tuple[EngineHarness, ControlledStore]]:
    """A harness whose store can refuse commits, with an active run `work` and a queued run `queued`."""
    intents = IntentFile(tmp_path / "intents")
    await asyncio.to_thread(intents.open)
    async with open_harness(tmp_path / "own.db", controlled=True, intents=intents) as harness:
        await harness.session()
        harness.turns.scripts["work"] = working
        assert isinstance(harness.store, ControlledStore)
        await harness.accept("work", run_id="work-1")
        await harness.gates.arrived("working")
        await harness.accept("queued", run_id="queued-1")
        yield harness, harness.store


@pytest.mark.promise("C1", "C7", "R14")
async def test_a_cancel_that_cannot_be_written_stops_the_run_and_is_written_later(
    controlled: tuple[EngineHarness, ControlledStore],
) -> None:
    harness, store = controlled
    store.refuse()
    receipt = await harness.engine.cancel_session("ses_1")
    assert lines(receipt) == [("work", "active", None), ("queued", "queued", None)]
    assert [line.stopped for line in receipt.runs] == [True, True]
    assert receipt.error is not None
    assert receipt.error.code == "store_unwritable"
    assert harness.turns.running["ses_1"] == []
    shown = await harness.engine.get_run("work-1")
    assert (shown.state, shown.now and shown.now.phase) == ("stopping", "store")
    with pytest.raises(StoreUnwritable):
        await harness.accept("later")
    store.refusing = None
    assert [(await harness.ended(run_id)).state for run_id in ("work-1", "queued-1")] == ["cancelled", "cancelled"]
    assert (await harness.messages())[1].parts == (Text("I am on it"), Finish("cancelled", "cancelled"))
    assert (await harness.ended(await harness.accept("later"))).state == "completed"
    assert len(harness.turns.started) == 2
    await harness.quiet()


@pytest.mark.promise("C1", "C7")
@pytest.mark.parametrize("scope", ["session", "active"])
async def test_the_active_run_stops_while_the_mark_is_being_written(
    controlled: tuple[EngineHarness, ControlledStore], scope: CancelScope
) -> None:
    harness, store = controlled
    store.open.clear()
    cancelling = asyncio.create_task(harness.engine.cancel_session("ses_1", scope))
    await harness.until(lambda: harness.turns.running["ses_1"] == [])
    assert (await harness.store.run("work-1")).state == "active"
    store.open.set()
    assert (await cancelling).runs[0].ended_as == "cancelled"
    expected = "cancelled" if scope == "session" else "completed"
    assert (await harness.ended("queued-1")).state == expected


@pytest.mark.promise("C1", "C7")
async def test_a_cancel_behind_a_commit_that_hangs_stops_the_run_at_once(
    controlled: tuple[EngineHarness, ControlledStore],
) -> None:
    harness, store = controlled
    store.open.clear()
    pausing = asyncio.create_task(harness.engine.pause("ses_1"))
    await harness.until(lambda: store.held > 0)
    cancelling = asyncio.create_task(harness.engine.cancel_session("ses_1"))
    await harness.until(lambda: harness.turns.running["ses_1"] == [])
    store.open.set()
    await pausing
    assert lines(await cancelling) == [("work", "active", "cancelled"), ("queued", "queued", "cancelled")]


@pytest.mark.promise("C1", "R14")
async def test_a_cancel_is_written_before_an_end_so_that_no_covered_run_starts(
    controlled: tuple[EngineHarness, ControlledStore],
) -> None:
    harness, store = controlled
    store.refuse()
    harness.gates.open("working")
    await harness.until(lambda: store.refused > 1)  # the end of the active run is retried
    receipt = await harness.engine.cancel_session("ses_1")
    assert [line.ended_as for line in receipt.runs] == [None, None]
    store.refusing = None
    assert (await harness.ended("queued-1")).state == "cancelled"
    assert (await harness.ended("work-1")).state == "cancelled"
    assert len(harness.turns.started) == 1


@pytest.mark.promise("C1", "R14")
@pytest.mark.parametrize("scope", ["session", "active"])
async def test_cancels_that_were_refused_are_written_before_an_end_also_if_a_later_cancel_could_be_written(
    controlled: tuple[EngineHarness, ControlledStore], scope: CancelScope
) -> None:
    harness, store = controlled
    await harness.accept("other", run_id="other-1")
    store.refuse()
    harness.gates.open("working")
    await harness.until(lambda: store.refused > 1)  # the end of the active run is retried
    await harness.engine.cancel_session("ses_1", scope)
    await harness.engine.cancel_session("ses_1")
    store.refusing = None
    await harness.engine.cancel_run("other-1")  # a cancel that was not tried yet goes first
    ends = [(await harness.ended(run_id)).state for run_id in ("work-1", "queued-1", "other-1")]
    assert ends == ["cancelled", "cancelled", "cancelled"]
    assert [event.run.id for event in await harness.events() if isinstance(event, RunStarted)] == ["work-1"]


@asynccontextmanager
async def database_that_hangs(
    directory: Path, *, intents: IntentFile | None = None
) -> AsyncIterator[tuple[EngineHarness, ControlledStore]]:
    """The run ``work-1`` is active, no commit returns any more, and receipts do not wait for one."""
    limits = replace(DEFAULT_LIMITS, receipt_seconds=0.01, stop_seconds=20)
    async with open_harness(directory / "own.db", controlled=True, limits=limits, intents=intents) as harness:
        await harness.session()
        harness.turns.scripts["work"] = working
        await harness.accept("work", run_id="work-1")
        await harness.gates.arrived("working")
        assert isinstance(harness.store, ControlledStore)
        harness.store.open.clear()
        yield harness, harness.store


@pytest.mark.promise("C3")
async def test_a_receipt_that_cannot_wait_for_the_database_says_that_it_is_not_stored_and_why(tmp_path: Path) -> None:
    async with database_that_hangs(tmp_path) as (harness, store):
        receipt = await harness.engine.cancel_session("ses_1")
        assert not receipt.durable
        assert receipt.error is not None
        assert receipt.error.code == "store_unreachable"
        assert "keeps trying" in receipt.error.message
        store.open.set()
        assert (await harness.ended("work-1")).state == "cancelled"


@pytest.mark.promise("C1", "C3")
async def test_a_receipt_says_that_it_may_cover_more_if_a_prompt_before_it_is_still_being_stored(
    tmp_path: Path,
) -> None:
    async with database_that_hangs(tmp_path, intents=IntentFile(tmp_path / "intents")) as (harness, store):
        accepting = asyncio.create_task(harness.accept("before the cancel", run_id="before-1"))
        await harness.until(lambda: store.held > 0)
        receipt = await harness.engine.cancel_session("ses_1")
        assert [line.run_id for line in receipt.runs] == ["work-1"]
        assert receipt.durable
        assert receipt.error is not None
        assert "prompts that were sent before it" in receipt.error.message
        store.open.set()
        assert (await accepting).decision == "queued"
        assert [(await harness.ended(run_id)).state for run_id in ("work-1", "before-1")] == ["cancelled"] * 2


@pytest.mark.promise("C1", "C3")
@pytest.mark.parametrize("noted", [True, False])
async def test_after_a_crash_a_cancel_that_was_only_noted_is_taken(
    controlled: tuple[EngineHarness, ControlledStore], tmp_path: Path, noted: bool
) -> None:
    need_file_copies()
    harness, store = controlled
    store.refuse()
    intents = tmp_path / "intents"
    if not noted:
        intents.unlink()
        intents.mkdir()
    receipt = await harness.engine.cancel_session("ses_1")
    assert receipt.durable == noted
    copy = tmp_path / "copy.db"
    await harness.store.backup(copy)
    copied_intents = tmp_path / "copied"
    if noted:
        copied_intents.write_bytes(intents.read_bytes())
    store.refusing = None
    async with open_harness(copy, intents=IntentFile(copied_intents), open_workspace=False) as after:
        await after.engine.recover()
        await after.engine.open_workspace(WORKSPACE)
        work, queued = await after.ended("work-1"), await after.ended("queued-1")
        if noted:
            assert [(run.state, run.reason) for run in (work, queued)] == [("cancelled", "user_cancel")] * 2
            assert after.turns.started == []
            await after.quiet()
            assert await asyncio.to_thread(IntentFile(copied_intents).open) == ()
        else:
            assert (work.reason, queued.state) == ("server_crash", "completed")


@pytest.mark.promise("C1")
async def test_a_noted_cancel_is_forgotten_when_it_is_written_and_never_touches_a_later_run(
    controlled: tuple[EngineHarness, ControlledStore], tmp_path: Path
) -> None:
    need_file_copies()
    harness, store = controlled
    store.refuse()
    assert (await harness.engine.cancel_session("ses_1")).durable
    stale = (tmp_path / "intents").read_bytes()
    store.refusing = None
    await harness.ended("work-1")
    await harness.quiet()
    assert await asyncio.to_thread(IntentFile(tmp_path / "intents").open) == ()
    await harness.engine.pause("ses_1")
    await harness.accept("later", run_id="later-1")
    copy = tmp_path / "copy.db"
    await harness.store.backup(copy)
    (tmp_path / "stale").write_bytes(stale)
    async with open_harness(copy, intents=IntentFile(tmp_path / "stale"), open_workspace=False) as after:
        await after.engine.recover()
        await after.engine.open_workspace(WORKSPACE)
        await after.engine.resume("ses_1")
        assert (await after.ended("later-1")).state == "completed"


@pytest.mark.promise("E8")
async def test_deleting_a_busy_session_stops_it_first(harness: EngineHarness) -> None:
    accepted = await harness.accept("work")
    await harness.gates.arrived("working")
    queued = await harness.accept("queued")
    receipt = await harness.engine.delete_session("ses_1")
    assert lines(receipt) == [("work", "active", "cancelled"), ("queued", "queued", "cancelled")]
    assert {line.reason for line in receipt.runs} == {"session_deleted"}
    for run_id in (accepted.run.id, queued.run.id):
        with pytest.raises(Gone):
            await harness.engine.wait_run(run_id, timeout=0)
    with pytest.raises(Gone):
        await harness.accept("more")
    with pytest.raises(Gone):
        await harness.engine.delete_session("ses_1")
    record = await harness.store.run_record(accepted.run.id)
    assert record is not None
    assert (record.run.state, record.run.prompt) == ("cancelled", "")


@pytest.mark.promise("R9")
async def test_waiting_for_a_run_raises_gone_when_its_session_is_deleted(harness: EngineHarness) -> None:
    accepted = await harness.accept("work")
    await harness.gates.arrived("working")
    waiting = asyncio.create_task(harness.ended(accepted))
    await harness.until(lambda: len(harness.engine._state.end_waiters) == 1)
    await harness.engine.delete_session("ses_1")
    with pytest.raises(Gone):
        await waiting
