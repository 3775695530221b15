"""A cancel covers what was accepted before it, says the truth about it, and leaves a whole record."""

import asyncio
from pathlib import Path

import pytest
from msgspec.structs import replace

from holdfast.agent.protocol import Ending
from holdfast.errors import Conflict, Gone, NotFound, StoreUnwritable
from holdfast.schema.approvals import Approval, Question, QuestionItem
from holdfast.schema.events import ApprovalRequested, ApprovalResolved, QuestionAsked, QuestionResolved
from holdfast.schema.messages import Finish, Text, ToolResult
from holdfast.schema.runs import Outcome, Receipt
from holdfast.store.writes import OpenApproval, OpenQuestion
from tests.support.house import DEFAULT_LIMITS, WORKSPACE, House, LedgerSeam, opened
from tests.support.scripted import Actor


def lines(receipt: Receipt) -> list[tuple[str, str, str | None]]:
    return [(line.prompt, line.was, line.ended_as) for line in receipt.runs]


async def working(actor: Actor) -> Ending | None:
    """Says something, then works until it is stopped or let go."""
    await actor.say("I am on it")
    await actor.gate("working")
    await actor.finish(" and done")
    return None


@pytest.fixture(autouse=True)
def scripts(house: House) -> None:
    house.turns.scripts["work"] = working


@pytest.mark.promise("C1", "C3", "C4")
async def test_a_cancel_covers_everything_accepted_before_it_and_nothing_after(house: House) -> None:
    await house.accept("work now")
    await house.gates.arrived("working")
    await house.accept("queued")
    await house.accept("steer", delivery="steer")
    receipt = await house.engine.cancel_session("ses_1")
    assert lines(receipt) == [
        ("work now", "active", "cancelled"),
        ("queued", "queued", "cancelled"),
        ("steer", "waiting", "cancelled"),
    ]
    assert receipt.mark == 3
    later = await house.accept("later")
    assert later.decision == "started"
    assert (await house.ended(later)).state == "completed"
    assert len(house.turns.started) == 2


@pytest.mark.promise("C2")
async def test_an_idle_cancel_is_an_empty_receipt_and_poisons_nothing(house: House) -> None:
    receipt = await house.engine.cancel_session("ses_1")
    assert receipt == Receipt(0)
    active = await house.engine.cancel_session("ses_1", "active")
    assert active.runs == ()
    assert (await house.ended(await house.accept("hello"))).state == "completed"
    assert (await house.engine.cancel_session("ses_1")).runs == ()


@pytest.mark.promise("C3")
async def test_the_receipt_says_what_was_being_done_and_what_was_killed_and_left(house: House) -> None:
    @house.turns.on("busy")
    async def busy(actor: Actor) -> Ending | None:
        actor.handle.progress("tool", "bash: pytest")
        try:
            await actor.gates.pass_through("busy")
        finally:
            actor.handle.report(killed=["bash: pytest (pid 7)"], left_running=["zombie (pid 9)"])
        return None

    accepted = await house.accept("busy")
    await house.gates.arrived("busy")
    (line,) = (await house.engine.cancel_session("ses_1")).runs
    assert line.doing is not None
    assert (line.doing.phase, line.doing.what) == ("tool", "bash: pytest")
    assert (line.killed, line.left_running) == (("bash: pytest (pid 7)",), ("zombie (pid 9)",))
    assert (await house.ended(accepted)).left_running == ("zombie (pid 9)",)


@pytest.mark.promise("C3", "C7")
async def test_the_receipt_comes_in_time_with_no_end_for_what_has_not_ended(tmp_path: Path) -> None:
    async with opened(
        tmp_path / "own.db", limits=replace(DEFAULT_LIMITS, receipt_seconds=0.01, stop_seconds=20)
    ) as house:
        await house.session()

        @house.turns.on("slow")
        async def slow(actor: Actor) -> Ending | None:
            try:
                await actor.gate("working")
            finally:
                await actor.gates.pass_through("cleaning up")
            return None

        accepted = await house.accept("slow")
        await house.gates.arrived("working")
        (line,) = (await house.engine.cancel_session("ses_1")).runs
        assert (line.was, line.ended_as, line.reason) == ("active", None, None)
        assert (await house.engine.get_run(accepted.run.id)).state == "stopping"
        house.gates.open("cleaning up")
        assert (await house.ended(accepted)).state == "cancelled"


