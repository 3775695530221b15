"""Cost of the engine beside bare commits: accepting a prompt, a run in a long session, the memory of idle sessions.

Every commit is durable (`synchronous=FULL`). *Bare* commits the same rows and events without an engine, so the ratio is
the cost of lanes and mailboxes. Rounds alternate, so that other load affects both alike; medians are compared.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import itertools
import statistics
import tempfile
import time
import tracemalloc
from collections.abc import Awaitable, Callable
from pathlib import Path

from support.figures import show

from holdfast.agent.protocol import Ending, TurnHandle
from holdfast.events import Hub
from holdfast.ids import Ids
from holdfast.runs import Engine, EngineLimits
from holdfast.schema import events as ev
from holdfast.schema.messages import Finish, Message, Text
from holdfast.schema.runs import Outcome, Run, RunRequest
from holdfast.schema.sessions import Session, Workspace
from holdfast.store import Batch, LaneRow, SqliteStore, open_store
from holdfast.store import writes as w

AT = "2026-01-02T03:04:05.678Z"
WORKSPACE = "wsp_1"
HISTORIES = (0, 100, 2000)


class ImmediateTurn:
    """A turn that answers with one message at once."""

    async def run(self, handle: TurnHandle) -> Ending | None:
        message = Message(
            id=handle.new_id("msg"),
            session_id=handle.session.id,
            run_id=handle.run.id,
            role="assistant",
            seq=0,
            created_at=handle.now(),
            parts=(Text("yes"), Finish("end_turn")),
        )
        await handle.boundary(outcome=Outcome("completed", "end_turn", text="yes"), messages=[message])
        return None


class ImmediateTurns:
    async def prepare(self, session: Session, request: RunRequest) -> RunRequest:
        return request

    def turn(self, run: Run, session: Session) -> ImmediateTurn:
        return ImmediateTurn()


class EngineBenchmark:
    def __init__(self, store: SqliteStore) -> None:
        self.store = store
        self.engine = Engine(
            store,
            Hub(store, heartbeat_seconds=10.0),
            ImmediateTurns(),
            ids=Ids(),
            limits=EngineLimits(unfinished_runs=256, subagent_depth=2),
        )
        self._numbers = itertools.count(1)

    async def session(self, *, messages: int = 0) -> str:
        session_id = f"ses_{next(self._numbers)}"
        await self.store.commit(Batch((w.PutSession(Session(id=session_id, workspace_id=WORKSPACE)),)))
        for start in range(0, messages, 500):
            old = [
                w.PutMessage(Message(f"{session_id}_{n}", session_id, "run_0", "user", 0, AT, (Text("word " * 50),)))
                for n in range(start, min(start + 500, messages))
            ]
            await self.store.commit(Batch(tuple(old)))
        return session_id

    async def accept(self, session_id: str) -> str:
        request = RunRequest(prompt="say yes")
        return (await self.engine.accept(session_id, request, client="bench", body_hash="h")).run.id

    async def accept_bare(self, session_id: str) -> Awaitable[object]:
        """Commit the rows and events of an accepted run. Returns the commit of its end, to be awaited later."""
        run = Run(id=f"run_{next(self._numbers)}", session_id=session_id, seq=next(self._numbers), prompt="say yes")
        message = Message(f"msg_{next(self._numbers)}", session_id, run.id, "user", 0, AT, (Text("say yes"),))
        await self.store.commit(
            Batch(
                (
                    w.SetLane(LaneRow(session_id, next_seq=run.seq + 1)),
                    w.InsertRun(run=run, body_hash="h", decision="started"),
                    w.UpdateRun(run_id=run.id, state="active", started_at=AT),
                    w.PutMessage(message),
                ),
                (
                    ev.RunAccepted(AT, session_id, run),
                    ev.RunStarted(AT, session_id, run),
                    ev.MessageCreated(AT, session_id, message),
                ),
            )
        )
        end = w.EndRun(run_id=run.id, outcome=Outcome("completed", "end_turn"), finished_at=AT)
        return self.store.commit(Batch((end,)))

    async def accept_ours(self, session_id: str) -> Awaitable[object]:
        return self.engine.wait_run(await self.accept(session_id), timeout=30)

    async def accepting(self, *, at_once: int, total: int) -> None:
        """``at_once`` clients with a session each. The time to the answer is measured, not to the end of the run."""
        times: dict[str, list[float]] = {"engine": [], "bare": []}
        rates: dict[str, list[float]] = {"engine": [], "bare": []}
        for _ in range(5):
            for name, accept in (("bare", self.accept_bare), ("engine", self.accept_ours)):
                sessions = [await self.session() for _ in range(at_once)]
                began = time.perf_counter()
                await asyncio.gather(*(self._client(accept, one, total // at_once, times[name]) for one in sessions))
                rates[name].append(total / (time.perf_counter() - began))
        ours, bare = times["engine"], times["bare"]
        show(f"accept, {at_once} at once, p50", _ms(ours), "ms", base=_ms(bare))
        show(f"accept, {at_once} at once, p99", _ms(ours, 0.99), "ms")
        whole, bare_rate = statistics.median(rates["engine"]), statistics.median(rates["bare"])
        show(f"whole runs, {at_once} at once", whole, "/s", base=bare_rate, more_is_better=True)

    async def _client(
        self, accept: Callable[[str], Awaitable[Awaitable[object]]], session_id: str, count: int, times: list[float]
    ) -> None:
        for _ in range(count):
            began = time.perf_counter()
            ending = await accept(session_id)
            times.append(time.perf_counter() - began)
            await ending

    async def long_sessions(self, rounds: int) -> None:
        """A whole run, from the request to its end, in sessions with different numbers of messages."""
        sessions = {messages: await self.session(messages=messages) for messages in HISTORIES}
        times: dict[int, list[float]] = {messages: [] for messages in HISTORIES}
        for _ in range(rounds):
            for messages, session_id in sessions.items():
                began = time.perf_counter()
                await self.engine.wait_run(await self.accept(session_id), timeout=30)
                times[messages].append(time.perf_counter() - began)
        for messages, taken in times.items():
            show(f"a run after {messages} messages", _ms(taken), "ms", base=_ms(times[0]), base_name="new session")

    async def idle_sessions(self, count: int) -> None:
        """The Python memory that sessions keep after a run, when they are idle."""
        await self._run_in_new_sessions(count // 10)
        gc.collect()
        tracemalloc.start()
        before = tracemalloc.take_snapshot()
        await self._run_in_new_sessions(count)
        gc.collect()
        after = tracemalloc.take_snapshot()
        tracemalloc.stop()
        grown = sum(line.size_diff for line in after.compare_to(before, "filename"))
        ours = [tracemalloc.Filter(inclusive=True, filename_pattern="*/holdfast/runs/*")]
        lanes = sum(
            line.size_diff for line in after.filter_traces(ours).compare_to(before.filter_traces(ours), "filename")
        )
        show(f"{count} idle sessions, each in the engine", lanes / count, "bytes")
        show(f"{count} idle sessions, each with the hub", grown / count, "bytes")

    async def _run_in_new_sessions(self, count: int) -> None:
        for _ in range(count):
            await self.engine.wait_run(await self.accept(await self.session()), timeout=30)


def _ms(times: list[float], share: float = 0.5) -> float:
    ordered = sorted(times)
    return ordered[min(int(len(ordered) * share), len(ordered) - 1)] * 1000


async def main(*, quick: bool) -> None:
    with tempfile.TemporaryDirectory(prefix="hf-bench-") as directory:
        store = await open_store(Path(directory) / "holdfast.db")
        await store.commit(Batch((w.PutWorkspace(Workspace(WORKSPACE, directory)),)))
        benchmark = EngineBenchmark(store)
        await benchmark.engine.open_workspace(WORKSPACE)
        await benchmark.accepting(at_once=1, total=40 if quick else 200)
        await benchmark.accepting(at_once=40, total=200 if quick else 1000)
        await benchmark.long_sessions(10 if quick else 60)
        await benchmark.idle_sessions(200 if quick else 3000)
        await benchmark.engine.stop()
        await store.close()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="run fewer rounds")
    asyncio.run(main(quick=parser.parse_args().quick))
