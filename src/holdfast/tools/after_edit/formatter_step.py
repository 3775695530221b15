"""Formats the files that a call wrote.

A formatter reads the text from stdin and writes it to stdout, so it changes no file itself: the result is written like
an edit, only if the file is still as the call left it, and can be undone. It runs under the supervisor and confined: it
cannot write the workspace and has no network. Without a sandbox only a configured formatter runs, because others can
run code of the project that the agent has just written.

A formatter that was found in the project is used only for a new file, or for one that was formatted before the edit:
otherwise a small edit would become a large one.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import NamedTuple

from holdfast.errors import ToolError
from holdfast.tasks import finish_despite_cancel
from holdfast.tools.after_edit.edit_steps import EditPhase
from holdfast.tools.after_edit.formatter_choice import Formatter, choose_formatter
from holdfast.tools.files.file_access import MAX_FILE_BYTES, content_hash, display_path, read_file
from holdfast.tools.files.file_changes import LoadedFile, clean_text, make_draft, plan_writes, write_drafts
from holdfast.tools.process.command_process import NON_INTERACTIVE, CommandLauncher, CommandSpec
from holdfast.tools.process.output_capture import CapturedCommand, OutputCapture
from holdfast.tools.process.sandbox import ConfinedCommand, SandboxBackend
from holdfast.tools.process.sandbox_limits import sandbox_limits
from holdfast.tools.protocol import ToolContext

_SCRIPT = 'in=$1; out=$2; shift 2; exec "$@" <"$in" >"$out"'
_MAX_DIFF_LINES = 80
_MAX_ERROR = 600
_UNSEEN = "formatted"
"""Recorded as the read content of a file of which the model did not see all changes, so that it must view it again."""


class _Formatted(NamedTuple):
    text: bytes | None
    """None: the formatter failed."""
    problem: str = ""


class FormatterStep:
    name = "format"
    phase: EditPhase = "format"

    def __init__(self, launcher: CommandLauncher, *, seconds: float) -> None:
        self._launcher = launcher
        self.seconds = seconds

    async def run(self, paths: tuple[Path, ...], context: ToolContext) -> str:
        notes = []
        for path in paths:
            formatter = await asyncio.to_thread(
                choose_formatter, path, context.workspace, context.settings, context.environment
            )
            if formatter is not None and (formatter.is_configured or await self._is_confined(context)):
                notes.append(await self._format(path, formatter, context))
        return "\n".join(note for note in notes if note)

    async def _is_confined(self, context: ToolContext) -> bool:
        return await self._launcher.sandbox.backend(context.settings.server.sandbox) is not None

    async def _format(self, path: Path, formatter: Formatter, context: ToolContext) -> str:
        data = await asyncio.to_thread(read_file, path)
        if data is None:
            return ""
        name = display_path(path, context.workspace)
        done = await self._run(formatter, data, context)
        if done.text is None:
            return clean_text(context, f"[{formatter.name} could not format {name}: {done.problem}]")
        if done.text == data or (not done.text and data):
            return ""
        if not formatter.is_configured and not await self._was_formatted(path, formatter, context):
            return f"[{name} was not formatted with {formatter.name} before, so it was left as it is]"
        draft = make_draft(LoadedFile(path, name, data, content_hash(data)), done.text)
        await write_drafts([draft], context, plan_writes("format", [draft], context, title=name))
        lines = draft.diff.text.splitlines()
        told = f"[{formatter.name} formatted {name}:]\n"
        if len(lines) <= _MAX_DIFF_LINES:
            return clean_text(context, told + "\n".join(lines))
        await context.files.record_read(path, _UNSEEN)
        return f"[{formatter.name} formatted {name} ({draft.diff.counts} lines); view it before you edit it again]"

    async def _was_formatted(self, path: Path, formatter: Formatter, context: ToolContext) -> bool:
        before = await context.files.content_before(path)
        if not before:
            return True
        return (await self._run(formatter, before, context)).text == before

    async def _run(self, formatter: Formatter, data: bytes, context: ToolContext) -> _Formatted:
        base = context.temporary / f"{context.call_id}-format"
        given, made = base.with_suffix(".in"), base.with_suffix(".out")
        try:
            confined = await self._prepare(formatter, data, context, given=given, made=made)
            capture = OutputCapture(
                base.with_suffix(".txt"), redact_stream=context.redact_stream, emit=lambda text: None
            )
            environment = {**context.environment, **NON_INTERACTIVE, "TMPDIR": str(context.temporary)}
            command = CommandSpec(
                confined.argv,
                context.workspace,
                environment,
                mark=f"{context.call_id}-format",
                confinement=confined.confinement,
            )
            running, cancelled = await finish_despite_cancel(CapturedCommand.start(self._launcher, command, capture))
            try:
                if cancelled:
                    raise asyncio.CancelledError
                await running.wait_ended()
            except asyncio.CancelledError:
                await finish_despite_cancel(running.kill())
                raise
            code = running.running.exit_code
            if code != 0:
                return _Formatted(None, f"exit code {code}. {capture.answer().strip()[:_MAX_ERROR]}".strip())
            return _Formatted(await asyncio.to_thread(_read_output, made))
        finally:
            await finish_despite_cancel(asyncio.to_thread(_remove, given, made, base.with_suffix(".txt")))

    async def _prepare(
        self, formatter: Formatter, data: bytes, context: ToolContext, *, given: Path, made: Path
    ) -> ConfinedCommand:
        backend = await self._launcher.sandbox.backend(context.settings.server.sandbox)
        argv = ("bash", "-c", _SCRIPT, "format", str(given), str(made), *formatter.argv)
        return await asyncio.to_thread(self._confine, argv, data, context, given=given, backend=backend)

    def _confine(
        self, argv: tuple[str, ...], data: bytes, context: ToolContext, *, given: Path, backend: SandboxBackend | None
    ) -> ConfinedCommand:
        context.temporary.mkdir(mode=0o700, parents=True, exist_ok=True)
        given.write_bytes(data)
        if backend is None:
            return ConfinedCommand(argv)
        limits = sandbox_limits(
            context.workspace,
            writes_workspace=False,
            temporary=context.temporary,
            hidden=context.hidden,
            visible=context.visible,
            network=False,
        )
        return self._launcher.sandbox.confine(argv, limits, backend=backend, directory=context.workspace)


def _read_output(path: Path) -> bytes:
    data = read_file(path, limit=MAX_FILE_BYTES)
    if data is None:
        raise ToolError("the formatter wrote nothing")
    return data


def _remove(*paths: Path) -> None:
    for path in paths:
        path.unlink(missing_ok=True)
