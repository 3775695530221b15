"""Background jobs and their tools, `job_output` and `job_kill`.

A job is a command that outlives its call and its run. It ends with its workspace at the latest. A `JobTable` holds the
jobs of a workspace in memory; its owner passes `on_change` to record them. A job runs until its process tree has ended.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Annotated, Any, ClassVar

import msgspec
from msgspec import Meta

from holdfast.errors import HoldfastError, ToolError
from holdfast.schema.approvals import Effect, Subject
from holdfast.schema.sessions import Job
from holdfast.tools.process.output_capture import CapturedCommand
from holdfast.tools.protocol import ToolContext, ToolOutput, ToolPlan

logger = logging.getLogger(__name__)

_MAX_FINISHED = 100
_MAX_WAIT_SECONDS = 600.0


class _JobEntry:
    """A job and its command."""

    def __init__(self, job: Job, command: CapturedCommand) -> None:
        self.job = job
        self.command = command
        self.kill_wanted = False
        self.ended = asyncio.Event()
        self.watcher: asyncio.Task[None] | None = None
        self.shown: dict[str, int] = {}
        """Bytes of the output that each session has read."""
        self.end_seen: set[str] = set()
        """The sessions that have read its end."""


class JobTable:
    """The jobs of one workspace."""

    def __init__(self, *, on_change: Callable[[Job], Awaitable[None]], now: Callable[[], str]) -> None:
        self._on_change = on_change
        self._now = now
        self._entries: dict[str, _JobEntry] = {}
        self._closed = False

    def for_session(self, session_id: str) -> SessionJobs:
        """Return the table for one session, which reads each job's output from its own position."""
        return SessionJobs(self, session_id)

    def list(self) -> tuple[Job, ...]:
        return tuple(entry.job for entry in self._entries.values())

    @property
    def running(self) -> tuple[Job, ...]:
        """Running jobs, which keep the workspace loaded (W2)."""
        return tuple(job for job in self.list() if job.state == "running")

    async def adopt(self, job: Job, command: CapturedCommand, *, shown: int = 0, session_id: str | None = None) -> None:
        """Take over a running command. If the job cannot be recorded, the caller keeps the command."""
        if self._closed:
            raise ToolError("the workspace is closing; a background job cannot be started")
        entry = self._entries[job.id] = _JobEntry(job, command)
        entry.shown[session_id or job.session_id] = shown
        try:
            await command.capture.keep_in_file()
            await self._on_change(job)
        except BaseException:
            del self._entries[job.id]
            entry.ended.set()
            raise
        entry.watcher = asyncio.create_task(self._watch(entry), name=f"job:{job.id}")
        self._forget_oldest()

    async def read(self, job_id: str, *, session_id: str, wait: float = 0.0) -> tuple[Job, str]:
        """Return the job and its output since the session's last read. Waits up to `wait` seconds for its end."""
        entry = self._entry(job_id)
        if wait > 0 and not entry.ended.is_set():
            await _wait(entry.ended, min(wait, _MAX_WAIT_SECONDS))
        text, entry.shown[session_id] = await entry.command.capture.since(entry.shown.get(session_id, 0))
        if entry.ended.is_set():
            entry.end_seen.add(session_id)
        return entry.job, text

    async def kill(self, job_id: str, *, session_id: str | None = None) -> Job:
        """Kill a job. Returns when its processes are dead; the job names those that survived."""
        entry = self._entry(job_id)
        entry.kill_wanted = True
        if session_id is not None:
            entry.end_seen.add(session_id)
        await entry.command.kill()
        await entry.ended.wait()
        return entry.job

    def unseen_ends(self, session_id: str) -> tuple[Job, ...]:
        """Return the jobs of a session that have ended, and whose end it has not read."""
        return tuple(
            entry.job
            for entry in self._entries.values()
            if entry.job.session_id == session_id and entry.ended.is_set() and session_id not in entry.end_seen
        )

    async def close(self) -> tuple[str, ...]:
        """Kill all jobs at once. Returns the processes that survived."""
        self._closed = True
        jobs = await asyncio.gather(*(self.kill(job.id) for job in self.running))
        return tuple(name for job in jobs for name in job.left_running)

    def _entry(self, job_id: str) -> _JobEntry:
        if entry := self._entries.get(job_id):
            return entry
        known = ", ".join(self._entries) or "none"
        raise ToolError(f"job {job_id!r} does not exist; jobs of this workspace: {known}")

    async def _watch(self, entry: _JobEntry) -> None:
        await entry.command.wait_ended()
        running = entry.command.running
        was_killed = entry.kill_wanted or entry.command.timed_out
        entry.job = msgspec.structs.replace(
            entry.job,
            state="killed" if was_killed else "exited",
            exit_code=running.exit_code,
            finished_at=self._now(),
            left_running=running.kill_result.left,
        )
        try:
            await self._on_change(entry.job)
        except HoldfastError as error:
            logger.warning("cannot record the end of job %s: %s", entry.job.id, error)
        finally:
            entry.ended.set()

    def _forget_oldest(self) -> None:
        finished = [job_id for job_id, entry in self._entries.items() if entry.ended.is_set()]
        for job_id in finished[:-_MAX_FINISHED]:
            del self._entries[job_id]


