"""Commands in a terminal of the user's editor: what the model is told."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from holdfast.errors import ToolError
from holdfast.schema.client_tools import EditorCommand, EditorCommandEnd
from holdfast.tools.editor_command import run_in_editor
from holdfast.tools.protocol import ToolOutput
from tests.support.tool_contexts import ToolWorkspace


class FixedEditor:
    """An editor whose commands end as given, or when they are stopped."""

    can_write = False
    can_run = True

    def __init__(self, end: EditorCommandEnd | None, *, stopped: EditorCommandEnd | None = None) -> None:
        self._end = end
        self._stopped = stopped
        self.commands: list[EditorCommand] = []
        self.started = asyncio.Event()

    async def run(self, command: EditorCommand) -> EditorCommandEnd:
        self.commands.append(command)
        self.started.set()
        if self._end is None:
            await asyncio.Event().wait()
        assert self._end is not None
        return self._end

    async def stop(self) -> EditorCommandEnd | None:
        return self._stopped

    async def unsaved(self, path: Path, saved: str) -> tuple[str, ...]:
        raise NotImplementedError

    async def write(self, path: Path, text: str) -> bool:
        raise NotImplementedError


async def _run(directory: Path, editor: FixedEditor, **fields: Any) -> ToolOutput:
    context = ToolWorkspace(directory).context()
    return await run_in_editor("make", context, editor, timeout=fields.get("timeout", 0))


@pytest.mark.parametrize(
    ("end", "status", "told"),
    [
        (EditorCommandEnd("built\n", exit_code=0), "ok", "built\n[exit code 0, "),
        (EditorCommandEnd("", exit_code=2), "error", "(no output)\n[exit code 2, "),
        (EditorCommandEnd("half", signal="SIGKILL"), "error", "half\n[ended by SIGKILL, "),
        (EditorCommandEnd("x", truncated=True), "error", "[the beginning of the output was dropped]\nx\n[exit code u"),
    ],
)
async def test_the_end_of_a_command_is_told(tmp_path: Path, end: EditorCommandEnd, status: str, told: str) -> None:
    editor = FixedEditor(end)
    output = await _run(tmp_path, editor)
    assert (output.status, output.left_running) == (status, ())
    assert output.text.startswith(told)
    assert editor.commands[0].arguments == ("-c", "make")


async def test_a_time_out_stops_the_command_and_keeps_its_output(tmp_path: Path) -> None:
    editor = FixedEditor(None, stopped=EditorCommandEnd("begun\n", signal="SIGKILL"))
    output = await _run(tmp_path, editor, timeout=0.01)
    assert output.status == "error"
    assert output.text.startswith("begun\n[killed after the time-out of 0.01 s, ")


@pytest.mark.promise("C5")
@pytest.mark.parametrize("stopped", [EditorCommandEnd("begun\n"), None])
async def test_a_cancelled_command_that_may_still_run_is_named(
    tmp_path: Path, stopped: EditorCommandEnd | None
) -> None:
    editor = FixedEditor(None, stopped=stopped)
    task = asyncio.create_task(_run(tmp_path, editor))
    await editor.started.wait()
    task.cancel()
    output = await task
    assert output.status == "cancelled"
    assert output.left_running == (() if stopped else ("in a terminal of the user's editor: make",))


async def test_an_editor_that_cannot_run_is_an_error(tmp_path: Path) -> None:
    editor = FixedEditor(EditorCommandEnd())

    async def refuse(command: EditorCommand) -> EditorCommandEnd:
        raise ToolError("the user's editor could not run the command: no terminal")

    editor.run = refuse  # type: ignore[method-assign]
    with pytest.raises(ToolError, match="no terminal"):
        await _run(tmp_path, editor)
