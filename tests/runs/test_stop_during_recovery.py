"""A stop at each step of a recovery: every run that a crash left active ends, and every queue is held (`W5`)."""

import asyncio
import shutil
from pathlib import Path
from typing import Any, Literal

import pytest
from msgspec.structs import replace

from holdfast.agent.protocol import Ending
from holdfast.errors import ServerStopping
from holdfast.events import Hub
from holdfast.ids import Ids
from holdfast.runs import Engine, IntentFile
from holdfast.runs.intent_file import CancelIntent
from holdfast.schema.runs import Run
from holdfast.schema.sessions import Session
from holdfast.store import Batch, LaneRow, open_store
from holdfast.store import writes as w
from tests.support.any_store import need_file_copies
from tests.support.engine_harness import LONG_LIMITS, WORKSPACE, EngineHarness, open_harness
from tests.support.scripted_turns import ScriptedTurns, TurnActions
from tests.support.stepped_store import SteppedStore, Stepper

Disk = Literal["full", "full until the stop", "full from the stop", "good"]

MOST_STEPS = 44
"""A recovery has 43 on a full disk."""

LIMITS = replace(LONG_LIMITS, unwritable_seconds=0.01, retry_first_seconds=1_000, retry_most_seconds=1_000)
"""Only a command causes a retry, so that the steps do not depend on the time."""

CRASHED = {
    "ses_1": ("active", "queued"),
    "ses_2": ("active", "joined", "waiting", "queued"),
    "ses_3": ("queued", "queued"),
    "ses_child": ("active",),
}
"""The states of the runs that the crash left in each session. A cancel of ses_2 was only noted."""


async def write_crash(path: Path) -> None:
    writes: list[w.AnyWrite] = []
    for session_id, states in CRASHED.items():
        is_child = session_id == "ses_child"
        parent_id = "ses_1" if is_child else None
        writes.append(w.PutSession(Session(id=session_id, workspace_id=WORKSPACE, parent_id=parent_id)))
        for seq, state in enumerate(states, 1):
            joins = state in ("joined", "waiting")
            run = Run(
                id=f"{session_id}.{seq}",
                session_id=session_id,
                seq=seq,
                rank=seq,
                prompt="work",
                state=state,  # type: ignore[arg-type]
                delivery="steer" if joins else "queue",
                host_run_id=f"{session_id}.1" if joins else None,
                parent_run_id="ses_1.1" if is_child else None,
            )
            writes.append(w.InsertRun(run=run, body_hash="h", decision="started"))
        writes.append(w.SetLane(LaneRow(session_id, next_seq=len(states) + 1)))
    async with open_harness(path, open_workspace=False) as harness:
        await harness.store.commit(Batch(tuple(writes)))
    await asyncio.to_thread(intents_of(path).note, CancelIntent("ses_2", mark=len(CRASHED["ses_2"])))


def intents_of(path: Path) -> IntentFile:
    return IntentFile(path.with_suffix(".intents"))


def copy_of(crashed: Path, directory: Path) -> Path:
    shutil.copytree(crashed, directory, dirs_exist_ok=True)
    return directory / "own.db"


def turns_that_hang() -> ScriptedTurns:
    turns = ScriptedTurns()

    @turns.on("work")
    async def work(turn: TurnActions) -> Ending | None:
        await turn.gate("never opened")
        return None

    return turns


async def recover(engine: Engine) -> None:
    try:
        await engine.recover()
        await engine.open_workspace(WORKSPACE)
    except ServerStopping:
        pass


async def is_at_a_barrier(stepped: SteppedStore, stepper: Stepper, recovering: asyncio.Future[None]) -> bool:
    """Wait until the recovery waits at a barrier, or is done."""
    await stepped.settled()
    while not stepper.names() and not recovering.done():  # noqa: ASYNC110 - it reads the intent file in a thread
        await asyncio.sleep(0)
    return bool(stepper.names())


async def stop_after(path: Path, steps: int, disk: Disk) -> tuple[bool, int]:
    """Start a server on what a crash left, and stop it after some steps. Returns the stop's answer and the steps."""
    store = await open_store(path)
    stepper = Stepper()
    stepped: Any = SteppedStore(store, stepper)
    hub = Hub(store, heartbeat_seconds=10.0)
    engine = Engine(stepped, hub, turns_that_hang(), ids=Ids(), limits=LIMITS, intents=intents_of(path))
    stepped.refuses = 1_000_000 if disk in ("full", "full until the stop") else 0
    recovering = asyncio.ensure_future(recover(engine))
    taken = 0
    while taken < steps and await is_at_a_barrier(stepped, stepper, recovering):
        stepper.open(0)
        taken += 1
    await is_at_a_barrier(stepped, stepper, recovering)
    stepped.refuses = 1_000_000 if disk in ("full", "full from the stop") else 0
    stopping = asyncio.ensure_future(engine.stop())
    await stepped.settled()
    stepper.set_free()
    is_written = await stopping
    await recovering
    assert not engine._state.tasks
    hub.close()
    await store.close()
    return is_written, taken


async def paused_queues(harness: EngineHarness) -> dict[str, str | None]:
    queued = {run.session_id for run in await harness.store.unfinished_runs()}
    return {session_id: (await harness.engine.queue(session_id)).paused for session_id in sorted(queued)}


@pytest.fixture(scope="module")
def crashed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with what a crash left."""
    need_file_copies()
    directory = tmp_path_factory.mktemp("crashed")
    asyncio.run(write_crash(directory / "own.db"))
    return directory


@pytest.mark.promise("W5", "W6", "R7", "C1")
@pytest.mark.parametrize(
    ("disk", "steps"),
    [
        *(("full", steps) for steps in range(MOST_STEPS)),
        *(("full until the stop", steps) for steps in range(0, MOST_STEPS, 3)),
        *(("full from the stop", steps) for steps in range(1, MOST_STEPS, 3)),
        *(("good", steps) for steps in range(2, MOST_STEPS, 3)),
    ],
)
async def test_a_stop_at_any_step_of_a_recovery_ends_the_runs_and_holds_the_queues(
    tmp_path: Path, crashed: Path, disk: Disk, steps: int
) -> None:
    path = await asyncio.to_thread(copy_of, crashed, tmp_path)
    is_written, taken = await stop_after(path, steps, disk)
    assert taken < MOST_STEPS
    async with open_harness(path, open_workspace=False, intents=intents_of(path)) as after:
        if is_written:
            left = await after.store.unfinished_runs()
            assert {run.state for run in left} <= {"queued"}
            assert set((await paused_queues(after)).values()) <= {"server_stop"}
        await after.engine.recover()
        await after.engine.open_workspace(WORKSPACE)
        assert after.turns.started == []
        assert set((await paused_queues(after)).values()) == {"server_stop"}
        runs = [
            await after.store.run(f"{name}.{seq}") for name, runs in CRASHED.items() for seq in range(1, len(runs) + 1)
        ]
        for run, was in zip(runs, (state for states in CRASHED.values() for state in states), strict=True):
            if was in ("active", "joined"):
                assert run.state in ("interrupted", "cancelled")
            else:
                assert run.state in ("queued", "interrupted", "cancelled")
        assert (await after.store.run("ses_2.4")).reason == "user_cancel"
        assert (await after.store.run("ses_3.2")).state == "queued"