class SessionJobs:
    """The `Jobs` of one session's tool contexts."""

    def __init__(self, table: JobTable, session_id: str) -> None:
        self._table = table
        self._session_id = session_id

    async def adopt(self, job: Job, process: CapturedCommand, *, shown: int = 0) -> None:
        await self._table.adopt(job, process, shown=shown, session_id=self._session_id)

    async def read(self, job_id: str, *, wait: float = 0.0) -> tuple[Job, str]:
        return await self._table.read(job_id, session_id=self._session_id, wait=wait)

    async def kill(self, job_id: str) -> Job:
        return await self._table.kill(job_id, session_id=self._session_id)

    def list(self) -> tuple[Job, ...]:
        return self._table.list()


class JobOutputArguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    job: Annotated[str, Meta(description="Id of the job.")]
    wait: Annotated[
        float, Meta(description="Wait up to this many seconds for the job to end.", ge=0, le=_MAX_WAIT_SECONDS)
    ] = 0


class JobOutputTool:
    name: ClassVar[str] = "job_output"
    description: ClassVar[str] = (
        "Read the output of a background job since your last read, and whether the job still runs."
    )
    arguments: ClassVar[type[Any]] = JobOutputArguments
    effect: ClassVar[Effect] = "none"
    parallel: ClassVar[bool] = True

    async def plan(self, arguments: JobOutputArguments, context: ToolContext) -> ToolPlan:
        return ToolPlan(Subject(tool=self.name, effect="none", title=arguments.job))

    async def run(self, arguments: JobOutputArguments, context: ToolContext, plan: ToolPlan) -> ToolOutput:
        job, text = await context.jobs.read(arguments.job, wait=arguments.wait)
        return ToolOutput(context.redact(f"{text or '(no new output)'}\n{_describe_state(job)}"), display=_display(job))


class JobKillArguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    job: Annotated[str, Meta(description="Id of the job.")]


class JobKillTool:
    name: ClassVar[str] = "job_kill"
    description: ClassVar[str] = "Kill a background job and all processes that it started."
    arguments: ClassVar[type[Any]] = JobKillArguments
    effect: ClassVar[Effect] = "none"
    parallel: ClassVar[bool] = True

    async def plan(self, arguments: JobKillArguments, context: ToolContext) -> ToolPlan:
        return ToolPlan(Subject(tool=self.name, effect="none", title=arguments.job))

    async def run(self, arguments: JobKillArguments, context: ToolContext, plan: ToolPlan) -> ToolOutput:
        job = await context.jobs.kill(arguments.job)
        return ToolOutput(
            context.redact(_describe_state(job)),
            status="error" if job.left_running else "ok",
            display=_display(job),
            killed=(job.command,) if job.state == "killed" else (),
            left_running=job.left_running,
        )


async def _wait(event: asyncio.Event, seconds: float) -> None:
    try:
        async with asyncio.timeout(seconds):
            await event.wait()
    except TimeoutError:
        return


def _describe_state(job: Job) -> str:
    if job.left_running:
        return f"[{job.id}: killed, but these processes survived: {'; '.join(job.left_running)}]"
    match job.state:
        case "running":
            return f"[{job.id}: running since {job.started_at}]"
        case "exited" | "killed":
            return f"[{job.id}: {job.state}, exit code {job.exit_code}]"
        case "lost":
            return f"[{job.id}: lost; the server that ran it has ended]"


def _display(job: Job) -> dict[str, object]:
    return {"job_id": job.id, "state": job.state, "exit_code": job.exit_code, "command": job.command}
