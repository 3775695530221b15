"""The engine on a real file with a barrier at every await: no interleaving breaks a promise."""

import asyncio
import random
import tempfile
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
import uvloop
from hypothesis import HealthCheck, currently_in_test_context, given, note, settings
from hypothesis import strategies as st

from holdfast.agent.protocol import Ending
from holdfast.errors import CallerError, ServerStopping, StoreUnwritable
from holdfast.events import Hub
from holdfast.ids import Ids
from holdfast.runs import Engine, IntentFile
from holdfast.schema.runs import END_STATES, Accepted, Ended, GoOn, Outcome, RunRequest, StopNow
from holdfast.schema.sessions import Session, Workspace
from holdfast.store import Batch, open_store
from holdfast.store.writes import PutSession, PutWorkspace
from tests.support.engine_harness import LONG_LIMITS, WORKSPACE
from tests.support.log_consistency import check_log_matches_tables
from tests.support.scripted_turns import ScriptedTurns, TurnActions
from tests.support.stepped_store import SteppedStore, Stepper
from tests.support.stress import StressShare

SESSIONS = ("ses_1", "ses_2")
PROMPTS = ("answer", "tools", "tools", "fail", "raise", "stubborn", "delegate")


def _note(text: str) -> None:
    """Add a line to the report of a failing example. The long sequences are repeated by their seed."""
    if currently_in_test_context():
        note(text)


