"""`bash`: a shell command in the workspace, shown live, bounded, and ended for certain.

A call ends in one of five ways: the command ended; it was killed by its own time-out; it takes long (or was asked for
in the background) and is a job from then on; it ended but left processes behind, which are a job too; or the call was
cancelled, and the whole tree was killed. Cancelled, it returns a result that says what was killed instead of raising.
"""

from __future__ import annotations

import asyncio
import time
from typing import Annotated, Any, ClassVar, Literal, NamedTuple

import msgspec
from msgspec import Meta

from holdfast.errors import ToolError
from holdfast.schema.approvals import Effect, Subject
from holdfast.schema.sessions import Job
from holdfast.tasks import finish_despite_cancel
from holdfast.tools.process.command_process import NON_INTERACTIVE, CommandLauncher, CommandSpec
from holdfast.tools.process.output_capture import CapturedCommand, OutputCapture
from holdfast.tools.process.sandbox import CommandSandbox
from holdfast.tools.protocol import ToolContext, ToolOutput, ToolPlan

_LONGEST_COMMAND = 120_000
"""Bytes; the kernel takes 131,072 as one argument."""
_SETTLE_SECONDS = 0.3
"""How long what a finished command left behind may take to end by itself."""
_BACKGROUND_SECONDS = 0.5
"""How long a command that was asked for in the background may take to fail at once."""

_Ending = Literal["ended", "left", "slow"]
_Status = Literal["ok", "error", "cancelled"]


class BashArguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    command: Annotated[str, Meta(description="The command line.", min_length=1)]
    timeout: Annotated[float, Meta(description="Kill it after this many seconds; 0: never.", ge=0, le=86_400)] = 0
    background: Annotated[bool, Meta(description="Start it as a background job and go on.")] = False


class BashTool:
    """Runs shell commands. One per workspace: it owns the keeper of their processes."""

    name: ClassVar[str] = "bash"
    description: ClassVar[str] = (
        "Run a command with bash in the workspace directory. No terminal and no input. Each call is a new shell: chain"
        " with && and use cd within one call. Long output is cut in the middle and kept whole in a file. A command"
        " that takes long goes on as a background job (see job_output, job_kill). Prefer view, grep, glob, edit and"
        " write to cat, find, sed and echo."
    )
    arguments: ClassVar[type[Any]] = BashArguments
    effect: ClassVar[Effect] = "runs"
    parallel: ClassVar[bool] = False

    def __init__(self) -> None:
        self.launcher = CommandLauncher()
        self._sandboxes = CommandSandbox()

    async def close(self) -> None:
        """After the workspace's jobs have ended."""
        await self.launcher.close()

    async def plan(self, arguments: BashArguments, context: ToolContext) -> ToolPlan:
        if len(arguments.command.encode("utf-8", "replace")) > _LONGEST_COMMAND:
            raise ToolError("the command is too long for one call; write it to a file and run that")
        subject = Subject(
            tool=self.name,
            effect="runs",
            title=arguments.command,
            command=arguments.command,
            cwd=str(context.workspace),
        )
        return ToolPlan(subject)

    async def run(self, arguments: BashArguments, context: ToolContext, plan: ToolPlan) -> ToolOutput:
        began = _StartTime(time.monotonic(), context.now())
        command, cancelled = await finish_despite_cancel(self._start(arguments, context))
        call = _BashCall(arguments, context, command, began)
        if cancelled:
            return await call.cancel()
        try:
            ending = await call.wait()
        except asyncio.CancelledError:
            return await call.cancel()
        return call.report() if ending == "ended" else await call.become_job(ending)

    async def _start(self, arguments: BashArguments, context: ToolContext) -> CapturedCommand:
        environment = {**context.environment, **NON_INTERACTIVE}
        mode = context.settings.server.sandbox
        temporary = context.outputs / "tmp"
        argv = await self._sandboxes.confine(
            ("bash", "-c", arguments.command), mode=mode, workspace=context.workspace, temporary=temporary
        )
        if mode != "off":
            environment["TMPDIR"] = str(temporary)
        capture = OutputCapture(context.outputs / f"{context.call_id}.txt", redact=context.redact, emit=context.emit)
        command = CommandSpec(argv, context.workspace, environment, mark=context.call_id)
        live = await CapturedCommand.start(self.launcher, command, capture)
        if arguments.timeout:
            live.kill_after(arguments.timeout)
        return live


