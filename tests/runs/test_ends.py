"""Every accepted run gets exactly one end, whatever its turn does, and the end can be read later."""

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
from tests.support.house import DEFAULT_LIMITS, House, LedgerSeam, opened
from tests.support.scripted import Actor


async def ends_of(house: House, run_id: str) -> list[Run]:
    return [event.run for event in await house.events() if isinstance(event, RunFinished) and event.run.id == run_id]


@pytest.mark.promise("R7")
async def test_an_error_after_the_commit_of_the_end_makes_no_second_end(house: House) -> None:
    @house.turns.on("late")
    async def late(actor: Actor) -> Ending | None:
        assert isinstance(await actor.finish("done"), Ended)
        raise RuntimeError("after the end")

    accepted = await house.accept("late")
    await house.ended(accepted)
    await house.quiet()
    (end,) = await ends_of(house, accepted.run.id)
    assert (end.state, end.reason, end.error) == ("completed", "end_turn", None)
    assert (await house.engine.get_run(accepted.run.id)).state == "completed"


@pytest.mark.promise("R7", "R5")
async def test_an_error_of_ours_after_the_commit_of_the_end_strands_nobody(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(session_id: str) -> None:
        raise RuntimeError("a bug in the hub")

    monkeypatch.setattr(house.hub, "close_session", broken)
    await house.engine.pause("ses_1")
    runs = [await house.accept("one"), await house.accept("two")]
    await house.engine.resume("ses_1")
    for accepted in runs:
        assert (await house.ended(accepted)).state == "completed"
        assert len(await ends_of(house, accepted.run.id)) == 1
    await house.quiet()


@pytest.mark.promise("R7")
async def test_a_turn_that_returns_an_ending_after_its_end_makes_no_second_end(house: House) -> None:
    @house.turns.on("twice")
    async def twice(actor: Actor) -> Ending | None:
        await actor.finish("done")
        return Ending(Outcome("failed", "provider"))

    accepted = await house.accept("twice")
    await house.ended(accepted)
    await house.quiet()
    (end,) = await ends_of(house, accepted.run.id)
    assert end.state == "completed"


@pytest.mark.promise("R7")
async def test_a_run_that_fails_before_its_turn_begins_gets_one_end_and_the_next_starts(house: House) -> None:
    house.turns.broken = ModelAuth("no key for provider 'x'")
    accepted = await house.accept("hello")
    run = await house.ended(accepted)
    assert (run.state, run.reason) == ("failed", "auth")
    assert run.error is not None
    assert run.error.message == "no key for provider 'x'"
    assert len(await ends_of(house, run.id)) == 1
    user, assistant = await house.messages()
    assert user.parts == (Text("hello"),)
    assert assistant.parts == (Finish("error", "no key for provider 'x'"),)
    house.turns.broken = None
    assert (await house.ended(await house.accept("again"))).state == "completed"


@pytest.mark.promise("R7", "R5", "R8")
async def test_whatever_way_a_run_ends_it_ends_once_and_the_next_one_starts(house: House) -> None:
    async def fails(actor: Actor) -> Ending | None:
        raise ValueError("a bug")

    async def forgets(actor: Actor) -> Ending | None:
        return None

    async def gives(actor: Actor) -> Ending | None:
        return Ending(Outcome("failed", "limit_steps"))

    async def cancels_itself(actor: Actor) -> Ending | None:
        raise asyncio.CancelledError

    async def in_mid_sentence(actor: Actor) -> Ending | None:
        await actor.say("I was just about to")
        raise errors.ModelNetwork("the line went dead")

    house.turns.scripts |= {
        "fails": fails,
        "forgets": forgets,
        "gives": gives,
        "cancels": cancels_itself,
        "speaks": in_mid_sentence,
    }
    await house.engine.pause("ses_1")
    runs = [await house.accept(word) for word in ("fails", "forgets", "gives", "cancels", "speaks", "hello")]
    await house.engine.resume("ses_1")
    ended = [await house.ended(run) for run in runs]
    assert [(run.state, run.reason) for run in ended] == [
        ("failed", "internal"),
        ("failed", "internal"),
        ("failed", "limit_steps"),
        ("failed", "internal"),
        ("failed", "network"),
        ("completed", "end_turn"),
    ]
    for run in ended:
        assert len(await ends_of(house, run.id)) == 1
    spoken = ended[4]
    assert spoken.text == "I was just about to"
    finishes = [message.parts[-1] for message in await house.messages() if message.role == "assistant"]
    assert [finish.reason for finish in finishes if isinstance(finish, Finish)] == [
        "error",
        "error",
        "limit",
        "error",
        "error",
        "end_turn",
    ]


@pytest.mark.promise("R5")
async def test_a_run_that_wants_its_predecessors_success_waits_when_it_did_not_succeed(house: House) -> None:
    @house.turns.on("fails")
    async def fails(actor: Actor) -> Ending | None:
        await actor.gate("fail")
        raise errors.ModelRefused("no")

    await house.accept("fails")
    careful = await house.accept("careful", after="success")
    house.gates.open("fail")
    await house.until(lambda: house.engine.count_active() == 0)
    queue = await house.engine.queue("ses_1")
    assert (queue.paused, queue.run_ids) == ("predecessor", (careful.run.id,))
    await house.engine.resume("ses_1")
    assert (await house.ended(careful)).state == "completed"


@pytest.mark.promise("R8", "E5")
async def test_the_last_message_is_told_before_the_end_and_in_the_same_commit(house: House) -> None:
    told: list[tuple[str, ...]] = []
    house.store.listen(lambda events: told.append(tuple(event.kind for event in events)))
    await house.ended(await house.accept("hello"))
    assert told[-1] == ("message.finished", "run.finished")


@pytest.mark.promise("R8")
async def test_the_end_does_not_wait_for_a_turn_that_lingers_nor_for_its_successor(house: House) -> None:
    refused: list[str] = []

    @house.turns.on("lingers")
    async def lingers(actor: Actor) -> Ending | None:
        await actor.finish("done")
        await actor.gates.pass_through("lingering")
        with pytest.raises(Conflict) as caught:
            await actor.say("one more thing")
        refused.append(caught.value.error_code)
        return None

    @house.turns.on("next")
    async def following(actor: Actor) -> Ending | None:
        await actor.gate("next")
        await actor.finish("done")
        return None

    first = await house.accept("lingers")
    second = await house.accept("next")
    assert (await house.ended(first)).state == "completed"
    await house.gates.arrived("next")
    assert (await house.engine.get_run(second.run.id)).state == "active"
    house.gates.open("lingering")
    await house.until(lambda: refused == ["run_over"])
    house.gates.open("next")
    await house.ended(second)


@pytest.mark.promise("R7", "R8")
async def test_a_turn_that_lingers_too_long_after_its_end_is_cancelled(tmp_path: Path) -> None:
    async with opened(tmp_path / "own.db", limits=replace(DEFAULT_LIMITS, stop_seconds=0.01)) as house:
        await house.session()
        cancelled = asyncio.Event()

        @house.turns.on("lingers")
        async def lingers(actor: Actor) -> Ending | None:
            await actor.finish("done")
            try:
                await actor.gates.pass_through("for ever")
            finally:
                cancelled.set()
            return None

        accepted = await house.accept("lingers")
        await cancelled.wait()
        await house.quiet()
        assert len(await ends_of(house, accepted.run.id)) == 1


@pytest.mark.promise("R9")
async def test_the_end_can_be_waited_for_by_many_and_read_by_latecomers(house: House) -> None:
    @house.turns.on("wait")
    async def wait(actor: Actor) -> Ending | None:
        await actor.gate("go")
        await actor.finish("done")
        return None

    accepted = await house.accept("wait")
    waiting = [asyncio.create_task(house.ended(accepted)) for _ in range(10)]
    assert (await house.engine.wait_run(accepted.run.id, timeout=0)).state == "active"
    await house.gates.arrived("go")
    house.gates.open("go")
    assert {run.state for run in await asyncio.gather(*waiting)} == {"completed"}
    assert (await house.engine.wait_run(accepted.run.id, timeout=0)).text == "done"
    with pytest.raises(NotFound):
        await house.engine.wait_run("run_no", timeout=1)


@pytest.mark.promise("R9")
async def test_waiting_ends_when_its_time_is_over(house: House) -> None:
    @house.turns.on("wait")
    async def wait(actor: Actor) -> Ending | None:
        await actor.gate("go")
        await actor.finish("done")
        return None

    accepted = await house.accept("wait")
    assert (await house.engine.wait_run(accepted.run.id, timeout=0.01)).state == "active"
    house.gates.open("go")
    await house.ended(accepted)


async def test_what_a_run_does_now_is_shown_while_it_does_it(house: House) -> None:
    @house.turns.on("wait")
    async def wait(actor: Actor) -> Ending | None:
        actor.handle.progress("approval", "bash: rm -rf build")
        await actor.gates.pass_through("go")
        await actor.finish("done")
        return None

    accepted = await house.accept("wait")
    await house.gates.arrived("go")
    now = (await house.engine.get_run(accepted.run.id)).now
    assert now is not None
    assert (now.phase, now.what) == ("approval", "bash: rm -rf build")
    house.gates.open("go")
    assert (await house.ended(accepted)).now is None


@pytest.mark.promise("E3", "E5")
async def test_live_text_and_progress_reach_whoever_watches_and_end_with_the_run(house: House) -> None:
    seats: list[Actor] = []

    @house.turns.on("talk")
    async def talk(actor: Actor) -> Ending | None:
        seats.append(actor)
        await actor.say("Once ")
        await actor.gate("midway")
        await actor.say("more")
        await actor.finish()
        return None

    accepted = await house.accept("talk")
    await house.gates.arrived("midway")
    seen: list[str] = []
    with house.hub.subscribe(session_id="ses_1") as stream:
        async for item in stream:
            seen.append(item.kind)
            if item.kind == "snapshot":
                house.gates.open("midway")
            if item.kind == "run.finished":
                break
        message_id = (await house.ended(accepted)).message_id
        assert message_id is not None
        seats[0].handle.delta(message_id, 0, text="too late")
        seats[0].handle.progress("tool", "too late")
        house.hub.send_heartbeat()
        async for item in stream:
            seen.append(item.kind)
            if item.kind == "heartbeat":
                break
    assert seen[:2] == ["hello", "snapshot"]
    assert {"delta", "run.progress"} <= set(seen)
    assert seen[-3:] == ["message.finished", "run.finished", "heartbeat"]


async def test_usage_is_added_up_over_steps_in_the_run_and_in_the_session(house: House) -> None:
    @house.turns.on("steps")
    async def steps(actor: Actor) -> Ending | None:
        await actor.tool("look")
        await actor.tool("look")
        assert actor.run.steps == 2
        await actor.finish("done")
        return None

    run = await house.ended(await house.accept("steps"))
    assert (run.steps, run.usage.input, run.usage.output) == (3, 30, 7)
    assert (await house.store.session("ses_1")).usage == run.usage
    (day,) = await house.store.usage_stats(since="2000-01-01", until="2999-01-01")
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
async def test_a_turn_cannot_write_what_is_the_lanes(house: House, write: Any) -> None:
    caught: list[Exception] = []

    @house.turns.on("meddles")
    async def meddles(actor: Actor) -> Ending | None:
        try:
            await actor.handle.commit([write])
        except TypeError as error:
            caught.append(error)
        await actor.finish("done")
        return None

    assert (await house.ended(await house.accept("meddles"))).state == "completed"
    assert len(caught) == 1


@pytest.mark.promise("R7", "C6")
async def test_an_ending_that_the_ledger_will_not_take_is_written_with_less(house: House) -> None:
    @house.turns.on("spoiled")
    async def spoiled(actor: Actor) -> Ending | None:
        await actor.say("kept")
        stray = UpdateRun(run_id="run_no", steps=1)
        return Ending(Outcome("completed", "end_turn", text="kept"), (actor.closed(),), (stray,))

    run = await house.ended(await house.accept("spoiled"))
    assert (run.state, run.text) == ("completed", "kept")
    assert len(await ends_of(house, run.id)) == 1


@pytest.mark.promise("R7", "C6")
async def test_an_ending_that_cannot_even_be_encoded_does_not_keep_the_run_from_ending(house: House) -> None:
    @house.turns.on("garbled")
    async def garbled(actor: Actor) -> Ending | None:
        await actor.say("kept")
        return Ending(Outcome("failed", "provider"), (actor.new_message(Text("\ud800"), Finish("error")),))

    run = await house.ended(await house.accept("garbled"))
    assert (run.state, run.reason, run.text) == ("failed", "provider", "kept")
    assert (await house.messages())[-1].parts == (Text("kept"), Finish("error"))


async def test_a_commit_that_is_under_way_when_the_cancel_comes_is_known_before_the_turn_stops(tmp_path: Path) -> None:
    async with opened(tmp_path / "own.db", seam=True) as house:
        await house.session()
        assert isinstance(house.store, LedgerSeam)
        ledger, known = house.store, list[int]()

        @house.turns.on("commits")
        async def commits(actor: Actor) -> Ending | None:
            first = asyncio.ensure_future(actor.handle.commit([PutMessage(actor.new_message(Text("first")))]))
            await actor.gates.pass_through("cancel is posted")
            try:
                await actor.handle.commit([PutMessage(actor.new_message(Text("second")))])
            finally:
                known.append(ledger.committed - before)
                await first
            return None

        await house.accept("commits")
        ledger.open.clear()
        before = ledger.committed
        await house.gates.arrived("cancel is posted")
        cancelling = asyncio.create_task(house.engine.cancel_session("ses_1"))
        mailbox = house.engine._state.mailboxes["ses_1"]
        await house.until(lambda: len(mailbox._requests) == 2)
        house.gates.open("cancel is posted")
        await house.until(lambda: len(mailbox._requests) == 3)
        ledger.open.set()
        await cancelling
        assert known == [3], "the first message, the cancel and the second message are written, and the turn knows it"
        said = [message.parts[0] for message in await house.messages() if message.role == "assistant"]
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


async def test_messages_of_a_boundary_are_told_as_finished_also_when_somebody_joins(house: House) -> None:
    @house.turns.on("host")
    async def host(actor: Actor) -> Ending | None:
        await actor.gate("before")
        crossing = await actor.finish("first answer")
        assert isinstance(crossing, GoOn)
        await actor.finish("second answer")
        return None

    await house.accept("host")
    await house.gates.arrived("before")
    steer = await house.accept("more", delivery="steer")
    house.gates.open("before")
    await house.ended(steer)
    finished = [event.message for event in await house.events() if isinstance(event, MessageFinished)]
    assert [message.parts[0] for message in finished] == [Text("first answer"), Text("second answer")]