class DrivenServer:
    """A server that is driven by numbers: each number chooses the next action."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.stepper = Stepper()
        self.turns = ScriptedTurns()
        self.effects: Counter[str] = Counter()
        """How often the tool of each call ran."""
        self.in_tool: defaultdict[str, set[str]] = defaultdict(set)
        self.accepted: dict[str, tuple[str, RunRequest]] = {}
        """The accepted runs by id, with session and request."""
        self.covered: set[str] = set()
        """Runs that a cancel ended before they started."""
        self.tasks: set[asyncio.Task[Any]] = set()
        self.servers = 1
        self.counts: Counter[str] = Counter()
        self.turns.scripts |= {
            "answer": self._answer,
            "tools": self._tools,
            "fail": self._fail,
            "raise": self._raise,
            "stubborn": self._stubborn,
            "delegate": self._delegate,
        }

    async def open(self) -> None:
        self.store = await open_store(self.path)
        self.stepped_store = SteppedStore(self.store, self.stepper)
        self.engine = Engine(
            self.stepped_store,  # type: ignore[arg-type]
            Hub(self.store, heartbeat_seconds=10.0),
            self.turns,
            ids=Ids(),
            limits=LONG_LIMITS,
            intents=IntentFile(self.path.with_suffix(".intents")),
        )
        if not await self.store.workspaces():
            made = [PutSession(Session(id=session_id, workspace_id=WORKSPACE)) for session_id in SESSIONS]
            await self.store.commit(Batch((PutWorkspace(Workspace(WORKSPACE, "/work/here")), *made)))
        self._spawn(self._open_workspace())

    async def _open_workspace(self) -> None:
        """Retry until the workspace is open."""
        await self.engine.recover()
        while True:
            try:
                return await self.engine.open_workspace(WORKSPACE)
            except StoreUnwritable:
                await self.stepper.barrier("try again")
            except ServerStopping:
                return None

    async def _answer(self, turn: TurnActions) -> Ending | None:
        crossing: object = GoOn()
        while isinstance(crossing, GoOn):
            await self.stepper.barrier("turn")
            crossing = await turn.finish("well")
        return self._over(crossing)

    async def _tools(self, turn: TurnActions) -> Ending | None:
        for _ in range(2):
            await self.stepper.barrier("turn")
            (call,) = await turn.call("bash")
            await self._tool(turn, call.id)
            crossing = await turn.handle.boundary(messages=[turn.results([call])])
            if not isinstance(crossing, GoOn):
                return self._over(crossing)
        return await self._answer(turn)

    async def _tool(self, turn: TurnActions, call_id: str) -> None:
        """A side effect. It must not happen twice, nor while another run of the session has one."""
        session_id = turn.handle.session.id
        self.effects[call_id] += 1
        assert not self.in_tool[session_id], f"R4: {turn.run.id} runs a tool beside {self.in_tool[session_id]}"
        self.in_tool[session_id].add(turn.run.id)
        try:
            await self.stepper.barrier("tool")
        finally:
            self.in_tool[session_id].clear()

    async def _fail(self, turn: TurnActions) -> Ending | None:
        await turn.say("I")
        await self.stepper.barrier("turn")
        return Ending(Outcome("failed", "provider"), (turn.closed("error"),))

    async def _raise(self, turn: TurnActions) -> Ending | None:
        await turn.say("I")
        await self.stepper.barrier("turn")
        raise RuntimeError("a bug in the turn")

    async def _stubborn(self, turn: TurnActions) -> Ending | None:
        """Take a while to clean up after a cancel."""
        try:
            await turn.say("I am")
            await self.stepper.barrier("turn")
        except asyncio.CancelledError:
            await self.stepper.barrier("clean-up")
            raise
        return self._over(await turn.finish("done"))

    async def _delegate(self, turn: TurnActions) -> Ending | None:
        child = await turn.handle.start_subagent(RunRequest(prompt="tools"), title="help")
        await child.ended()
        return self._over(await turn.finish("it helped"))

    def _over(self, crossing: object) -> Ending | None:
        match crossing:
            case Ended():
                return None
            case StopNow():
                return Ending(Outcome("completed", "end_turn"))
            case _:
                return Ending(Outcome("failed", "limit_steps"))

    async def step(self, number: int) -> None:
        """Send a request or open one barrier."""
        waiting = self.stepper.names()
        number, kind = divmod(number, 8)
        if waiting and kind < 7:
            place = number % len(waiting)
            _note(f"open {waiting[place]}")
            self.counts[waiting[place]] += 1
            self.stepper.open(place)
        else:
            self._act(number)
        await self.stepped_store.settled()
        await check_log_matches_tables(self.store)

    def _act(self, number: int) -> None:
        number, which = divmod(number, 33)
        number, where = divmod(number, len(SESSIONS))
        session_id = SESSIONS[where]
        known = [run_id for run_id, (home, _) in self.accepted.items() if home == session_id]
        run_id = known[number % len(known)] if known else "run_none"
        acts: list[Callable[[], Awaitable[object]]] = [
            *[lambda: self._accept(session_id, number)] * 12,
            *[lambda: self._again(run_id)] * 2,
            *[lambda: self._cancel(self.engine.cancel_session(session_id))] * 4,
            *[lambda: self._cancel(self.engine.cancel_session(session_id, "active"))] * 2,
            *[lambda: self._cancel(self.engine.cancel_run(run_id))] * 4,
            *[lambda: self.engine.change_queued(run_id, prompt="answer edited", position=number % 3 + 1)] * 2,
            *[lambda: self.engine.pause(session_id)] * 2,
            *[lambda: self.engine.resume(session_id)] * 2,
            *[lambda: self._refuse(number % 4)] * 2,
            lambda: self.engine.delete_session(session_id if number % 8 == 0 else "ses_none"),
        ]
        _note(f"act {which} in {session_id} on {run_id}")
        self.counts["requests"] += 1
        self._spawn(self._send(acts[which]()))

    async def _send(self, call: Awaitable[object]) -> None:
        """A request may be refused, but must not fail with an internal error."""
        try:
            await call
        except (CallerError, StoreUnwritable, ServerStopping) as error:
            self.counts[f"refused {error.status}"] += 1

    async def _accept(self, session_id: str, number: int) -> None:
        request = RunRequest(
            prompt=PROMPTS[number % len(PROMPTS)],
            delivery=("queue", "steer")[number % 2],  # type: ignore[arg-type]
            after=("any", "any", "success")[number % 3],  # type: ignore[arg-type]
            model=(None, None, None, "x/y")[number % 4],
        )
        self._answered(await self.engine.accept(session_id, request, client="", body_hash="h"), request)

    async def _again(self, run_id: str) -> None:
        if run_id in self.accepted:
            session_id, request = self.accepted[run_id]
            again = RunRequest(prompt=request.prompt, run_id=run_id)
            answer = await self.engine.accept(session_id, again, client="", body_hash="h")
            assert answer.run.id == run_id

    def _answered(self, answer: Accepted, request: RunRequest) -> None:
        self.accepted[answer.run.id] = (answer.run.session_id, request)
        self.counts[answer.decision] += 1

    async def _cancel(self, call: Awaitable[Any]) -> None:
        receipt = await call
        self.counts["not durable"] += not receipt.durable
        for line in receipt.runs:
            self.counts["covered"] += 1
            if line.was in ("queued", "waiting"):
                assert line.ended_as == "cancelled" or (line.ended_as is None and receipt.error is not None)
                if receipt.durable:
                    self.covered.add(line.run_id)

    async def _refuse(self, commits: int) -> None:
        self.stepped_store.refuses = commits

    def _spawn(self, work: Any) -> None:
        task = asyncio.ensure_future(work)
        self.tasks.add(task)

    async def crash(self) -> None:
        """Start another server on a copy of the database, as after a crash."""
        self.servers += 1
        copy = self.path.with_name(f"server_{self.servers}.db")
        intents = self.path.with_suffix(".intents")
        if intents.exists():
            copy.with_suffix(".intents").write_bytes(intents.read_bytes())
        await self.store.backup(copy)
        await self._abandon()
        self.path = copy
        self.stepper.free = False
        self.in_tool.clear()
        await self.open()
        await self.stepped_store.settled()
        await check_log_matches_tables(self.store)

    async def restart(self) -> None:
        """Stop the server and start another one."""
        self.servers += 1
        self.stepped_store.refuses = 0
        self.stepper.set_free()
        await self.engine.stop()
        assert not self.engine._state.tasks
        await asyncio.gather(*self.tasks, return_exceptions=True)
        assert all(run.state in ("queued", "waiting") for run in await self.store.unfinished_runs()), "W5"
        await check_log_matches_tables(self.store)
        await self.store.close()
        self.tasks.clear()
        self.stepper.free = False
        await self.open()
        await self.stepped_store.settled()

    async def _abandon(self) -> None:
        """End the tasks of the old server. What they do does not reach the copy and is not counted."""
        effects = self.effects.copy()
        self.stepper.set_free()
        self.stepped_store.refuses = 1_000_000
        for task in self.tasks:
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)
        while await self.engine._state.tasks.finish(seconds=0.01):
            pass
        await self.store.close()
        self.tasks.clear()
        self.effects = effects

    async def finish(self) -> None:
        """Let all runs end, and check their ends."""
        self.stepped_store.refuses = 0
        self.stepper.set_free()
        await asyncio.gather(*self.tasks)
        for _ in range(20_000):  # a refused end is retried with back-off
            unfinished = await self.store.unfinished_runs()
            if not unfinished:
                break
            if (await self.engine.queue(unfinished[0].session_id)).paused:
                await self.engine.resume(unfinished[0].session_id)
            await self.engine.wait_run(unfinished[0].id, timeout=0.05)
        story = await check_log_matches_tables(self.store)
        for run_id in self.accepted:
            record = await self.store.run_record(run_id)
            assert record is not None
            assert record.run.state in END_STATES, f"R5: {run_id} is stranded as {record.run.state}"
            assert record.deleted or story.ended[run_id] == 1
        for run_id in self.covered:
            assert story.started[run_id] == 0, f"C1: {run_id} was covered by a cancel and started"
        assert all(count == 1 for count in self.effects.values()), "a tool ran twice"
        await self.engine.stop()
        assert not self.engine._state.tasks
        assert not self.engine._state.mailboxes
        await self.store.close()


async def run_sequence(numbers: list[int], crashes: frozenset[int], stops: frozenset[int]) -> Counter[str]:
    with tempfile.TemporaryDirectory(prefix="hf-") as directory:
        server = DrivenServer(Path(directory) / "server_1.db")
        await server.open()
        await server.stepped_store.settled()
        for place, number in enumerate(numbers):
            if place in crashes:
                await server.crash()
            if place in stops:
                await server.restart()
            await server.step(number)
        await server.finish()
        return server.counts


def step_numbers(most: int) -> st.SearchStrategy[list[int]]:
    return st.lists(st.integers(0, 2**24), min_size=most // 2, max_size=most)


@pytest.mark.promise("R1", "R3", "R4", "R5", "R6", "R7", "R14", "C1", "C2", "C3", "E1", "E5", "W6")
@pytest.mark.timeout(300)
@settings(max_examples=25, suppress_health_check=list(HealthCheck))
@given(
    numbers=step_numbers(70),
    crashes=st.frozensets(st.integers(10, 60), max_size=1),
    stops=st.frozensets(st.integers(10, 60), max_size=1),
    new_loop=st.sampled_from([asyncio.new_event_loop, uvloop.new_event_loop]),
)
def test_no_interleaving_breaks_a_promise(
    numbers: list[int],
    crashes: frozenset[int],
    stops: frozenset[int],
    new_loop: Callable[[], asyncio.AbstractEventLoop],
) -> None:
    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(run_sequence(numbers, crashes, stops))


@pytest.mark.stress(weight=6)
@pytest.mark.promise("R1", "R3", "R4", "R5", "R6", "R7", "R14", "C1", "C2", "C3", "E1", "E5", "W6")
def test_no_long_sequence_breaks_a_promise(share: StressShare) -> None:
    for seed in share.seeds():
        rng = random.Random(seed)
        numbers = [rng.randrange(2**24) for _ in range(200)]
        crashes, stops = (frozenset(rng.sample(range(20, 200), 2)) for _ in range(2))
        counts = asyncio.run(run_sequence(numbers, crashes, stops))
        share.count("sequences of 200 steps, 2 crashes and 2 stops")
        share.count("requests", counts["requests"])
        share.count("runs covered by cancels", counts["covered"])