class _StartTime(NamedTuple):
    clock: float
    at: str


class _BashCall:
    """One call's command and how it ends."""

    def __init__(
        self, arguments: BashArguments, context: ToolContext, command: CapturedCommand, began: _StartTime
    ) -> None:
        self._arguments = arguments
        self._context = context
        self._command = command
        self._began = began

    async def wait(self) -> _Ending:
        """Until the call is over, whatever becomes of the command."""
        patience = _BACKGROUND_SECONDS if self._arguments.background else self._context.settings.tools.bash_background
        ended = asyncio.ensure_future(self._command.wait_ended())
        exited = asyncio.ensure_future(self._command.running.wait_exited())
        try:
            await asyncio.wait((ended, exited), timeout=patience, return_when=asyncio.FIRST_COMPLETED)
            if exited.done() and not ended.done():
                await asyncio.wait((ended,), timeout=_SETTLE_SECONDS)
            if ended.done():
                return "ended"
            return "left" if exited.done() else "slow"
        finally:
            ended.cancel()
            exited.cancel()

    def report(self) -> ToolOutput:
        """The command has ended: what it printed and how."""
        code = self._command.running.exit_code
        death = self._command.running.death
        how = "ended with its supervisor" if code is None else f"exit code {code}"
        if self._command.timed_out:
            how = f"killed: it took longer than {self._arguments.timeout:g} s"
        return self._output(
            f"[{how}, {self._seconds:.1f} s]{_named(death.left)}",
            status="ok" if code == 0 and not self._command.timed_out else "error",
            killed=death.killed,
            left=death.left,
        )

    async def cancel(self) -> ToolOutput:
        """Kill the tree and say what was killed; a second cancel does not interrupt that."""
        await finish_despite_cancel(self._command.kill())
        death = self._command.running.death
        text = f"[cancelled after {self._seconds:.1f} s; the command was killed]{_named(death.left)}"
        return self._output(text, status="cancelled", killed=death.killed, left=death.left)

    async def become_job(self, ending: _Ending) -> ToolOutput:
        """The command is the workspace's from now on."""
        context = self._context
        job = Job(
            id=context.new_id("job"),
            workspace_id=context.workspace_id,
            session_id=context.session_id,
            run_id=context.run_id,
            call_id=context.call_id,
            command=context.redact(self._arguments.command),
            output_path=str(self._command.capture.path),
            started_at=self._began.at,
        )
        printed, shown = self._command.capture.answer(), self._command.capture.size
        try:
            _, cancelled = await finish_despite_cancel(context.jobs.adopt(job, self._command, shown=shown))
        except BaseException:
            await finish_despite_cancel(self._command.kill())
            raise
        status: _Status = "ok"
        if ending == "left":
            code, names = self._command.running.exit_code, await self._command.running.names()
            how = f"exit code {code}, but it left running: {'; '.join(names)}. That is job {job.id} now"
            status = "ok" if code == 0 else "error"
        else:
            how = f"still running after {self._seconds:.1f} s, in the background as job {job.id}"
        return self._output(
            f"[{how}; read on with job_output, end it with job_kill]",
            status="cancelled" if cancelled else status,
            left=(f"{job.id} {job.command}",),
            job=job,
            printed=printed,
        )

    def _output(
        self,
        ending: str,
        *,
        status: _Status,
        killed: tuple[str, ...] = (),
        left: tuple[str, ...] = (),
        job: Job | None = None,
        printed: str | None = None,
    ) -> ToolOutput:
        printed = self._command.capture.answer() if printed is None else printed
        text = f"{printed.rstrip()}\n{ending}" if printed.strip() else f"(no output)\n{ending}"
        display: dict[str, object] = {"exit_code": self._command.running.exit_code, "seconds": round(self._seconds, 3)}
        if job:
            display["job_id"] = job.id
        redact = self._context.redact
        return ToolOutput(
            redact(text),
            status=status,
            display=display,
            killed=tuple(redact(name) for name in killed),
            left_running=tuple(redact(name) for name in left),
            output_path=self._command.capture.stored_path,
        )

    @property
    def _seconds(self) -> float:
        return time.monotonic() - self._began.clock


def _named(left: tuple[str, ...]) -> str:
    return f"\n[these processes would not die and were given up: {'; '.join(left)}]" if left else ""
