"""What a turn is told about the start of its run is what the database has."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import UNSET

from holdfast.agent.protocol import Ending, StartRecord
from holdfast.schema.messages import File
from holdfast.schema.runs import RunRequest
from tests.support.engine_harness import WORKSPACE, EngineHarness
from tests.support.scripted_turns import TurnActions, answer_prompt

PATH = {"PATH": "/usr/bin"}


class _Records:
    """Notes for each turn, when it begins, its record and what the database says."""

    def __init__(self, harness: EngineHarness, *prompts: str) -> None:
        self._store = harness.store
        self.told: dict[str, StartRecord] = {}
        self.stored: dict[str, StartRecord] = {}
        for prompt in prompts:
            harness.turns.scripts[prompt] = self._note

    async def _note(self, turn: TurnActions) -> Ending | None:
        run = turn.run
        self.told[run.prompt] = turn.handle.started_with
        self.stored[run.prompt] = StartRecord(
            variables=await self._store.environment_of_run(run.id),
            messages=await self._store.messages_since_summary(run.session_id),
        )
        return await answer_prompt(turn)


async def accept_first(harness: EngineHarness, prompt: str, **fields: Any) -> str:
    request = RunRequest(prompt=prompt, **fields)
    accepted = await harness.engine.accept_in_new_session(WORKSPACE, request, client="", body_hash=prompt)
    await harness.ended(accepted)
    return accepted.run.session_id


@pytest.mark.promise("R15")
@pytest.mark.parametrize("environment", [None, PATH])
async def test_a_run_that_begins_its_session_knows_its_variables_and_messages(
    harness: EngineHarness, environment: dict[str, str] | None
) -> None:
    records = _Records(harness, "first")
    attached = (File("notes.txt", "text/plain", "a note", None),)
    await accept_first(harness, "first", environment=environment, attachments=attached)
    assert records.told["first"] == records.stored["first"]
    assert records.told["first"].variables == environment
    assert [message.seq for message in records.told["first"].messages or ()] == [1]


@pytest.mark.promise("R15")
async def test_a_later_run_knows_only_what_was_sent_with_it(harness: EngineHarness) -> None:
    records = _Records(harness, "first", "second", "third")
    session_id = await accept_first(harness, "first", environment={"PATH": "/bin"})
    await harness.ended(await harness.accept("second", session_id=session_id))
    await harness.ended(await harness.accept("third", session_id=session_id, environment=PATH))
    assert records.told["second"] == StartRecord(variables=UNSET)
    assert records.stored["second"].variables == {"PATH": "/bin"}
    assert records.told["third"] == StartRecord(variables=PATH)
    assert records.stored["third"].variables == PATH


async def test_a_run_that_was_queued_reads_everything(harness: EngineHarness) -> None:
    async def wait(turn: TurnActions) -> Ending | None:
        await turn.gate("first")
        return await answer_prompt(turn)

    records = _Records(harness, "second")
    harness.turns.scripts["first"] = wait
    await harness.accept("first")
    queued = await harness.accept("second", environment=PATH)
    harness.gates.open("first")
    await harness.ended(queued)
    assert records.told["second"] == StartRecord()
    assert records.stored["second"].variables == PATH


@pytest.mark.promise("R15")
async def test_a_subagent_reads_the_variables_of_its_parent(harness: EngineHarness) -> None:
    async def delegate(turn: TurnActions) -> Ending | None:
        await (await turn.handle.start_subagent(RunRequest(prompt="part"), title="part")).ended()
        return await answer_prompt(turn)

    records = _Records(harness, "part")
    harness.turns.scripts["whole"] = delegate
    await accept_first(harness, "whole", environment=PATH)
    assert records.told["part"].variables is UNSET
    assert records.told["part"].messages == records.stored["part"].messages