@pytest.mark.promise("C7", "C3", "R8")
async def test_a_turn_that_will_not_stop_is_left_behind_named_and_can_write_nothing_more(tmp_path: Path) -> None:
    async with opened(tmp_path / "own.db", limits=replace(DEFAULT_LIMITS, stop_seconds=0.01)) as house:
        await house.session()
        tried: list[str] = []

        @house.turns.on("stubborn")
        async def stubborn(actor: Actor) -> Ending | None:
            await actor.say("I will")
            for _ in range(2):
                try:
                    await actor.gates.pass_through("stubborn")
                except asyncio.CancelledError:
                    tried.append("ignored a cancel")
            for attempt in (actor.say(" not stop"), actor.finish("at all")):
                with pytest.raises(Conflict) as caught:
                    await attempt
                tried.append(caught.value.error_code)
            return Ending(Outcome("completed", "end_turn", text="never seen"))

        accepted = await house.accept("stubborn")
        await house.gates.arrived("stubborn")
        (line,) = (await house.engine.cancel_session("ses_1")).runs
        assert line.ended_as == "cancelled"
        assert line.left_running == (f"the turn of run {accepted.run.id}",)
        assert (await house.ended(await house.accept("next"))).state == "completed"
        house.gates.open("stubborn")
        await house.quiet()
        assert tried == ["ignored a cancel", "ignored a cancel", "run_over", "run_over"]
        run = await house.engine.get_run(accepted.run.id)
        assert (run.state, run.text) == ("cancelled", "I will")


@pytest.mark.promise("C3")
async def test_a_repeated_cancel_and_one_of_a_finished_run_change_nothing(house: House) -> None:
    done = await house.ended(await house.accept("hello"))
    before = house.store.last_number
    (line,) = (await house.engine.cancel_run(done.id)).runs
    assert (line.was, line.ended_as, line.reason) == ("completed", "completed", "end_turn")
    assert house.store.last_number == before

    @house.turns.on("slow")
    async def slow(actor: Actor) -> Ending | None:
        try:
            await actor.gate("working")
        finally:
            await actor.gates.pass_through("cleaning up")
        return None

    await house.accept("slow")
    await house.gates.arrived("working")
    first = asyncio.create_task(house.engine.cancel_session("ses_1"))
    await house.gates.arrived("cleaning up")
    before = house.store.last_number
    second = asyncio.create_task(house.engine.cancel_session("ses_1"))
    await house.until(lambda: len(house.engine._state.end_waiters) == 2)
    assert house.store.last_number == before
    house.gates.open("cleaning up")
    assert lines(await first) == [("slow", "active", "cancelled")]
    assert lines(await second) == [("slow", "stopping", "cancelled")]


@pytest.mark.promise("C3")
async def test_a_run_that_ended_by_itself_meanwhile_is_listed_with_its_own_end(house: House) -> None:
    accepted = await house.accept("hello")
    receipt = await house.engine.cancel_run(accepted.run.id)
    ended = await house.ended(accepted)
    assert [(line.run_id, line.ended_as) for line in receipt.runs] == [(ended.id, ended.state)]


@pytest.mark.promise("C4", "R5")
async def test_cancelling_the_active_run_lets_the_queue_and_waiting_steers_go_on(house: House) -> None:
    await house.accept("work")
    await house.gates.arrived("working")
    queued = await house.accept("queued")
    steer = await house.accept("steer", delivery="steer")
    receipt = await house.engine.cancel_session("ses_1", "active")
    assert lines(receipt) == [("work", "active", "cancelled")]
    assert (await house.ended(queued)).state == "completed"
    assert (await house.ended(steer)).state == "completed"
    assert house.turns.started[1:] == [steer.run.id, queued.run.id]


@pytest.mark.promise("C4")
async def test_one_queued_run_can_be_cancelled_by_its_id(house: House) -> None:
    first = await house.accept("work")
    await house.gates.arrived("working")
    second, third = await house.accept("second"), await house.accept("third")
    assert lines(await house.engine.cancel_run(second.run.id)) == [("second", "queued", "cancelled")]
    assert (await house.engine.queue("ses_1")).run_ids == (third.run.id,)
    house.gates.open("working")
    assert (await house.ended(first)).state == "completed"
    assert (await house.ended(third)).state == "completed"
    with pytest.raises(NotFound):
        await house.engine.cancel_run("run_no")


