"""Runs a shell command in a terminal of the user's editor, for `bash`.

Only commands that run outside the sandbox anyway come here. The editor owns the process: it is killed through the
editor, and nothing verifies that its descendants are dead. So a cancelled command that the editor does not report as
ended is named as still running.
"""

from __future__ import annotations

import asyncio
import time
from typing import Literal

from holdfast.schema.client_tools import EditorCommand, EditorCommandEnd
from holdfast.tasks import finish_despite_cancel
from holdfast.tools.process.output_capture import OutputCapture
from holdfast.tools.protocol import ToolContext, ToolOutput, UserEditor


async def run_in_editor(command: str, context: ToolContext, editor: UserEditor, *, timeout: float) -> ToolOutput:
    """Run a command and return its result. ``timeout`` of 0 means none."""
    began = time.monotonic()
    wanted = EditorCommand("bash", ("-c", command), str(context.workspace), dict(context.environment))
    end: EditorCommandEnd | None
    status: Literal["ok", "error", "cancelled"]
    try:
        async with asyncio.timeout(timeout or None):
            end = await editor.run(wanted)
        how, status = _describe(end), "ok" if end.exit_code == 0 else "error"
    except TimeoutError:
        end, _ = await finish_despite_cancel(editor.stop())
        how, status = f"killed after the time-out of {timeout:g} s", "error"
    except asyncio.CancelledError:
        end, _ = await finish_despite_cancel(editor.stop())
        how, status = "cancelled; the user's editor was told to kill the command", "cancelled"
    seconds = time.monotonic() - began
    output = OutputCapture(
        context.outputs / f"{context.call_id}.txt", redact_stream=context.redact_stream, emit=context.emit
    )
    await output.feed((end.output if end else "").encode("utf-8", "replace"), final=True)
    printed = output.answer().rstrip() or "(no output)"
    cut = "[the beginning of the output was dropped]\n" if end and end.truncated else ""
    left = () if end else (f"in a terminal of the user's editor: {command}",)
    survives = "" if end else "\n[the editor has not said that the command has ended]"
    return ToolOutput(
        context.redact(f"{cut}{printed}\n[{how}, {seconds:.1f} s] [in a terminal of the user's editor]{survives}"),
        status=status,
        display={"exit_code": end.exit_code if end else None, "seconds": round(seconds, 3)},
        left_running=tuple(context.redact(one) for one in left),
        output_path=output.stored_path,
    )


def _describe(end: EditorCommandEnd) -> str:
    if end.exit_code is not None:
        return f"exit code {end.exit_code}"
    return f"ended by {end.signal}" if end.signal else "exit code unknown"
