"""A whole server without sockets that goes through a fault schedule, and the promises that are checked.

Real engine, turns, approvals, event hub and SQLite. Commits are refused as a full, broken or locked disk refuses them,
the clock jumps, the model fails, and the server crashes: another one starts on the files of that moment. The effects of
tools are counted instead of executed.
"""

import asyncio
import os
import shutil
import sqlite3
import threading
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import closing, suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from holdfast import app as app_module
from holdfast.app import App, open_app
from holdfast.errors import CallerError, CommitRefused, Conflict, ServerStopping
from holdfast.locations import Locations
from holdfast.schema.runs import END_STATES, Receipt, RunRequest
from holdfast.store import open_store
from holdfast.store.sqlite.draft_log import log_path
from holdfast.tools.bash import BashTool
from holdfast.tools.protocol import ToolOutput
from tests.events.stream_readers import Reader
from tests.store.faulty_database import Faults
from tests.support.engine_harness import LONG_LIMITS
from tests.support.fault_plans import Action, FaultPlan
from tests.support.schedule_promises import ClientKnowledge, check_promises

_LIMITS = replace(LONG_LIMITS, receipt_seconds=1.0, unwritable_seconds=0.02, retry_most_seconds=0.01)
_JUMPS = (-315_360_000.0, -86_400.0, -3_600.0, -1.0, 60.0, 3_600.0, 86_400.0)
_ERRORS = {
    "full": ("COMMIT", "database or disk is full", "SQLITE_FULL"),
    "broken": ("COMMIT", "disk I/O error", "SQLITE_IOERR_FSYNC"),
    "locked": ("BEGIN IMMEDIATE", "database is locked", "SQLITE_BUSY"),
}
_HANG_SECONDS = 0.05
"""A run that waits this long at the end of a schedule with hanging models is cancelled."""


class StoreFaults(Faults):
    """Refuses some of the next commits."""

    def __init__(self) -> None:
        super().__init__()
        self.on = self._fail
        self.refused = 0
        self._lock = threading.Lock()
        self._planned: tuple[str, int, int] | None = None

    def plan(self, kind: str, *, after: int, times: int) -> None:
        with self._lock:
            self._planned = (kind, after, times)

    def heal(self) -> None:
        with self._lock:
            self._planned = None

    def _fail(self, sql: str) -> Exception | None:
        with self._lock:
            if self._planned is None:
                return None
            kind, after, times = self._planned
            statement, message, name = _ERRORS[kind]
            if sql != statement:
                return None
            if after:
                self._planned = (kind, after - 1, times)
                return None
            self._planned = (kind, 0, times - 1) if times > 1 else None
            self.refused += 1
            error: Any = sqlite3.OperationalError(message)
            error.sqlite_errorname = name
            return error  # type: ignore[no-any-return]


