"""Random fault schedules on a whole server in this process: no fault, and no order of faults, breaks a promise.

Prompts with and without an id, repeats, steers, cancels, moves, pauses, approvals, crashes and stops; a disk that is
full, broken or locked, a clock that jumps, and a model that is slow, fails, hangs or is cut off.
"""

import asyncio
import os
import shutil
import tempfile
from collections.abc import Awaitable, Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from holdfast.agent.message_builder import MessageBuilder
from holdfast.approvals import pending_approvals
from holdfast.errors import CommitRefused
from holdfast.events import Hub
from holdfast.models.protocol import ModelDelta, TextDelta
from holdfast.runs import Engine
from holdfast.schema.runs import Accepted, Receipt, Run, RunRequest
from tests.support.fault_schedule import play_schedule
from tests.support.stress import StressShare

PROMISES = (
    *("R1", "R2", "R3", "R4", "R5", "R6", "R7", "R8", "R13", "R14", "C1", "C2", "C3", "C4", "C5", "C6"),
    *("E1", "E2", "E3", "E5", "W4", "W5", "W6"),
)


@pytest.mark.promise(*PROMISES)
@pytest.mark.parametrize("seed", range(15))
def test_no_schedule_of_faults_breaks_a_promise(tmp_path: Path, seed: int) -> None:
    assert asyncio.run(play_schedule(tmp_path, seed))["events read"] >= 0


@pytest.fixture
def memory_directory(tmp_path: Path) -> Iterator[Path]:
    """A directory in memory, where there is one: faults are injected, so that nothing needs a real disk."""
    if not os.access("/dev/shm", os.W_OK):
        yield tmp_path
        return
    with tempfile.TemporaryDirectory(dir="/dev/shm", prefix="holdfast-test-") as directory:
        yield Path(directory)


@pytest.mark.stress(weight=85)
@pytest.mark.promise(*PROMISES)
@pytest.mark.parametrize("part", range(4))
def test_no_schedule_of_many_breaks_a_promise(memory_directory: Path, part: int, share: StressShare) -> None:
    """All parts together play at least 10,000 in a whole `make stress`."""
    for seed in share.seeds(at_least=share.full(2_500)):
        directory = memory_directory / str(seed)
        directory.mkdir()
        share.count("schedules")
        for what, number in asyncio.run(play_schedule(directory, seed)).items():
            if not what.startswith("refused"):
                share.count(what, number)
        shutil.rmtree(directory)


def cancel_only_the_active_run(patch: pytest.MonkeyPatch) -> None:
    cancel = Engine.cancel_session

    async def cancel_session(self: Engine, session_id: str, scope: Any = "session") -> Receipt:
        return await cancel(self, session_id, "active")

    patch.setattr(Engine, "cancel_session", cancel_session)


def accept_what_cannot_be_written(patch: pytest.MonkeyPatch) -> None:
    """The prompt is lost, so a cancel that comes after it may also find that it does not cover it."""
    accept, numbers = Engine.accept, count()

    async def accept_anyway(self: Engine, session_id: str, request: RunRequest, **fields: Any) -> Accepted:
        try:
            return await accept(self, session_id, request, **fields)
        except CommitRefused:
            run_id = request.run_id or f"run_lost{next(numbers)}"
            return Accepted(Run(id=run_id, session_id=session_id, seq=1, state="queued", prompt=""), "queued")

    patch.setattr(Engine, "accept", accept_anyway)


def ignore_cursors(patch: pytest.MonkeyPatch) -> None:
    subscribe = Hub.subscribe

    def from_now(self: Hub, *, after: str | None = None, **scope: Any) -> Any:
        return subscribe(self, after=self.cursor, **scope)

    patch.setattr(Hub, "subscribe", from_now)


def let_every_answer_win(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(pending_approvals, "_winner_or_conflict", lambda found, wanted: wanted)


def lose_text(patch: pytest.MonkeyPatch) -> None:
    add = MessageBuilder.add

    def add_plain(self: MessageBuilder, delta: ModelDelta) -> Any:
        return add(self, TextDelta(delta.text.replace("é", "e")) if isinstance(delta, TextDelta) else delta)

    patch.setattr(MessageBuilder, "add", add_plain)


def answer_a_repeat_with_another_decision(patch: pytest.MonkeyPatch) -> None:
    find: Callable[..., Awaitable[Accepted | None]] = Engine._find_answer

    async def find_answer(self: Engine, run_id: str | None, **fields: Any) -> Accepted | None:
        found = await find(self, run_id, **fields)
        return found and replace(found, decision="steered")

    patch.setattr(Engine, "_find_answer", find_answer)


@pytest.mark.parametrize(
    ("break_engine", "promise"),
    [
        (cancel_only_the_active_run, "C1"),
        (accept_what_cannot_be_written, "R1|R14|C1"),
        (ignore_cursors, "E2"),
        (let_every_answer_win, "W4"),
        (lose_text, "E3"),
        (answer_a_repeat_with_another_decision, "R3"),
    ],
)
def test_a_broken_server_is_noticed(tmp_path: Path, break_engine: Callable[..., None], promise: str) -> None:
    def play_until_noticed() -> None:
        for seed in range(100):
            directory = tmp_path / str(seed)
            directory.mkdir()
            asyncio.run(play_schedule(directory, seed, asking=1.0 if promise == "W4" else 0.3))

    with pytest.MonkeyPatch.context() as patch:
        break_engine(patch)
        with pytest.raises(AssertionError, match=promise):
            play_until_noticed()
