"""Servers that are killed: each is a forked process that kills itself with SIGKILL at a chosen point.

Run as a program, this module imports everything once, reads one plan per line, forks a server for it, and prints its
exit status. The server writes what clients get to know (answers, event numbers, tools that ran) to a journal before it
continues.
"""

import asyncio
import json
import os
import random
import signal
import sqlite3
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from holdfast.agent.protocol import Ending
from holdfast.errors import CallerError
from holdfast.events import Hub
from holdfast.ids import Ids
from holdfast.runs import Engine
from holdfast.schema.runs import GoOn, RunRequest
from holdfast.schema.sessions import Session, Workspace
from holdfast.store import Batch, open_store
from holdfast.store.sqlite import database_file
from holdfast.store.writes import PutSession, PutWorkspace
from tests.support.engine_harness import DEFAULT_LIMITS
from tests.support.scripted_turns import ScriptedTurns, TurnActions

WORKSPACE = "wsp_1"
SESSIONS = ("ses_1", "ses_2", "ses_3")


@dataclass(frozen=True, slots=True)
class KillPlan:
    directory: str
    seed: int
    when: str
    """`before` or `after` the n-th commit, at the n-th `statement`, or after the n-th `answer` to a client."""
    nth: int


class Journal:
    """What clients know. Each line is one write to the kernel, so it survives SIGKILL."""

    def __init__(self, path: Path) -> None:
        self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def write(self, **line: Any) -> None:
        os.write(self._fd, json.dumps(line).encode() + b"\n")


