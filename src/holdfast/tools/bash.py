"""`bash`: run a shell command in the workspace.

A call ends in one of five ways. The command exits. Its time-out kills it. It takes long, or was started in the
background, and becomes a job. It exits but leaves processes running, which become a job. Or the call is cancelled and
the process tree is killed; the result then names what was killed.
"""

from __future__ import annotations

import asyncio
import logging
import re
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, NamedTuple, TypeAlias

import msgspec
from msgspec import Meta

from holdfast.config.redaction import MARK
from holdfast.errors import CommitRefused, ToolError
from holdfast.files import find_program
from holdfast.schema.approvals import Effect, Escalation, Subject
from holdfast.schema.sessions import Job
from holdfast.tasks import finish_despite_cancel
from holdfast.tools.command_limits import command_limits, describe_block, describe_restored
from holdfast.tools.editor_command import run_in_editor
from holdfast.tools.process.command_process import NON_INTERACTIVE, CommandLauncher, CommandSpec
from holdfast.tools.process.output_capture import CapturedCommand, OutputCapture
from holdfast.tools.process.protected_files import ProtectedFiles, ProtectedState
from holdfast.tools.process.read_only_environment import read_only_environment
from holdfast.tools.process.sandbox import ConfinedCommand, SandboxBackend
from holdfast.tools.process.sandbox_limits import SandboxLimits
from holdfast.tools.protocol import ToolContext, ToolOutput, ToolPlan

_log = logging.getLogger(__name__)

_MAX_COMMAND_BYTES = 120_000
"""In bytes. The kernel accepts 131,072 for one argument."""
_SETTLE_SECONDS = 0.3
"""How long processes that an exited command left may take to end."""
_BACKGROUND_SECONDS = 0.5
"""How long to wait for a command that was started in the background, to report an immediate failure."""

_Ending = Literal["ended", "left", "slow"]
_Status = Literal["ok", "error", "cancelled"]


class BashArguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    command: Annotated[str, Meta(description="The command line.", min_length=1)]
    timeout: Annotated[
        float, Meta(description="Kill the command after this many seconds; 0 means never.", ge=0, le=86_400)
    ] = 0
    background: Annotated[bool, Meta(description="Start the command as a background job and return.")] = False
    escalate: Annotated[
        Literal["no", "network", "unconfined"],
        Meta(description="Ask the user to run it with the network or without the sandbox, if the sandbox blocked it."),
    ] = "no"
    reason: Annotated[str, Meta(description="Why escalation is needed.")] = ""