class ScheduledServer:
    """Plays a plan, and remembers what its clients know."""

    def __init__(self, directory: Path, plan: FaultPlan) -> None:
        self.directory = directory
        self.plan = plan
        self.known = ClientKnowledge(plan.texts)
        self.log: list[str] = []
        self.offset = 0.0
        self._faults = StoreFaults()
        self._servers = 0
        self._crashed = False
        """Whether the server has crashed and the next one has not started: what the old one does is lost."""
        self._prompts = iter(plan.prompts)
        self._tasks: set[asyncio.Task[None]] = set()
        self._sent: list[tuple[str, str]] = []
        """Prompts whose acceptance is not answered yet, with their sessions."""
        self._complaints: list[str] = []
        self._app: App
        (directory / "work").mkdir()

    async def play(self) -> Counter[str]:
        loop, others = asyncio.get_running_loop(), asyncio.all_tasks()
        loop.set_exception_handler(lambda _, context: self._complaints.append(str(context)))
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(app_module, "open_store", partial(open_store, connect=self._faults.connect))
            patch.setattr(BashTool, "run", self._run_tool)
            await self._open(self.directory / "home1")
            for number in range(self.plan.sessions):
                session = await self._app.services.sessions.create(self._workspace_id, title=f"session {number}")
                self.known.sessions.append(session.id)
            self._reader = Reader(self._app.hub)
            self.known.first_number = self._app.store.last_number
            for action in self.plan.actions:
                self.log.append(action.kind)
                await getattr(self, f"_{action.kind}")(action)
                await self._wait(action.wait)
            await self._finish()
        left = [task.get_name() for task in asyncio.all_tasks() - others]
        assert not left, f"tasks are left: {left}"
        assert not self._complaints, self._complaints
        return self.known.counts

    async def _open(self, home: Path) -> None:
        """Start a server. If its disk refuses what must be written first, the disk is healed and it starts again."""
        self._home = home
        self._servers += 1
        self._crashed = False
        while True:
            environment = {**os.environ, "HOLDFAST_HOME": str(home)}
            self._context = open_app(
                Locations.from_env(environment),
                environment,
                clock=lambda: 1_800_000_000.0 + self.offset + time.monotonic(),
                scripts={"demo": self.plan.script},
                engine_limits=_LIMITS,
            )
            try:
                self._app = await self._context.__aenter__()
            except CommitRefused:
                self._faults.heal()
                continue
            try:
                view, _ = await self._app.services.workspaces.open(str(self.directory / "work"))
            except CommitRefused:
                self._faults.heal()
                await self._context.__aexit__(None, None, None)
                continue
            self._workspace_id = view.id
            return

    async def _run_tool(self, arguments: Any, context: Any, plan: Any) -> ToolOutput:
        """Stands for `BashTool.run`. The call must be stored before it has an effect (`R14`)."""
        server = self._servers
        if self._crashed:
            return ToolOutput("")
        stored = (await self._app.store.messages(context.session_id, limit=1000)).items
        if server == self._servers:
            assert any(context.call_id == getattr(part, "id", None) for message in stored for part in message.parts)
            self.known.effects[context.call_id] += 1
            self.known.counts["tools ran"] += 1
        await asyncio.sleep(0.001)
        return ToolOutput(f"done {arguments.command}")

    async def _wait(self, amount: float) -> None:
        """Let things happen: for some turns of the event loop, or for some milliseconds."""
        if amount < 0.7:
            for _ in range(int(amount * 30)):
                await asyncio.sleep(0)
        else:
            await asyncio.sleep((amount - 0.7) / 60)

    def _send(self, request: Callable[[], Awaitable[object]]) -> None:
        """Send a request and do not wait for its answer. It may be refused, but must not fail."""

        async def send() -> None:
            try:
                await request()
            except (CallerError, CommitRefused, ServerStopping) as error:
                self.known.counts[f"refused {error.error_code}"] += 1

        task = asyncio.create_task(send(), name="schedule:request")
        self._tasks.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._complaints.append(repr(error))

    def _session(self, action: Action) -> str:
        return action.choose(self.known.sessions)

    def _known(self, session_id: str) -> list[str]:
        return [run_id for run_id, (answer, _) in self.known.accepted.items() if answer.run.session_id == session_id]

    async def _prompt(self, action: Action) -> None:
        request = next(self._prompts).request
        self._send(lambda: self._accept(self._session(action), request))

    async def _accept(self, session_id: str, request: RunRequest) -> None:
        sent = (session_id, request.prompt)
        self._sent.append(sent)
        try:
            answer = await self._app.engine.accept(session_id, request, client="a", body_hash=repr(request))
        except CommitRefused:
            if request.run_id is not None:
                self.known.refused.add(request.run_id)
            raise
        finally:
            self._sent.remove(sent)
        self.known.refused.discard(answer.run.id)
        first = self.known.accepted.setdefault(answer.run.id, (answer, request))[0]
        assert (answer.run.id, answer.decision) == (first.run.id, first.decision), "R3: a repeated request differs"
        self.known.counts["accepted"] += first is answer

    async def _repeat(self, action: Action) -> None:
        """Send a prompt again; or another one with its id, which is refused."""
        session_id = self._session(action)
        known = self._known(session_id)
        if not known:
            return
        answer, request = self.known.accepted[known[int(action.how * len(known))]]
        request = replace(request, run_id=answer.run.id)
        if self.known.accepted[answer.run.id][1].run_id is None or action.wait < 0.3:
            self._send(lambda: self._reuse(session_id, replace(request, prompt="something else")))
        else:
            self._send(lambda: self._accept(session_id, request))

    async def _reuse(self, session_id: str, request: RunRequest) -> None:
        try:
            await self._app.engine.accept(session_id, request, client="b", body_hash=repr(request))
        except Conflict:
            self.known.counts["reused ids refused"] += 1
        else:
            raise AssertionError(f"R3: another prompt was accepted as {request.run_id}")

    async def _change(self, action: Action) -> None:
        known = self._known(self._session(action))
        if known:
            run_id = known[int(action.how * len(known))]
            position = 1 + int(action.wait * 3)
            self._send(lambda: self._app.engine.change_queued(run_id, position=position))

    async def _cancel_session(self, action: Action) -> None:
        session_id = self._session(action)
        self._send(lambda: self._cancel(session_id, self._app.engine.cancel_session(session_id), everything=True))

    async def _cancel_active(self, action: Action) -> None:
        session_id = self._session(action)
        self._send(lambda: self._cancel(session_id, self._app.engine.cancel_session(session_id, "active")))

    async def _cancel_run(self, action: Action) -> None:
        session_id = self._session(action)
        known = self._known(session_id)
        if known:
            run_id = known[int(action.how * len(known))]
            self._send(lambda: self._cancel(session_id, self._app.engine.cancel_run(run_id)))

    async def _cancel(self, session_id: str, call: Awaitable[Receipt], *, everything: bool = False) -> None:
        before = self._known(session_id)
        sent = [prompt for sent_to, prompt in self._sent if sent_to == session_id]
        self.known.unanswered_cancels[session_id] += 1
        receipt = await call
        self.known.unanswered_cancels[session_id] -= 1
        if receipt.error is not None:
            self.known.may_be_covered.update(sent)
        self.known.receipts.append((receipt, everything))
        self.known.counts["covered by cancels"] += len(receipt.runs)
        if everything:
            store = self._app.store
            for run_id in set(before) - {line.run_id for line in receipt.runs}:
                state = (await store.run(run_id)).state
                assert state in END_STATES, f"C1: {run_id} was accepted before a cancel, is not covered and is {state}"

    async def _pause(self, action: Action) -> None:
        self._send(lambda: self._app.engine.pause(self._session(action)))

    async def _resume(self, action: Action) -> None:
        self._send(lambda: self._app.engine.resume(self._session(action)))

    async def _answer(self, action: Action) -> None:
        """Two clients answer an approval differently at the same time."""
        open_approvals = (await self._app.store.open_approvals()).items
        if open_approvals:
            approval = open_approvals[int(action.which * len(open_approvals))]
            for decision in ("once", "deny") if action.how < 0.7 else ("deny", "once"):
                self._send(partial(self._decide, approval.id, approval.call_id, decision))

    async def _decide(self, approval_id: str, call_id: str, decision: Any) -> None:
        await self._app.shared.approvals.answer(approval_id, decision, client=f"says {decision}")
        first = self.known.decisions.setdefault(call_id, decision)
        assert first == decision, "W4: two answers to one approval were accepted"
        self.known.counts["approvals answered"] += 1

    async def _break_store(self, action: Action) -> None:
        kind = action.choose(list(_ERRORS))
        times = 1 + int(action.how * 6)
        self._faults.plan(kind, after=int(action.wait * 6), times=times * 5 if kind == "locked" else times)

    async def _jump(self, action: Action) -> None:
        self.offset += _JUMPS[int(action.which * len(_JUMPS))]
        self.known.counts["clock jumps"] += 1

    async def _cut_reader(self, action: Action) -> None:
        self._reader.cut()
        self.known.counts["cuts"] += 1

    async def _read(self, action: Action) -> None:
        await self._reader.read(1 + int(action.how * 20))

    async def _crash(self, action: Action) -> None:
        """Start another server on the files of this moment. What the old one does later is lost."""
        home = self.directory / f"home{self._servers + 1}"
        self._copy_files(home)
        self._crashed = True
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._faults.heal()
        await self._context.__aexit__(None, None, None)
        self.known.counts["crashes"] += 1
        await self._open(home)
        await self._reconnect()

    def _copy_files(self, home: Path) -> None:
        """Blocks the event loop, so that no server continues meanwhile."""
        old, new = (Locations.from_env({"HOLDFAST_HOME": str(each)}) for each in (self._home, home))
        new.data_dir.mkdir(parents=True, mode=0o700)
        with closing(sqlite3.connect(old.database)) as source, closing(sqlite3.connect(new.database)) as target:
            source.backup(target)
        for file, copy in ((log_path(old.database), log_path(new.database)), (old.intents_file, new.intents_file)):
            if file.exists():
                shutil.copyfile(file, copy)

    async def _restart(self, action: Action) -> None:
        """Stop the server on purpose, and start another one on the same files."""
        stopped = await self._app.engine.stop()
        unfinished = await self._app.store.unfinished_runs()
        states = {run.id: run.state for run in unfinished}
        assert not stopped or set(states.values()) <= {"queued", "waiting"}, f"W5: after a stop, {states}"
        await self._settle_requests()
        await self._context.__aexit__(None, None, None)
        self.known.counts["stops"] += 1
        await self._open(self._home)
        await self._reconnect()

    async def _reconnect(self) -> None:
        self._reader.hub = self._app.hub
        self._reader.cut()

    async def abandon(self) -> None:
        """Close the server after a failure, in bounded time."""
        for task in self._tasks:
            task.cancel()
        with suppress(Exception):
            await asyncio.wait_for(self._context.__aexit__(None, None, None), 1)

    async def _settle_requests(self) -> None:
        while self._tasks:
            await asyncio.wait(self._tasks)

    async def _finish(self) -> None:
        """Heal everything, let all runs end, and check the promises."""
        self._faults.heal()
        await self._settle_requests_and_approvals()
        for session_id in self.known.sessions:
            await self._drain(session_id)
        await self._settle_requests()
        await self._settle_lanes()
        await check_promises(self._app.store, self.known, self._reader)
        for session_id in self.known.sessions:
            await self._app.engine.resume(session_id)
            request = RunRequest(prompt="bye", model="offline/demo", mode="auto")
            last = await self._app.engine.accept(session_id, request, client="a", body_hash="bye")
            ended = await self._app.engine.wait_run(last.run.id, timeout=20)
            assert (ended.state, ended.text) == ("completed", "That is all."), "C6: the next prompt is not answered"
        await self._context.__aexit__(None, None, None)
        self.known.counts["commits refused"] += self._faults.refused

    async def _settle_lanes(self) -> None:
        """A cancel that could not be written is answered, and retried after that."""
        mailboxes = self._app.engine._state.mailboxes
        while workers := [mailbox._worker for mailbox in mailboxes.values() if mailbox._worker is not None]:
            await asyncio.wait(workers)

    async def _settle_requests_and_approvals(self) -> None:
        """Cancels wait for the ends of their runs, and runs for approvals."""
        while self._tasks:
            await asyncio.wait(self._tasks, timeout=0.005)
            await self._answer_all()

    async def _answer_all(self) -> None:
        for approval in (await self._app.store.open_approvals()).items:
            for decision in ("once", "deny"):
                with suppress(CallerError):  # closed, by the first answer or meanwhile
                    await self._decide(approval.id, approval.call_id, decision)

    async def _drain(self, session_id: str) -> None:
        engine, store = self._app.engine, self._app.store
        hangs = any(prompt.hangs for prompt in self.plan.prompts)
        for _ in range(400):
            unfinished = await store.unfinished_runs(session_id=session_id)
            if not unfinished:
                return
            await self._answer_all()
            if (await engine.queue(session_id)).paused:
                await engine.resume(session_id)
            active = next((run.id for run in unfinished if run.state in ("active", "stopping")), unfinished[0].id)
            ended = await engine.wait_run(active, timeout=_HANG_SECONDS)
            if ended.state == "active" and hangs:
                await self._cancel(session_id, engine.cancel_run(active))
        raise AssertionError(f"R5: {[run.id for run in unfinished]} are stranded")


async def play_schedule(directory: Path, seed: int, *, asking: float = 0.3) -> Counter[str]:
    server = ScheduledServer(directory, FaultPlan(seed, asking=asking))
    try:
        return await asyncio.wait_for(server.play(), 60)
    except BaseException as error:
        error.add_note(f"schedule with seed {seed}: {', '.join(server.log)}")
        await server.abandon()
        raise
