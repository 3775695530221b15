"""Every run gets exactly one end, whatever its turn does."""

import asyncio
from pathlib import Path

import pytest
from msgspec.structs import replace

from holdfast import errors
from holdfast.agent.protocol import Ending
from holdfast.errors import Conflict, ModelAuth
from holdfast.schema.events import RunFinished
from holdfast.schema.messages import Finish, Text
from holdfast.schema.runs import Ended, Outcome, Run
from holdfast.store.writes import UpdateRun
from tests.support.engine_harness import DEFAULT_LIMITS, EngineHarness, open_harness
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
