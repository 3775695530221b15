"""Steps after an edit run in their order, within their time, and never fail the edit."""

import asyncio
from pathlib import Path

import pytest

from holdfast.errors import StoreUnwritable, ToolError
from holdfast.tools.after_edit.edit_steps import EditPhase, EditSteps, order_steps
from holdfast.tools.protocol import ToolContext
from holdfast.tools.write import WriteTool
from tests.support.file_sessions import FileWorkspace


class Step:
    def __init__(self, name: str, phase: EditPhase = "check", *, error: Exception | None = None) -> None:
        self.name = name
        self.phase: EditPhase = phase
        self.seconds = 10.0
        self.error = error
        self.seen: list[tuple[str, ...]] = []

    async def run(self, paths: tuple[Path, ...], context: ToolContext) -> str:
        self.seen.append(tuple(path.name for path in paths))
        if self.error:
            raise self.error
        return f"told by {self.name}"


class EndlessStep(Step):
    async def run(self, paths: tuple[Path, ...], context: ToolContext) -> str:
        return await asyncio.Future()


async def _written(tmp_path: Path) -> ToolContext:
    session = FileWorkspace(tmp_path).session()
    context = session.context()
    arguments = WriteTool.arguments("a.py", "x = 1\n")
    await WriteTool().run(arguments, context, await WriteTool().plan(arguments, context))
    return context


def test_steps_that_change_files_come_before_those_that_look_at_them() -> None:
    steps = [Step("b", "check"), Step("z", "format"), Step("a", "check"), Step("y", "format")]
    assert [step.name for step in order_steps(steps)] == ["y", "z", "a", "b"]


async def test_each_step_gets_the_written_files_and_its_text_is_told(tmp_path: Path) -> None:
    check, form = Step("check"), Step("form", "format")
    assert await EditSteps([check, form]).run(await _written(tmp_path)) == "told by form\ntold by check"
    assert (check.seen, form.seen) == ([("a.py",)], [("a.py",)])


async def test_a_call_that_wrote_nothing_runs_no_step(tmp_path: Path) -> None:
    step = Step("check")
    assert await EditSteps([step]).run(FileWorkspace(tmp_path).session().context()) == ""
    assert step.seen == []


async def test_a_step_that_fails_is_told_and_the_next_one_runs(tmp_path: Path) -> None:
    steps = [Step("a", error=ToolError("not installed")), Step("b", error=KeyError("bug")), Step("c")]
    told = await EditSteps(steps).run(await _written(tmp_path))
    assert told == "[a: not installed]\n[b: failed with an unexpected KeyError]\ntold by c"


async def test_a_step_that_takes_too_long_is_stopped(tmp_path: Path) -> None:
    endless = EndlessStep("endless")
    endless.seconds = 0.01
    assert await EditSteps([endless, Step("then")]).run(await _written(tmp_path)) == (
        "[endless: stopped after 0.01 s]\ntold by then"
    )


async def test_a_store_that_cannot_be_written_ends_the_call(tmp_path: Path) -> None:
    with pytest.raises(StoreUnwritable):
        await EditSteps([Step("a", error=StoreUnwritable("full"))]).run(await _written(tmp_path))