def read_journal(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


class ProcessKiller:
    """Counts commits, statements and answers, and kills this process at the planned one."""

    def __init__(self, plan: KillPlan) -> None:
        self._plan = plan
        self._seen: dict[str, int] = {}

    def reach(self, when: str) -> None:
        self._seen[when] = self._seen.get(when, 0) + 1
        if when == self._plan.when and self._seen[when] == self._plan.nth:
            os.kill(os.getpid(), signal.SIGKILL)

    def connect(self, path: Path, *, read_only: bool) -> sqlite3.Connection:
        reach = self.reach

        class Connection(sqlite3.Connection):
            def execute(self, sql: str, *args: Any) -> sqlite3.Cursor:
                if read_only:
                    return super().execute(sql, *args)
                reach("statement")
                if sql != "COMMIT":
                    return super().execute(sql, *args)
                reach("before")
                done = super().execute(sql, *args)
                reach("after")
                return done

        return database_file.connect(path, read_only=read_only, factory=Connection)


def scripted_turns_with_journal(journal: Journal, *, ends_soon: bool = False) -> ScriptedTurns:
    """Turns that write text, use tools, start sub-agents and wait. With `ends_soon` they do not wait for a cancel."""
    turns = ScriptedTurns()

    async def wait_rounds(rounds: int) -> None:
        for _ in range(rounds):
            await asyncio.sleep(0)

    async def ends(turn: TurnActions) -> Ending | None:
        while isinstance(await turn.finish(" so."), GoOn):
            pass
        return None

    async def talk(turn: TurnActions) -> Ending | None:
        said = ""
        for word in ("It", " was", " a", " dark"):
            await turn.say(word)
            said += word
            journal.write(said=turn.run.id, text=said)
            await wait_rounds(3)
        return await ends(turn)

    async def tools(turn: TurnActions) -> Ending | None:
        for step in range(3):
            (call,) = await turn.call("bash")
            journal.write(tool=f"{turn.run.id}/{step}", call=call.id)
            await wait_rounds(2)
            crossing = await turn.handle.boundary(messages=[turn.results([call])])
            if not isinstance(crossing, GoOn):
                return None
        return await ends(turn)

    async def slow(turn: TurnActions) -> Ending | None:
        await turn.say("Wait")
        journal.write(said=turn.run.id, text="Wait")
        await wait_rounds(2 if ends_soon else 60)
        return await ends(turn)

    async def delegate(turn: TurnActions) -> Ending | None:
        child = await turn.handle.start_subagent(RunRequest(prompt="tools"), title="help")
        await child.ended()
        return await ends(turn)

    turns.scripts |= {"talk": talk, "tools": tools, "slow": slow, "delegate": delegate}
    return turns


class RandomClient:
    """A client that prompts, steers and cancels one session and writes the answers to the journal."""

    def __init__(
        self, engine: Engine, session_id: str, *, journal: Journal, rng: random.Random, on_answer: Callable[[], None]
    ):
        self._engine = engine
        self._session_id = session_id
        self._journal = journal
        self._rng = rng
        self._on_answer = on_answer
        self._runs: list[str] = []

    async def act(self, actions: int) -> None:
        for _ in range(actions):
            try:
                await self._act_once(self._rng.random())
            except CallerError as error:
                self._journal.write(refused=error.error_code)
            self._on_answer()
            for _ in range(self._rng.randrange(12)):
                await asyncio.sleep(0)

    async def _act_once(self, choice: float) -> None:
        match choice:
            case _ if choice < 0.65 or not self._runs:
                await self._prompt()
            case _ if choice < 0.72:
                await self._cancel(self._engine.cancel_session(self._session_id))
            case _ if choice < 0.78:
                await self._cancel(self._engine.cancel_session(self._session_id, "active"))
            case _ if choice < 0.85:
                await self._cancel(self._engine.cancel_run(self._rng.choice(self._runs)))
            case _ if choice < 0.92:
                await self._engine.change_queued(self._rng.choice(self._runs), prompt="talk again", position=1)
            case _:
                await self._engine.wait_run(self._rng.choice(self._runs), timeout=5)

    async def _prompt(self) -> None:
        request = RunRequest(
            prompt=self._rng.choice(("talk", "tools", "tools", "slow", "slow", "delegate")),
            delivery=self._rng.choice(("queue", "queue", "steer")),  # type: ignore[arg-type]
        )
        accepted = await self._engine.accept(self._session_id, request, client="", body_hash="h")
        self._runs.append(accepted.run.id)
        self._journal.write(accepted=accepted.run.id, decision=accepted.decision)

    async def _cancel(self, call: Any) -> None:
        receipt = await call
        self._journal.write(
            cancelled=[[line.run_id, line.was, line.ended_as] for line in receipt.runs], mark=receipt.mark
        )


async def run_server(plan: KillPlan) -> None:
    directory = Path(plan.directory)
    journal = Journal(directory / "journal")
    killer = ProcessKiller(plan)
    rng = random.Random(plan.seed)
    store = await open_store(directory / "holdfast.db", connect=killer.connect)
    store.listen(lambda events: journal.write(numbers=[[event.number, event.kind] for event in events]))
    made = [PutSession(Session(id=session_id, workspace_id=WORKSPACE)) for session_id in SESSIONS]
    await store.commit(Batch((PutWorkspace(Workspace(WORKSPACE, "/work/here")), *made)))
    engine = Engine(
        store,
        Hub(store, heartbeat_seconds=10.0),
        scripted_turns_with_journal(journal),
        ids=Ids(),
        limits=DEFAULT_LIMITS,
    )
    await engine.open_workspace(WORKSPACE)

    def on_answer() -> None:
        killer.reach("answer")

    clients = [
        RandomClient(engine, session_id, journal=journal, rng=random.Random(rng.random()), on_answer=on_answer)
        for session_id in SESSIONS
    ]
    await asyncio.gather(*(client.act(8) for client in clients))
    for run in await store.unfinished_runs():
        await engine.wait_run(run.id, timeout=20)
    await engine.stop()
    await store.close()
    journal.write(seen=killer._seen)


class ServerProcesses:
    """Runs servers in forked processes."""

    def __init__(self) -> None:
        self._process: asyncio.subprocess.Process | None = None

    async def __aenter__(self) -> "ServerProcesses":
        self._process = await asyncio.create_subprocess_exec(
            sys.executable,
            *("-m", "tests.support.killed_servers"),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            cwd=Path(__file__).parents[2],
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._process is not None
        assert self._process.stdin is not None
        self._process.stdin.close()
        await self._process.wait()

    async def run(self, plan: KillPlan) -> bool:
        """Run a server. Returns whether it ended without being killed."""
        assert self._process is not None
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(asdict(plan)).encode() + b"\n")
        status = int(await self._process.stdout.readline())
        assert status in (0, signal.SIGKILL), (
            f"the server ended with status {status}, neither by itself nor by the kill"
        )
        return status == 0


def fork_servers() -> None:
    for line in sys.stdin:
        plan = KillPlan(**json.loads(line))
        child = os.fork()
        if child == 0:
            asyncio.run(run_server(plan))
            os._exit(0)
        _, status = os.waitpid(child, 0)
        print(status, flush=True)


if __name__ == "__main__":
    fork_servers()