@pytest.mark.promise("C4")
async def test_a_joined_run_cannot_be_cancelled_by_itself(house: House) -> None:
    @house.turns.on("host")
    async def host(actor: Actor) -> Ending | None:
        await actor.gate("first step")
        await actor.tool("look")
        await actor.gate("second step")
        await actor.finish("done")
        return None

    hosting = await house.accept("host")
    await house.gates.arrived("first step")
    steer = await house.accept("steer", delivery="steer")
    house.gates.open("first step")
    await house.gates.arrived("second step")
    with pytest.raises(Conflict) as caught:
        await house.engine.cancel_run(steer.run.id)
    assert (caught.value.error_code, caught.value.detail["host_run_id"]) == ("run_joined", hosting.run.id)
    receipt = await house.engine.cancel_session("ses_1")
    assert lines(receipt) == [("host", "active", "cancelled"), ("steer", "joined", "cancelled")]


@pytest.mark.promise("C5", "C6")
async def test_a_cancelled_run_leaves_its_prompt_once_and_its_partial_text(house: House) -> None:
    accepted = await house.accept("work")
    await house.gates.arrived("working")
    await house.engine.cancel_session("ses_1")
    user, assistant = await house.messages()
    assert user.parts == (Text("work"),)
    assert assistant.parts == (Text("I am on it"), Finish("cancelled", "cancelled"))
    run = await house.ended(accepted)
    assert (run.text, run.message_id, run.error) == ("I am on it", assistant.id, None)


@pytest.mark.promise("C5")
async def test_a_run_cancelled_before_its_first_word_has_an_assistant_message_too(house: House) -> None:
    @house.turns.on("think")
    async def think(actor: Actor) -> Ending | None:
        await actor.gate("thinking")
        return None

    await house.accept("think")
    await house.gates.arrived("thinking")
    await house.engine.cancel_session("ses_1")
    user, assistant = await house.messages()
    assert (user.role, user.unsent) == ("user", False)
    assert assistant.parts == (Finish("cancelled", "cancelled"),)


@pytest.mark.promise("C5", "C10")
async def test_the_record_of_a_run_that_never_started_is_flagged_unsent(house: House) -> None:
    await house.accept("work")
    await house.gates.arrived("working")
    await house.accept("never sent")
    receipt = await house.engine.cancel_session("ses_1")
    assert receipt.runs[1].prompt == "never sent"
    unsent = [message for message in await house.messages() if message.unsent]
    assert [message.parts for message in unsent] == [(Text("never sent"),)]
    assert sum(message.role == "assistant" for message in await house.messages()) == 1


@pytest.mark.promise("C6")
async def test_calls_without_a_result_get_one(house: House) -> None:
    @house.turns.on("tools")
    async def tools(actor: Actor) -> Ending | None:
        await actor.call("bash", "view")
        await actor.gates.pass_through("in tools")
        return None

    await house.accept("tools")
    await house.gates.arrived("in tools")
    await house.engine.cancel_session("ses_1")
    _, asked, results, closing = await house.messages()
    assert [part.name for part in results.parts if isinstance(part, ToolResult)] == ["bash", "view"]
    assert {part.status for part in results.parts if isinstance(part, ToolResult)} == {"cancelled"}
    assert asked.parts[-1] == Finish("tool_use")
    assert closing.parts == (Finish("cancelled", "cancelled"),)


@pytest.mark.promise("C5", "R8")
async def test_what_a_cancelled_turn_gives_with_its_ending_is_kept(house: House) -> None:
    @house.turns.on("tidy")
    async def tidy(actor: Actor) -> Ending | None:
        await actor.say("Once upon a")
        try:
            await actor.gate("tidy")
        except asyncio.CancelledError:
            message = replace(actor.closed(), parts=(Text("Once upon a time"), Finish("cancelled")))
            return Ending(Outcome("completed", "end_turn", text="Once upon a time", message_id=message.id), (message,))
        return None

    accepted = await house.accept("tidy")
    await house.gates.arrived("tidy")
    await house.engine.cancel_session("ses_1")
    run = await house.ended(accepted)
    assert (run.state, run.reason, run.text) == ("cancelled", "user_cancel", "Once upon a time")
    _, assistant = await house.messages()
    assert assistant.parts == (Text("Once upon a time"), Finish("cancelled"))


