"""Every run gets exactly one end, whatever its turn does."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from holdfast import errors
from holdfast.agent.protocol import Ending
from holdfast.agent.run_outcome import outcome_of
from holdfast.errors import Conflict, HoldfastError, ModelAuth, NotFound
from holdfast.schema.events import MessageFinished, RunFinished
from holdfast.schema.messages import Finish, Text
from holdfast.schema.runs import Ended, GoOn, Outcome, Run
from holdfast.store.writes import EndRun, PutMessage, SetLane, UpdateRun
from tests.support.engine_harness import DEFAULT_LIMITS, ControlledStore, EngineHarness, open_harness
from tests.support.scripted_turns import TurnActions


async def ends_of(harness: EngineHarness, run_id: str) -> list[Run]:
    return [event.run for event in await harness.events() if isinstance(event, RunFinished) and event.run.id == run_id]


@pytest.mark.promise("R7")
async def test_an_error_after_the_commit_of_the_end_makes_no_second_end(harness: EngineHarness) -> None:
    @harness.turns.on("late")
    async def late(turn: TurnActions) -> Ending | None:
        assert isinstance(await turn.finish("done"), Ended)
        raise RuntimeError("after the end")

    accepted = await harness.accept("late")
    await harness.ended(accepted)
    await harness.quiet()
    (end,) = await ends_of(harness, accepted.run.id)
    assert (end.state, end.reason, end.error) == ("completed", "end_turn", None)
    assert (await harness.engine.get_run(accepted.run.id)).state == "completed"


@pytest.mark.promise("R7", "R5")
async def test_an_internal_error_after_the_commit_of_an_end_does_not_block_the_queue(
    harness: EngineHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(session_id: str) -> None:
        raise RuntimeError("a bug in the hub")

    monkeypatch.setattr(harness.hub, "close_session", broken)
    await harness.engine.pause("ses_1")
    runs = [await harness.accept("one"), await harness.accept("two")]
    await harness.engine.resume("ses_1")
    for accepted in runs:
        assert (await harness.ended(accepted)).state == "completed"
        assert len(await ends_of(harness, accepted.run.id)) == 1
    await harness.quiet()


@pytest.mark.promise("R7")
async def test_an_ending_returned_after_the_end_of_the_run_makes_no_second_end(harness: EngineHarness) -> None:
    @harness.turns.on("twice")
    async def twice(turn: TurnActions) -> Ending | None:
        await turn.finish("done")
        return Ending(Outcome("failed", "provider"))

    accepted = await harness.accept("twice")
    await harness.ended(accepted)
    await harness.quiet()
    (end,) = await ends_of(harness, accepted.run.id)
    assert end.state == "completed"


@pytest.mark.promise("R7")
async def test_a_run_that_fails_before_its_turn_begins_gets_one_end_and_the_next_starts(harness: EngineHarness) -> None:
    harness.turns.broken = ModelAuth("no key for provider 'x'")
    accepted = await harness.accept("hello")
    run = await harness.ended(accepted)
    assert (run.state, run.reason) == ("failed", "auth")
    assert run.error is not None
    assert run.error.message == "no key for provider 'x'"
    assert len(await ends_of(harness, run.id)) == 1
    user, assistant = await harness.messages()
    assert user.parts == (Text("hello"),)
    assert assistant.parts == (Finish("error", "no key for provider 'x'"),)
    harness.turns.broken = None
    assert (await harness.ended(await harness.accept("again"))).state == "completed"


@pytest.mark.promise("R7", "R5", "R8")
async def test_every_kind_of_end_is_written_once_and_the_next_run_starts(harness: EngineHarness) -> None:
    async def fails(turn: TurnActions) -> Ending | None:
        raise ValueError("a bug")

    async def forgets(turn: TurnActions) -> Ending | None:
        return None

    async def gives(turn: TurnActions) -> Ending | None:
        return Ending(Outcome("failed", "limit_steps"))

    async def cancels_itself(turn: TurnActions) -> Ending | None:
        raise asyncio.CancelledError

    async def in_mid_sentence(turn: TurnActions) -> Ending | None:
        await turn.say("I was just about to")
        raise errors.ModelNetwork("the line went dead")

    harness.turns.scripts |= {
        "fails": fails,
        "forgets": forgets,
        "gives": gives,
        "cancels": cancels_itself,
        "speaks": in_mid_sentence,
    }
    await harness.engine.pause("ses_1")
    runs = [await harness.accept(word) for word in ("fails", "forgets", "gives", "cancels", "speaks", "hello")]
    await harness.engine.resume("ses_1")
    ended = [await harness.ended(run) for run in runs]
    assert [(run.state, run.reason) for run in ended] == [
        ("failed", "internal"),
        ("failed", "internal"),
        ("failed", "limit_steps"),
        ("failed", "internal"),
        ("failed", "network"),
        ("completed", "end_turn"),
    ]
    for run in ended:
        assert len(await ends_of(harness, run.id)) == 1
    spoken = ended[4]
    assert spoken.text == "I was just about to"
    finishes = [message.parts[-1] for message in await harness.messages() if message.role == "assistant"]
    assert [finish.reason for finish in finishes if isinstance(finish, Finish)] == [
        "error",
        "error",
        "limit",
        "error",
        "error",
        "end_turn",
    ]


@pytest.mark.promise("R5")
async def test_after_success_waits_if_the_predecessor_failed(harness: EngineHarness) -> None:
    @harness.turns.on("fails")
    async def fails(turn: TurnActions) -> Ending | None:
        await turn.gate("fail")
        raise errors.ModelRefused("no")

    await harness.accept("fails")
    careful = await harness.accept("careful", after="success")
    harness.gates.open("fail")
    await harness.until(lambda: harness.engine.count_active() == 0)
    queue = await harness.engine.queue("ses_1")
    assert (queue.paused, queue.run_ids) == ("predecessor", (careful.run.id,))
    await harness.engine.resume("ses_1")
    assert (await harness.ended(careful)).state == "completed"


@pytest.mark.promise("R8", "E5")
async def test_the_last_message_is_published_before_the_end_in_the_same_commit(harness: EngineHarness) -> None:
    told: list[tuple[str, ...]] = []
    harness.store.listen(lambda events: told.append(tuple(event.kind for event in events)))
    await harness.ended(await harness.accept("hello"))
    assert told[-1] == ("message.finished", "run.finished")


@pytest.mark.promise("R8")
async def test_the_end_does_not_wait_for_a_turn_that_continues_or_for_the_next_run(harness: EngineHarness) -> None:
    refused: list[str] = []

    @harness.turns.on("lingers")
    async def lingers(turn: TurnActions) -> Ending | None:
        await turn.finish("done")
        await turn.gates.pass_through("lingering")
        with pytest.raises(Conflict) as caught:
            await turn.say("one more thing")
        refused.append(caught.value.error_code)
        return None

    @harness.turns.on("next")
    async def following(turn: TurnActions) -> Ending | None:
        await turn.gate("next")
        await turn.finish("done")
        return None

    first = await harness.accept("lingers")
    second = await harness.accept("next")
    assert (await harness.ended(first)).state == "completed"
    await harness.gates.arrived("next")
    assert (await harness.engine.get_run(second.run.id)).state == "active"
    harness.gates.open("lingering")
    await harness.until(lambda: refused == ["run_over"])
    harness.gates.open("next")
    await harness.ended(second)


@pytest.mark.promise("R7", "R8")
async def test_a_turn_that_continues_too_long_after_the_end_is_cancelled(tmp_path: Path) -> None:
    async with open_harness(tmp_path / "own.db", limits=replace(DEFAULT_LIMITS, stop_seconds=0.01)) as harness:
        await harness.session()
        cancelled = asyncio.Event()

        @harness.turns.on("lingers")
        async def lingers(turn: TurnActions) -> Ending | None:
            await turn.finish("done")
            try:
                await turn.gates.pass_through("for ever")
            finally:
                cancelled.set()
            return None

        accepted = await harness.accept("lingers")
        await cancelled.wait()
        await harness.quiet()
        assert len(await ends_of(harness, accepted.run.id)) == 1


@pytest.mark.promise("R9")
async def test_many_callers_can_wait_for_the_end_and_later_callers_can_read_it(harness: EngineHarness) -> None:
    @harness.turns.on("wait")
    async def wait(turn: TurnActions) -> Ending | None:
        await turn.gate("go")
        await turn.finish("done")
        return None

    accepted = await harness.accept("wait")
    waiting = [asyncio.create_task(harness.ended(accepted)) for _ in range(10)]
    assert (await harness.engine.wait_run(accepted.run.id, timeout=0)).state == "active"
    await harness.gates.arrived("go")
    harness.gates.open("go")
    assert {run.state for run in await asyncio.gather(*waiting)} == {"completed"}
    assert (await harness.engine.wait_run(accepted.run.id, timeout=0)).text == "done"
    with pytest.raises(NotFound):
        await harness.engine.wait_run("run_no", timeout=1)


@pytest.mark.promise("R9")
async def test_waiting_for_a_run_ends_after_the_timeout(harness: EngineHarness) -> None:
    @harness.turns.on("wait")
    async def wait(turn: TurnActions) -> Ending | None:
        await turn.gate("go")
        await turn.finish("done")
        return None

    accepted = await harness.accept("wait")
    assert (await harness.engine.wait_run(accepted.run.id, timeout=0.01)).state == "active"
    harness.gates.open("go")
    await harness.ended(accepted)


async def test_a_run_shows_what_it_is_doing(harness: EngineHarness) -> None:
    @harness.turns.on("wait")
    async def wait(turn: TurnActions) -> Ending | None:
        turn.handle.progress("approval", "bash: rm -rf build")
        await turn.gates.pass_through("go")
        await turn.finish("done")
        return None

    accepted = await harness.accept("wait")
    await harness.gates.arrived("go")
    now = (await harness.engine.get_run(accepted.run.id)).now
    assert now is not None
    assert (now.phase, now.what) == ("approval", "bash: rm -rf build")
    harness.gates.open("go")
    assert (await harness.ended(accepted)).now is None


@pytest.mark.promise("E3", "E5")
async def test_subscribers_get_text_and_progress_until_the_run_ends(harness: EngineHarness) -> None:
    kept: list[TurnActions] = []

    @harness.turns.on("talk")
    async def talk(turn: TurnActions) -> Ending | None:
        kept.append(turn)
        await turn.say("Once ")
        await turn.gate("midway")
        await turn.say("more")
        await turn.finish()
        return None

    accepted = await harness.accept("talk")
    await harness.gates.arrived("midway")
    seen: list[str] = []
    with harness.hub.subscribe(session_id="ses_1") as stream:
        async for item in stream:
            seen.append(item.kind)
            if item.kind == "snapshot":
                harness.gates.open("midway")
            if item.kind == "run.finished":
                break
        message_id = (await harness.ended(accepted)).message_id
        assert message_id is not None
        kept[0].handle.delta(message_id, 0, text="too late")
        kept[0].handle.progress("tool", "too late")
        harness.hub.send_heartbeat()
        async for item in stream:
            seen.append(item.kind)
            if item.kind == "heartbeat":
                break
    assert seen[:2] == ["hello", "snapshot"]
    assert {"delta", "run.progress"} <= set(seen)
    assert seen[-3:] == ["message.finished", "run.finished", "heartbeat"]


async def test_usage_is_summed_over_steps_in_the_run_and_the_session(harness: EngineHarness) -> None:
    @harness.turns.on("steps")
    async def steps(turn: TurnActions) -> Ending | None:
        await turn.tool("look")
        await turn.tool("look")
        assert turn.run.steps == 2
        await turn.finish("done")
        return None

    run = await harness.ended(await harness.accept("steps"))
    assert (run.steps, run.usage.input, run.usage.output) == (3, 30, 7)
    assert (await harness.store.session("ses_1")).usage == run.usage
    (day,) = await harness.store.usage_stats(since="2000-01-01", until="2999-01-01")
    assert (day.runs, day.steps, day.usage) == (1, 3, run.usage)


@pytest.mark.parametrize(
    "write",
    [
        EndRun(run_id="x", outcome=Outcome("completed", "end_turn"), finished_at=""),
        UpdateRun(run_id="x", state="queued"),
        SetLane(None),  # type: ignore[arg-type]
    ],
)
@pytest.mark.promise("R4")
async def test_a_turn_cannot_write_what_only_the_lane_writes(harness: EngineHarness, write: Any) -> None:
    caught: list[Exception] = []

    @harness.turns.on("meddles")
    async def meddles(turn: TurnActions) -> Ending | None:
        try:
            await turn.handle.commit([write])
        except TypeError as error:
            caught.append(error)
        await turn.finish("done")
        return None

    assert (await harness.ended(await harness.accept("meddles"))).state == "completed"
    assert len(caught) == 1


@pytest.mark.promise("R7", "C6")
async def test_an_ending_that_the_store_refuses_is_written_with_less(harness: EngineHarness) -> None:
    @harness.turns.on("spoiled")
    async def spoiled(turn: TurnActions) -> Ending | None:
        await turn.say("kept")
        stray = UpdateRun(run_id="run_no", steps=1)
        return Ending(Outcome("completed", "end_turn", text="kept"), (turn.closed(),), (stray,))

    run = await harness.ended(await harness.accept("spoiled"))
    assert (run.state, run.text) == ("completed", "kept")
    assert len(await ends_of(harness, run.id)) == 1


@pytest.mark.promise("R7", "C6")
async def test_a_run_ends_even_if_its_ending_cannot_be_encoded(harness: EngineHarness) -> None:
    @harness.turns.on("garbled")
    async def garbled(turn: TurnActions) -> Ending | None:
        await turn.say("kept")
        return Ending(Outcome("failed", "provider"), (turn.new_message(Text("\ud800"), Finish("error")),))

    run = await harness.ended(await harness.accept("garbled"))
    assert (run.state, run.reason, run.text) == ("failed", "provider", "kept")
    assert (await harness.messages())[-1].parts == (Text("kept"), Finish("error"))


async def test_a_turn_knows_the_result_of_a_commit_that_a_cancel_interrupts(tmp_path: Path) -> None:
    async with open_harness(tmp_path / "own.db", controlled=True) as harness:
        await harness.session()
        assert isinstance(harness.store, ControlledStore)
        ledger, known = harness.store, list[int]()

        @harness.turns.on("commits")
        async def commits(turn: TurnActions) -> Ending | None:
            first = asyncio.ensure_future(turn.handle.commit([PutMessage(turn.new_message(Text("first")))]))
            await turn.gates.pass_through("cancel is posted")
            try:
                await turn.handle.commit([PutMessage(turn.new_message(Text("second")))])
            finally:
                known.append(ledger.committed - before)
                await first
            return None

        await harness.accept("commits")
        ledger.open.clear()
        before = ledger.committed
        await harness.gates.arrived("cancel is posted")
        cancelling = asyncio.create_task(harness.engine.cancel_session("ses_1"))
        mailbox = harness.engine._state.mailboxes["ses_1"]
        await harness.until(lambda: len(mailbox._requests) == 2)
        harness.gates.open("cancel is posted")
        await harness.until(lambda: len(mailbox._requests) == 3)
        ledger.open.set()
        await cancelling
        assert known == [3], "the first message, the cancel and the second message are written, and the turn knows it"
        said = [message.parts[0] for message in await harness.messages() if message.role == "assistant"]
        assert said[:2] == [Text("first"), Text("second")]


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (errors.ModelAuth("x"), "auth"),
        (errors.ModelRateLimit("x"), "rate_limit"),
        (errors.ModelOverloaded("x"), "provider"),
        (errors.ModelContext("x"), "context"),
        (errors.ModelRefused("x"), "refused"),
        (errors.ModelInvalid("x"), "provider"),
        (errors.ModelNetwork("x"), "network"),
        (errors.ModelStall("x"), "stall"),
        (errors.ModelMalformed("x"), "provider"),
        (errors.StoreUnwritable("x"), "store"),
        (errors.StoreConflict("x"), "store"),
        (errors.NoModel("x"), "no_model"),
        (errors.ToolError("x"), "tool"),
        (errors.BadRequest("x"), "internal"),
        (KeyError("x"), "internal"),
    ],
)
def test_each_error_ends_a_run_with_its_own_reason(error: Exception, reason: str) -> None:
    outcome = outcome_of(error)
    assert (outcome.state, outcome.reason) == ("failed", reason)
    assert outcome.error is not None
    if isinstance(error, HoldfastError):
        assert (outcome.error.code, outcome.error.message) == (error.error_code, "x")
    else:
        assert outcome.error.code == "internal"


async def test_messages_of_a_boundary_are_published_as_finished_if_a_steer_joins(harness: EngineHarness) -> None:
    @harness.turns.on("host")
    async def host(turn: TurnActions) -> Ending | None:
        await turn.gate("before")
        crossing = await turn.finish("first answer")
        assert isinstance(crossing, GoOn)
        await turn.finish("second answer")
        return None

    await harness.accept("host")
    await harness.gates.arrived("before")
    steer = await harness.accept("more", delivery="steer")
    harness.gates.open("before")
    await harness.ended(steer)
    finished = [event.message for event in await harness.events() if isinstance(event, MessageFinished)]
    assert [message.parts[0] for message in finished] == [Text("first answer"), Text("second answer")]
