"""Random histories of a session: every request that is made is valid for every provider (C6).

A session on a real store, with the real engine and turn, is prompted, cancelled, crashed and recovered, retried,
steered, compacted, forked and given to another vendor's model, at random.
"""

from __future__ import annotations

import asyncio
import random
import shutil
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
from holdfast.services.presence import Presence
from holdfast.services.session_service import SessionService
from holdfast.store import Batch, open_store
from holdfast.store.writes import PutWorkspace
from holdfast.testing import WIRES
from tests.support.conversation_check import check_conversations
from tests.support.engine_harness import LONG_LIMITS, WORKSPACE, EngineHarness
from tests.support.interruption import InterruptedStore, InterruptedTurns, Interrupter
from tests.support.log_consistency import check_log_matches_tables
from tests.support.real_turns import turn_limits
from tests.support.stress import StressShare
from tests.support.vendor_models import VendorModel
from tests.support.wire_rules import check_every_wire

IMAGE = File("a.png", "image/png", data="aGk=")
TEXT = File("a.txt", "text/plain", text="what I want")
AWAITS = 60
"""About as many as a short run has."""


class RandomSession:
    def __init__(self, directory: Path, chance: random.Random) -> None:
        self.directory = directory
        self.chance = chance
        self.servers = 0
        self.session_id = "ses_1"
        self.log: list[str] = []
        self.checked = 0
        self.harness: EngineHarness
        self.store: InterruptedStore

    async def open(self, database: str) -> None:
        store = await open_store(self.directory / database)
        if not await store.workspaces():
            await store.commit(Batch((PutWorkspace(Workspace(WORKSPACE, str(self.directory))),)))
        self.store = InterruptedStore(store)
        turns = InterruptedTurns(self.store, self._model(()), self.directory)  # type: ignore[arg-type]
        turns.limits = turn_limits(max_steps=6, max_seconds=60)
        turns.gates.open("z")
        self.harness = EngineHarness(self.directory, self.store, turns=turns, limits=LONG_LIMITS)  # type: ignore[arg-type]
        await self.harness.engine.recover()
        await self.harness.engine.open_workspace(WORKSPACE)

    @property
    def turns(self) -> InterruptedTurns:
        assert isinstance(self.harness.turns, InterruptedTurns)
        return self.harness.turns

    async def play(self, count: int) -> None:
        await self.open("holdfast.db")
        await self.harness.session()
        try:
            for _ in range(count):
                name = self.chance.choice(ACTIONS)
                self.log.append(name)
                await getattr(self, name)()
            self.log.append("next prompt")
            await self.prompt()
            await check_log_matches_tables(self.harness.store)
        finally:
            await self.harness.close()

    def _model(self, answers: tuple[tuple[ScriptAction, ...], ...]) -> VendorModel:
        return VendorModel(self.chance.choice(WIRES), answers, window=100_000)

    def _script(self) -> VendorModel:
        """Make a model with a few answers. Any of them may fail; after them it repeats the prompt."""
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
                ScriptedCall("functions.nothere<|channel|>"),
                ScriptedCall("echo", raw="{half"),
                ScriptedCall("subagent", {"word": "look"}),
            ]
        )

    async def prompt(self, act: Callable[[], Awaitable[Any]] | None = None, **fields: Any) -> None:
        """Run a prompt to its end, with an action at a random await. Every request is checked."""
        interrupter = Interrupter(self.chance.randrange(AWAITS), act) if act else Interrupter()
        self.turns.interrupter = interrupter
        if act in (self._cancel_now, self._crash_now):
            self.store.interrupter = interrupter
        model = self.turns.model = self._script()
        self.turns.clock.limits.clear()
        if "kind" not in fields:
            fields["attachments"] = self.chance.choice([(), (), (IMAGE,), (TEXT,)])
        prompt = "" if fields.get("kind") or TEXT in fields["attachments"] else self.chance.choice(["do it", "and now"])
        harness = self.harness
        accepted = await harness.accept(prompt, session_id=self.session_id, **fields)
        over = harness.engine._state.end_waiters.expect(accepted.run.id)
        await asyncio.wait_for(over, 20)
        if interrupter.acting is not None:
            await interrupter.acting
        self.turns.interrupter = self.store.interrupter = Interrupter()
        await self._wait_for_all()
        for request in model.requests:
            check_every_wire(request)
            self.checked += 1

    async def _wait_for_all(self) -> None:
        """Wait for steered and queued runs too."""
        for run in (await self.harness.store.runs(self.session_id, limit=100)).items:
            if run.state not in END_STATES:
                await self.harness.ended(run)

    async def cancelled(self) -> None:
        await self.prompt(self._cancel_now)

    async def _cancel_now(self) -> None:
        await self.harness.engine.cancel_session(self.session_id)

    async def out_of_time(self) -> None:
        await self.prompt(self._expire_time_limit)

    async def _expire_time_limit(self) -> None:
        try:
            self.turns.clock.run_out(0)
        except (IndexError, RuntimeError):
            self.turns.interrupter.release()

    async def steered(self) -> None:
        await self.prompt(self._steer)

    async def _steer(self) -> None:
        await self.harness.accept("and this too", session_id=self.session_id, delivery="steer")
        self.turns.interrupter.release()

    async def crashed(self) -> None:
        """Continue with a copy of the database from a random moment, as after a crash."""
        self.servers += 1
        database = f"after-{self.servers}.db"
        await self.prompt(self._crash_now)
        if (self.directory / database).exists():
            await self.harness.close()
            await self.open(database)
            await self._wait_for_all()

    async def _crash_now(self) -> None:
        await self.harness.store.backup(self.directory / f"after-{self.servers}.db")
        await self.harness.engine.cancel_session(self.session_id)

    async def compacted(self) -> None:
        await self.prompt(kind="compact")

    async def forked(self) -> None:
        messages = await self.harness.messages(self.session_id)
        shared: Any = SimpleNamespace(
            store=self.harness.store, hub=self.harness.hub, ids=Ids(), now=lambda: "2026-01-01T00:00:00.000Z"
        )
        at = self.chance.choice(messages).id if messages and self.chance.random() < 0.7 else None
        workspaces: Any = SimpleNamespace(shared=shared)
        sessions = SessionService(
            workspaces,
            self.harness.engine,
            presence=Presence(self.harness.hub, new_id=lambda: ""),
            workspaces=workspaces,
        )
        self.session_id = (await sessions.fork(self.session_id, message_id=at)).id


ACTIONS = ["prompt", "prompt", "cancelled", "cancelled", "out_of_time", "steered", "crashed", "compacted", "forked"]


async def play(directory: Path, seed: int, *, count: int) -> int:
    session = RandomSession(directory, random.Random(seed))
    try:
        await session.play(count)
    except BaseException as error:
        error.add_note(f"seed {seed}: {', '.join(session.log)}")
        raise
    return session.checked


@pytest.fixture(autouse=True)
def _checked_conversations(monkeypatch: pytest.MonkeyPatch) -> None:
    check_conversations(monkeypatch)


@pytest.mark.promise("C6", "C5")
@pytest.mark.parametrize("seed", range(12))
async def test_a_session_with_a_random_history_takes_the_next_prompt(tmp_path: Path, seed: int) -> None:
    assert await play(tmp_path, seed, count=7) > 0


@pytest.mark.stress(weight=5)
async def test_many_sessions_with_random_histories(tmp_path: Path, share: StressShare) -> None:
    for seed in share.seeds():
        directory = tmp_path / str(seed)
        directory.mkdir()
        share.count("sessions")
        share.count("requests, each valid for every wire", await play(directory, seed, count=10))
        shutil.rmtree(directory)