class BashTool:
    """Runs shell commands with the server's launcher."""

    name: ClassVar[str] = "bash"
    description: ClassVar[str] = (
        "Run a command with bash in the workspace directory, without a terminal and without input. Each call is a new"
        " shell: use cd and && within one call. Long output is shortened in the middle and stored whole in a file. A"
        " command that takes long continues as a background job (see job_output and job_kill). Prefer view, grep,"
        " glob, edit and write to cat, find, sed and echo."
    )
    arguments: ClassVar[type[Any]] = BashArguments
    effect: ClassVar[Effect] = "runs"
    parallel: ClassVar[bool] = False

    def __init__(self, launcher: CommandLauncher, *, is_persons: bool = False) -> None:
        self.launcher = launcher
        self._is_persons = is_persons
        """Whether it runs a person's own commands, which are not confined."""
        self._protected: dict[Path, ProtectedFiles] = {}

    async def plan(self, arguments: BashArguments, context: ToolContext) -> ToolPlan:
        if len(arguments.command.encode("utf-8", "replace")) > _MAX_COMMAND_BYTES:
            raise ToolError("the command is too long for one call; write it to a file and run the file")
        if MARK in arguments.command and not self._is_persons and _WRITES_TEXT.search(arguments.command):
            raise ToolError(
                f"the command contains {MARK!r}, which stands for a secret that you cannot see; writing it to a file"
                " would destroy the real value. Nothing was run. Leave the lines with secrets out, or ask the user to"
                " change them",
                code="masked_text",
            )
        escalation = await self._escalation(arguments, context)
        subject = Subject(
            tool=self.name,
            effect="runs",
            title=arguments.command,
            command=arguments.command,
            cwd=str(context.workspace),
            search_path=context.environment.get("PATH", ""),
            escalation=escalation,
        )
        display = {"escalation": escalation, "reason": arguments.reason} if escalation else {}
        return ToolPlan(subject, display=display)

    async def _escalation(self, arguments: BashArguments, context: ToolContext) -> Escalation | None:
        """Return what the call asks for beyond the sandbox; ``None`` if nothing confines it."""
        server = context.settings.server
        if arguments.escalate == "no" or self._is_persons:
            return None
        if await self.launcher.sandbox.backend(server.sandbox) is None:
            return None
        if arguments.escalate == "unconfined":
            return "unconfined"
        if server.sandbox_network == "off":
            raise ToolError("server.sandbox_network is 'off': commands get no network; ask the user to run it")
        return "network" if server.sandbox_network == "ask" else None

    async def run(self, arguments: BashArguments, context: ToolContext, plan: ToolPlan) -> ToolOutput:
        watch = None if plan.read_only or self._is_persons else context.command_watch
        if watch is None:
            return await self._run(arguments, context, plan)
        _, cancelled = await finish_despite_cancel(watch.begin())
        try:
            if cancelled:
                raise asyncio.CancelledError
            output = await self._run(arguments, context, plan)
        except BaseException:
            await finish_despite_cancel(watch.end())
            raise
        try:
            await finish_despite_cancel(watch.end())
        except CommitRefused as error:
            if output.status != "cancelled":
                raise
            # The receipt must name what was killed, also on a full disk. The next command records the files.
            _log.warning("the files that call %s changed are not recorded yet: %s", context.call_id, error)
        return output

    async def _run(self, arguments: BashArguments, context: ToolContext, plan: ToolPlan) -> ToolOutput:
        editor = None if arguments.background else context.editor
        if editor is not None and editor.can_run and await self._is_free(context, plan):
            return await run_in_editor(arguments.command, context, editor, timeout=arguments.timeout)
        began = _StartTime(time.monotonic(), context.now())
        (command, limits, restore), cancelled = await finish_despite_cancel(self._start(arguments, context, plan))
        call = _BashCall(arguments, context, command, began, limits=limits, restore=restore)
        if cancelled:
            return await call.cancel()
        try:
            ending = await call.wait()
        except asyncio.CancelledError:
            return await call.cancel()
        return call.report() if ending == "ended" else await call.become_job(ending)

    async def _is_free(self, context: ToolContext, plan: ToolPlan) -> bool:
        """Whether the command may do whatever the user may do, so that it can run in a terminal of the editor."""
        if plan.read_only or self._is_persons:
            return False
        if plan.subject.escalation == "unconfined":
            return True
        return await self.launcher.sandbox.backend(context.settings.server.sandbox) is None

    async def _start(
        self, arguments: BashArguments, context: ToolContext, plan: ToolPlan
    ) -> tuple[CapturedCommand, SandboxLimits | None, _Restore]:
        escalation = plan.subject.escalation
        environment = {**context.environment, **NON_INTERACTIVE}
        if plan.read_only:
            environment = read_only_environment(environment, directory=context.workspace)
        protected = self._protected.setdefault(context.workspace, ProtectedFiles(context.workspace))
        backend: SandboxBackend | None = None
        if not self._is_persons and escalation != "unconfined":
            backend = await self.launcher.sandbox.backend(context.settings.server.sandbox)
        if backend is not None:
            environment["TMPDIR"] = str(context.temporary)
        confined, before, limits = await asyncio.to_thread(
            self._prepare,
            arguments.command,
            context,
            protected,
            search_path=environment.get("PATH", ""),
            backend=backend,
            network=escalation == "network",
        )

        rejected = context.outputs / "rejected"

        async def restore() -> str:
            if before is None:
                return ""
            restored = await asyncio.to_thread(protected.restore, before, rejected=rejected)
            return describe_restored(tuple(dict.fromkeys((*before.restored, *restored))), rejected)

        async def before_end() -> str:
            if before is None:
                protected.unconfined_ended()
                return ""
            try:
                return await restore()
            finally:
                protected.end(before)

        capture = OutputCapture(
            context.outputs / f"{context.call_id}.txt", redact_stream=context.redact_stream, emit=context.emit
        )
        command = CommandSpec(
            confined.argv, context.workspace, environment, mark=context.call_id, confinement=confined.confinement
        )
        if before is None:
            protected.unconfined_started()
        try:
            captured = await CapturedCommand.start(self.launcher, command, capture, before_end=before_end)
        except BaseException:
            if before is None:
                protected.unconfined_ended()
            else:
                protected.end(before)
            raise
        if arguments.timeout:
            captured.kill_after(arguments.timeout)
        return captured, limits, restore

    def _prepare(
        self,
        command: str,
        context: ToolContext,
        protected: ProtectedFiles,
        *,
        search_path: str,
        backend: SandboxBackend | None,
        network: bool,
    ) -> tuple[ConfinedCommand, ProtectedState | None, SandboxLimits | None]:
        """Return what to start, the protected files as they are, and the limits. Blocking."""
        program = find_program("bash", search_path, outside=context.workspace)
        argv = (program or "bash", "-c", command)
        if backend is None:
            return ConfinedCommand(argv), None, None
        context.temporary.mkdir(mode=0o700, parents=True, exist_ok=True)
        limits = command_limits(context)
        limits = msgspec.structs.replace(limits, network=True) if network else limits
        confined = self.launcher.sandbox.confine(argv, limits, backend=backend, directory=context.workspace)
        return confined, protected.begin(rejected=context.outputs / "rejected"), limits