@pytest.mark.promise("C8", "R8", "W4")
async def test_what_the_run_still_asked_of_a_person_is_closed_with_its_end(house: House) -> None:
    @house.turns.on("ask")
    async def ask(actor: Actor) -> Ending | None:
        handle = actor.handle
        common = {"workspace_id": WORKSPACE, "session_id": "ses_1", "root_session_id": "ses_1", "run_id": handle.run.id}
        approval = Approval(id="apr_1", call_id="call_1", tool="bash", title="rm", **common)
        question = Question(id="qst_1", call_id="call_2", items=(QuestionItem("why?"),), **common)
        await handle.commit(
            [OpenApproval(approval), OpenQuestion(question)],
            [ApprovalRequested(handle.now(), "ses_1", approval), QuestionAsked(handle.now(), "ses_1", question)],
        )
        await actor.gate("asking")
        return None

    await house.accept("ask")
    await house.gates.arrived("asking")
    await house.engine.cancel_session("ses_1")
    assert (await house.store.open_approvals(workspace_id=WORKSPACE)).items == ()
    assert (await house.store.open_questions(workspace_id=WORKSPACE)).items == ()
    events = await house.events()
    closed = [type(event) for event in events if isinstance(event, ApprovalResolved | QuestionResolved)]
    assert closed == [ApprovalResolved, QuestionResolved]


@pytest.mark.promise("C9")
async def test_a_turn_that_fails_while_it_is_being_cancelled_is_still_cancelled_not_failed(house: House) -> None:
    @house.turns.on("clumsy")
    async def clumsy(actor: Actor) -> Ending | None:
        try:
            await actor.gate("clumsy")
        finally:
            raise RuntimeError("stumbled over its own clean-up")

    accepted = await house.accept("clumsy")
    await house.gates.arrived("clumsy")
    await house.engine.cancel_session("ses_1")
    run = await house.ended(accepted)
    assert (run.state, run.reason, run.error) == ("cancelled", "user_cancel", None)


@pytest.mark.promise("R14", "C1")
async def test_a_cancel_that_cannot_be_written_stops_nothing(tmp_path: Path) -> None:
    async with opened(tmp_path / "own.db", seam=True) as house:
        await house.session()
        house.turns.scripts["work"] = working
        assert isinstance(house.store, LedgerSeam)
        accepted = await house.accept("work")
        await house.gates.arrived("working")
        house.store.refuse()
        with pytest.raises(StoreUnwritable):
            await house.engine.cancel_session("ses_1")
        house.store.refusing = None
        assert (await house.engine.get_run(accepted.run.id)).state == "active"
        house.gates.open("working")
        assert (await house.ended(accepted)).state == "completed"
        assert len(house.engine._state.end_waiters) <= 1


@pytest.mark.promise("E8")
async def test_deleting_a_busy_session_stops_it_first(house: House) -> None:
    accepted = await house.accept("work")
    await house.gates.arrived("working")
    queued = await house.accept("queued")
    receipt = await house.engine.delete_session("ses_1")
    assert lines(receipt) == [("work", "active", "cancelled"), ("queued", "queued", "cancelled")]
    assert {line.reason for line in receipt.runs} == {"session_deleted"}
    for run_id in (accepted.run.id, queued.run.id):
        with pytest.raises(Gone):
            await house.engine.wait_run(run_id, timeout=0)
    with pytest.raises(Gone):
        await house.accept("more")
    with pytest.raises(Gone):
        await house.engine.delete_session("ses_1")
    record = await house.store.run_record(accepted.run.id)
    assert record is not None
    assert (record.run.state, record.run.prompt) == ("cancelled", "")


@pytest.mark.promise("R9")
async def test_whoever_waits_for_a_run_of_a_session_that_is_deleted_is_told(house: House) -> None:
    accepted = await house.accept("work")
    await house.gates.arrived("working")
    waiting = asyncio.create_task(house.ended(accepted))
    await house.until(lambda: len(house.engine._state.end_waiters) == 1)
    await house.engine.delete_session("ses_1")
    with pytest.raises(Gone):
        await waiting
