"""A cancel at each await of a turn that runs real commands leaves no process behind (C7, R8)."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from holdfast.agent.protocol import Turn
from holdfast.models.model_script import ModelScript, RuleCondition, ScriptedCall, ScriptedText, ScriptRule
from holdfast.schema.runs import Run
from holdfast.schema.sessions import Session
from tests.support.app_harness import AppHarness, open_app_harness
from tests.support.eventful_run import check_record
from tests.support.interruption import Interrupter, interrupt_turn
from tests.support.log_consistency import check_log_matches_tables
from tests.support.stress import StressShare


class CutFactory:
    """The workspace's own turns, with barriers at their seats."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner
        self.interrupter = Interrupter()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def turn(self, run: Run, session: Session) -> Turn:
        return interrupt_turn(self._inner.turn(run, session), self.interrupter)


async def add_barriers(harness: AppHarness, factory: CutFactory) -> None:
    """Add barriers to the awaits of `bash`. The start of a process is not interrupted."""
    bash: Any = (await harness.app.open_workspaces.live(harness.workspace_id)).tools.get("bash")
    plan, run, start = bash.plan, bash.run, bash._start

    async def cut_plan(*args: Any) -> Any:
        await factory.interrupter.hold("before plan")
        return await plan(*args)

    async def cut_run(*args: Any) -> Any:
        await factory.interrupter.hold("before run")
        output = await run(*args)
        await factory.interrupter.pass_by("after run")
        return output

    async def cut_start(*args: Any, **more: Any) -> Any:
        await factory.interrupter.pass_by("before start")
        command = await start(*args, **more)
        await factory.interrupter.pass_by("after start")
        return command

    bash.plan, bash.run, bash._start = cut_plan, cut_run, cut_start


def processes(mark: str) -> list[str]:
    """Return the command lines of live processes that contain the mark."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                line = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode()
                state = (entry / "stat").read_text().rpartition(")")[2].split()[0]
            except (FileNotFoundError, ProcessLookupError):
                continue
            if mark in line and state != "Z":
                found.append(line)
    return found


async def cut(harness: AppHarness, factory: CutFactory, at: int | None) -> list[str]:
    """Cancel a run at a barrier, or when its last command runs. Returns the barriers up to there."""
    mark = f"31415.{at or 0}0009"

    async def cancel() -> None:
        receipt = await harness.app.engine.cancel_session(accepted.run.session_id)
        assert [line.ended_as for line in receipt.runs] == ["cancelled"], receipt
        assert not processes(mark), f"the receipt came before the end of {processes(mark)}"

    interrupter = factory.interrupter = Interrupter(at, cancel)
    places = interrupter.points
    accepted = await harness.start(mark, mode="auto")
    if at is None:
        async for item in harness.app.hub.subscribe(after=f"{harness.app.store.log_id}.0"):
            if b"ready" in item.body and b'"of":"output"' in item.body:
                break
        assert processes(mark)
        places = list(interrupter.points)
        await cancel()
    run = await harness.ended(accepted)
    if interrupter.acting is not None:
        await interrupter.acting
    assert run.state == "cancelled"
    check_record(await harness.messages(run.session_id), "cancelled", own=run.session_id)
    return places


@pytest.mark.promise("C7", "R8")
@pytest.mark.skipif(sys.platform != "linux", reason="processes are looked for in /proc")
@pytest.mark.parametrize("at_least", [12, pytest.param(1, marks=pytest.mark.stress(weight=2))])
async def test_no_process_survives_a_cancel_at_any_await(tmp_path: Path, at_least: int, share: StressShare) -> None:
    hanging = "sh -c 'sleep {prompt} & sleep {prompt}' & echo ready; sleep {prompt}"
    script = ModelScript(
        rules=(
            ScriptRule((ScriptedText("A title"),), RuleCondition(system="^Give this coding task a title")),
            ScriptRule((ScriptedCall("bash", {"command": "echo first {prompt}"}),), RuleCondition(step=0)),
            ScriptRule((ScriptedCall("bash", {"command": hanging}),), RuleCondition(step=1)),
        )
    )
    async with open_app_harness(tmp_path, script) as harness:
        factory = CutFactory(harness.app.engine._state.turns)
        harness.app.engine._state.turns = factory
        await add_barriers(harness, factory)
        places = await cut(harness, factory, None)
        assert len(places) > 15
        for at in share.sample(range(1, len(places)), what="awaits", at_least=at_least):
            try:
                await cut(harness, factory, at)
            except BaseException as error:
                error.add_note(f"cancelled at {at} of {len(places)}: {places[at]!r}")
                raise
        await check_log_matches_tables(harness.app.store)
