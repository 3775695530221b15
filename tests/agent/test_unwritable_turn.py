"""The store refuses all commits of a run from the n-th on, for every n (R14).

Nothing of an answer is read and no tool runs before its row is stored. Nothing happens while commits are refused. When
they are accepted again, the run gets its one end.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest

from holdfast.errors import StoreUnwritable
from holdfast.models.protocol import ModelDelta, ModelRequest
from holdfast.models.scripted_model import ScriptedModel
from holdfast.schema.messages import ToolCall
from holdfast.store import Batch, Committed, open_store
from tests.support.engine_harness import ControlledStore
from tests.support.eventful_run import check_record, eventful_model, finish
from tests.support.log_consistency import check_log_matches_tables
from tests.support.real_turns import TurnHarness, open_turns, turn_limits
from tests.support.stress import StressShare


class RefusingStore(ControlledStore):
    """Refuses commits from the n-th on, until `allow` is called."""

    def __init__(self, store: Any) -> None:
        super().__init__(store)
        self.commits = 0
        self.first_refused: int | None = None

    def begin(self, first_refused: int | None) -> None:
        self.commits, self.refused, self.first_refused, self.refusing = 0, 0, first_refused, None

    async def commit(self, batch: Batch, *, until_known: bool = True) -> Committed:
        if self.commits == self.first_refused:
            self.refuse()
        self.commits += 1
        return await super().commit(batch, until_known=until_known)

    def allow(self) -> None:
        self.first_refused, self.refusing = None, None


class CheckingModel(ScriptedModel):
    """Checks when the first delta of an answer was taken that the row of the answer is stored, open and empty."""

    def __init__(self, inner: ScriptedModel, store: Any) -> None:
        super().__init__(inner._script, info=inner.info)
        self._store = store
        self.open = 0
        """Requests that are not closed."""

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelDelta, None]:
        session_id = request.cache_key or ""
        summary = "about to be replaced by a summary" in str(request.messages[-1].parts)
        checked = summary
        self.open += 1
        try:
            async for delta in super().stream(request):
                yield delta
                if not checked:
                    checked = True
                    last = (await self._store.messages(session_id, limit=1, before=1 << 60)).items[-1]
                    assert last.role == "assistant", "a delta was taken before the row of the answer was stored"
        finally:
            self.open -= 1


def check_calls(tool: Any, store: Any, ran: list[str]) -> None:
    """Check at each call that it is stored in a complete answer."""
    act = tool.act

    async def watched(arguments: Any, context: Any) -> Any:
        assert store.refusing is None, "a tool ran while commits were refused"
        stored = (await store.messages(context.session_id, limit=100, after=0)).items
        (asked,) = [m for m in stored if any(isinstance(p, ToolCall) and p.id == context.call_id for p in m.parts)]
        assert finish(asked) == "tool_use", "a tool ran before its call was stored"
        ran.append(context.call_id)
        return await act(arguments, context)

    tool.act = watched


def is_stuck(harness: TurnHarness) -> bool:
    """Return whether the end of the run or of its sub-agent cannot be written."""
    shown = [harness.engine.with_live_state(driver.run).now for driver in harness.engine._state.active_runs.values()]
    return any(now is not None and now.phase == "store" for now in shown)


async def refuse_from(harness: TurnHarness, store: RefusingStore, n: int | None) -> str:
    session_id = f"ses_n{n}"
    await harness.session(session_id)
    model = harness.turns.model = CheckingModel(eventful_model(), store)
    accepted = await harness.accept("work", session_id=session_id)
    store.begin(n)
    if n is not None:
        await harness.until(lambda: is_stuck(harness) or not harness.engine._state.active_runs)
    if store.refused:
        with pytest.raises(StoreUnwritable):
            await harness.accept("another", session_id=session_id)
        assert model.open == 0, "a refused commit did not close the request"
    store.allow()
    run = await harness.ended(accepted)
    if run.state != "completed":
        assert (run.state, run.reason) == ("failed", "store")
        assert run.error is not None
        assert run.error.code == "store_unwritable"
    check_record(
        await harness.messages(session_id), "completed" if run.state == "completed" else "error", own=session_id
    )
    model = harness.turns.model = CheckingModel(eventful_model(), store)
    again = await harness.ended(await harness.accept("the next prompt", session_id=session_id))
    assert (again.state, again.text) == ("completed", "fine")
    return run.state


@pytest.mark.promise("R14")
@pytest.mark.parametrize("at_least", [8, pytest.param(12, marks=pytest.mark.stress)])
async def test_nothing_happens_that_is_not_stored(tmp_path: Path, at_least: int, share: StressShare) -> None:
    store: Any = RefusingStore(await open_store(tmp_path / "holdfast.db"))
    ran: list[str] = []
    async with open_turns(tmp_path, eventful_model(), store=store) as harness:
        harness.turns.limits = turn_limits(max_steps=20)
        for tool in harness.tools.values():
            check_calls(tool, store, ran)
        for gate in ("approval:z", "z"):
            harness.gates.open(gate)
        assert await refuse_from(harness, store, None) == "completed"
        commits = store.commits
        assert len(ran) == 5
        assert commits > 15
        ends = []
        for n in share.sample(range(commits), what="commits", at_least=at_least):
            try:
                ends.append(await refuse_from(harness, store, n))
            except BaseException as error:
                error.add_note(f"refused from commit {n} of {commits} on")
                raise
        assert "failed" in ends
        assert len(set(ran)) == len(ran), "a tool ran twice"
        await check_log_matches_tables(harness.store)
