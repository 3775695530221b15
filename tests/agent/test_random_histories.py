"""Sessions that have been through everything: each request that is ever made of them is one every provider takes (C6).

A world is one session on a real ledger with the real engine and turn. It is prompted, cancelled, crashed and recovered,
retried, steered, compacted, forked and given to another vendor's model, at places that chance chooses.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from holdfast.ids import Ids
from holdfast.models.model_script import (
    ScriptAction,
    ScriptedCall,
    ScriptedFailure,
    ScriptedReasoning,
    ScriptedStop,
    ScriptedText,
    ScriptedUsage,
)
from holdfast.schema.messages import File
from holdfast.schema.runs import END_STATES
from holdfast.schema.sessions import Workspace
from holdfast.schema.usage import Usage
from holdfast.services.session_service import SessionService
from holdfast.store import Batch, open_store
from holdfast.store.writes import PutWorkspace
from holdfast.testing import WIRES
from tests.support.engine_harness import LONG_LIMITS, WORKSPACE, EngineHarness
from tests.support.interruption import InterruptedStore, InterruptedTurns, Interrupter
from tests.support.log_consistency import check_log_matches_tables
from tests.support.real_turns import turn_limits
from tests.support.vendor_models import VendorModel
from tests.support.wire_rules import check_every_wire

IMAGE = File("a.png", "image/png", data="aGk=")
TEXT = File("a.txt", "text/plain", text="what I want")
PLACES = 60
"""About as many as a short run has."""


class World:
    def __init__(self, directory: Path, chance: random.Random) -> None:
        self.directory = directory
        self.chance = chance
        self.servers = 0
        self.session_id = "ses_1"
        self.log: list[str] = []
        self.checked = 0
        self.house: EngineHarness
        self.ledger: InterruptedStore

    async def open(self, database: str) -> None:
        store = await open_store(self.directory / database)
        if not await store.workspaces():
            await store.commit(Batch((PutWorkspace(Workspace(WORKSPACE, str(self.directory))),)))
        self.ledger = InterruptedStore(store)
        turns = InterruptedTurns(self.ledger, self._model(()), self.directory)  # type: ignore[arg-type]
        turns.limits = turn_limits(max_steps=6, max_seconds=60)
        turns.gates.open("z")
        self.house = EngineHarness(self.directory, self.ledger, turns=turns, limits=LONG_LIMITS)  # type: ignore[arg-type]
        await self.house.engine.recover()
        await self.house.engine.open_workspace(WORKSPACE)

    @property
    def turns(self) -> InterruptedTurns:
        assert isinstance(self.house.turns, InterruptedTurns)
        return self.house.turns

    async def live(self, deeds: int) -> None:
        await self.open("holdfast.db")
        await self.house.session()
        try:
            for _ in range(deeds):
                name = self.chance.choice(DEEDS)
                self.log.append(name)
                await getattr(self, name)()
            self.log.append("next prompt")
            await self.prompt()
            await check_log_matches_tables(self.house.store)
        finally:
            await self.house.close()

    def _model(self, answers: tuple[tuple[ScriptAction, ...], ...]) -> VendorModel:
        return VendorModel(self.chance.choice(WIRES), answers, window=100_000)

    def _script(self) -> VendorModel:
        """A few answers, of which any may go wrong; when they are used up, the model repeats what it heard."""
        return self._model(tuple(self._answer() for _ in range(self.chance.randint(1, 4))))

    def _answer(self) -> tuple[ScriptAction, ...]:
        acts: list[ScriptAction] = []
        if self.chance.random() < 0.5:
            acts.append(ScriptedReasoning("hm, let me see", opaque={"any": "thing"}))
        if self.chance.random() < 0.6:
            acts.append(ScriptedText(self.chance.choice(["I look.", " ", "Well\n"])))
        acts += [self._call() for _ in range(self.chance.choice([0, 1, 1, 2, 3]))]
        if self.chance.random() < 0.2:
            acts.append(ScriptedReasoning("and so", opaque={"any": "thing"}))
        acts.append(ScriptedUsage(Usage(input=self.chance.choice([100, 100, 100, 95_000]), output=5)))
        if self.chance.random() < 0.25:
            acts.append(ScriptedFailure(self.chance.choice(["overloaded", "network", "context", "auth", "garbage"])))
        elif self.chance.random() < 0.15:
            acts.append(ScriptedStop(self.chance.choice(["refused", "max_tokens", "end_turn"])))
        return tuple(acts)

    def _call(self) -> ScriptedCall:
        word = str(self.chance.randint(1, 9))
        return self.chance.choice(
            [
                ScriptedCall("echo", {"word": word}),
                ScriptedCall("alone", {"word": "z"}),
                ScriptedCall("broken", {"word": "tool"}),
                ScriptedCall("nothere"),
                ScriptedCall("echo", raw="{half"),
                ScriptedCall("child", {"word": "look"}),
            ]
        )

    async def prompt(self, act: Callable[[], Awaitable[Any]] | None = None, **fields: Any) -> None:
        """One run to its end; with an act at some place of it. Every request it makes is checked."""
        interrupter = Interrupter(self.chance.randrange(PLACES), act) if act else Interrupter()
        self.turns.interrupter = interrupter
        if act in (self._cancel_now, self._crash_now):
            self.ledger.interrupter = interrupter
        model = self.turns.model = self._script()
        self.turns.clock.limits.clear()
        if "kind" not in fields:
            fields["attachments"] = self.chance.choice([(), (), (IMAGE,), (TEXT,)])
        words = "" if fields.get("kind") or TEXT in fields["attachments"] else self.chance.choice(["do it", "and now"])
        house = self.house
        accepted = await house.accept(words, session_id=self.session_id, **fields)
        over = house.engine._state.end_waiters.expect(accepted.run.id)
        await asyncio.wait_for(over, 20)
        if interrupter.acting is not None:
            await interrupter.acting
        self.turns.interrupter = self.ledger.interrupter = Interrupter()
        await self._settled()
        for request in model.requests:
            check_every_wire(request)
            self.checked += 1

    async def _settled(self) -> None:
        """What was steered or queued has ended too."""
        for run in (await self.house.store.runs(self.session_id, limit=100)).items:
            if run.state not in END_STATES:
                await self.house.ended(run)

    async def cancelled(self) -> None:
        await self.prompt(self._cancel_now)

    async def _cancel_now(self) -> None:
        await self.house.engine.cancel_session(self.session_id)

    async def out_of_time(self) -> None:
        await self.prompt(self._time_is_over)

    async def _time_is_over(self) -> None:
        try:
            self.turns.clock.run_out(0)
        except (IndexError, RuntimeError):
            self.turns.interrupter.release()

    async def steered(self) -> None:
        await self.prompt(self._steer)

    async def _steer(self) -> None:
        await self.house.accept("and this too", session_id=self.session_id, delivery="steer")
        self.turns.interrupter.release()

    async def crashed(self) -> None:
        """The ledger as it was at some moment is all that the next server has."""
        self.servers += 1
        database = f"after-{self.servers}.db"
        await self.prompt(self._crash_now)
        if (self.directory / database).exists():
            await self.house.close()
            await self.open(database)
            await self._settled()

    async def _crash_now(self) -> None:
        await self.house.store.backup(self.directory / f"after-{self.servers}.db")
        await self.house.engine.cancel_session(self.session_id)

    async def compacted(self) -> None:
        await self.prompt(kind="compact")

    async def forked(self) -> None:
        messages = await self.house.messages(self.session_id)
        shared: Any = SimpleNamespace(store=self.house.store, ids=Ids(), now=lambda: "2026-01-01T00:00:00.000Z")
        at = self.chance.choice(messages).id if messages and self.chance.random() < 0.7 else None
        self.session_id = (await SessionService(shared).fork(self.session_id, message_id=at)).id


DEEDS = ["prompt", "prompt", "cancelled", "cancelled", "out_of_time", "steered", "crashed", "compacted", "forked"]


async def live(directory: Path, seed: int, *, deeds: int) -> int:
    world = World(directory, random.Random(seed))
    try:
        await world.live(deeds)
    except BaseException as error:
        error.add_note(f"seed {seed}: {', '.join(world.log)}")
        raise
    return world.checked


@pytest.mark.promise("C6", "C5")
@pytest.mark.parametrize("seed", range(12))
async def test_a_session_that_has_been_through_everything_takes_the_next_prompt(tmp_path: Path, seed: int) -> None:
    assert await live(tmp_path, seed, deeds=7) > 0


@pytest.mark.stress
@pytest.mark.timeout(1800)
async def test_many_sessions_that_have_been_through_everything(tmp_path: Path) -> None:
    checked = 0
    for seed in range(1000, 1400):
        directory = tmp_path / str(seed)
        directory.mkdir()
        checked += await live(directory, seed, deeds=10)
    print(f"\n{checked} requests of 400 sessions are valid for every wire")