_WRITES_TEXT = re.compile(r"<<|\btee\b|\bsed\b[^|;&\n]*\s-[a-zA-Z]*i|(?<![0-9&<>])>(?!\s*(?:/dev/null|&))|1>(?!&)")
"""A here-document, a redirection to a file, or another usual way to write a text that the command contains."""

_Restore: TypeAlias = Callable[[], Awaitable[str]]
"""Puts back what the command changed and may not change; returns a notice for the model."""


class _StartTime(NamedTuple):
    clock: float
    at: str


class _BashCall:
    """One call, its command, and how it ends."""

    def __init__(
        self,
        arguments: BashArguments,
        context: ToolContext,
        command: CapturedCommand,
        began: _StartTime,
        *,
        limits: SandboxLimits | None,
        restore: _Restore,
    ) -> None:
        self._limits = limits
        self._restore = restore
        self._arguments = arguments
        self._context = context
        self._command = command
        self._began = began

    async def wait(self) -> _Ending:
        """Wait until the call is over. The command may go on."""
        seconds = _BACKGROUND_SECONDS if self._arguments.background else self._context.settings.tools.bash_background
        ended, exited = self._command.ended, self._command.running.exited
        tree_ended = self._command.running.tree_ended
        await asyncio.wait((ended, exited), timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        if exited.done() and not ended.done():
            await asyncio.wait((tree_ended,), timeout=_SETTLE_SECONDS)
            if tree_ended.done():
                await asyncio.wait((ended,))
        if ended.done():
            return "ended"
        return "left" if exited.done() else "slow"

    def report(self) -> ToolOutput:
        """Return the result of a command that has ended."""
        code = self._command.running.exit_code
        killed = self._command.running.kill_result
        how = "exit code unknown: the supervisor was killed" if code is None else f"exit code {code}"
        if self._command.timed_out:
            how = f"killed after the time-out of {self._arguments.timeout:g} s"
        return self._output(
            f"[{how}, {self._seconds:.1f} s]{_describe_survivors(killed.left)}{self._describe_sandbox()}",
            status="ok" if code == 0 and not self._command.timed_out else "error",
            killed=killed.killed,
            left=killed.left,
        )

    def _describe_sandbox(self) -> str:
        """Say so if the command failed and its output looks as if the sandbox was the cause."""
        if self._limits is None or self._command.running.exit_code in (0, None):
            return ""
        return describe_block(self._command.capture.answer(), self._limits, self._context)

    async def cancel(self) -> ToolOutput:
        """Kill the tree and return what was killed. A second cancel does not interrupt this."""
        await finish_despite_cancel(self._command.kill())
        killed = self._command.running.kill_result
        text = f"[cancelled after {self._seconds:.1f} s; the command was killed]{_describe_survivors(killed.left)}"
        return self._output(text, status="cancelled", killed=killed.killed, left=killed.left)

    async def become_job(self, ending: _Ending) -> ToolOutput:
        """Hand the command over to the workspace as a background job."""
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
            notice, cancelled_again = await finish_despite_cancel(self._restore())
        except BaseException:
            await finish_despite_cancel(self._command.kill())
            raise
        status: _Status = "ok"
        if ending == "left":
            code, left = self._command.running.exit_code, await self._command.running.processes()
            how = f"exit code {code}, but these processes still run as job {job.id}: {'; '.join(left)}"
            status = "ok" if code == 0 else "error"
        else:
            how = f"still running after {self._seconds:.1f} s, now in the background as job {job.id}"
        return self._output(
            f"[{how}; read new output with job_output, end the job with job_kill]",
            status="cancelled" if cancelled or cancelled_again else status,
            left=(f"{job.id} {job.command}",),
            job=job,
            printed=printed + notice,
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


def _describe_survivors(left: tuple[str, ...]) -> str:
    return f"\n[these processes could not be killed: {'; '.join(left)}]" if left else ""
