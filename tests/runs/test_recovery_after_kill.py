"""A server is killed at any point: the next one finds every accepted run and repeats nothing."""

import random
import shutil
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from holdfast.agent.unfinished_messages import unanswered
from holdfast.events import Hub
from holdfast.ids import Ids
from holdfast.runs import Engine
from holdfast.schema.messages import Message, ToolCall, text_of
from holdfast.schema.runs import END_STATES
from holdfast.store import SqliteStore, open_store
from tests.support.engine_harness import LONG_LIMITS
from tests.support.killed_servers import (
    SESSIONS,
    WORKSPACE,
    Journal,
    KillPlan,
    ServerProcesses,
    read_journal,
    scripted_turns_with_journal,
)
from tests.support.log_consistency import LoggedState, check_log_matches_tables
from tests.support.stress import StressShare

ALL_PROMISES = ("R1", "R4", "R5", "R7", "R9", "R14", "C1", "C5", "C6", "C10", "E1", "E5", "W6")


async def all_messages(store: SqliteStore) -> list[Message]:
    sessions = {run.session_id for run in (await logged_runs(store)).values()}
    return [message for session_id in sessions for message in (await store.messages(session_id, limit=10_000)).items]


async def logged_runs(store: SqliteStore) -> dict[str, Any]:
    return (await check_log_matches_tables(store)).runs


class RecoveryCheck:
    """Compares what clients knew when the server was killed with what the next server does."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.lines = read_journal(directory / "journal")
        self.counts: Counter[str] = Counter()

    def lines_with(self, key: str) -> list[dict[str, Any]]:
        return [line for line in self.lines if key in line]

    async def check(self) -> Counter[str]:
        store = await open_store(self.directory / "holdfast.db")
        try:
            before = await check_log_matches_tables(store)
            numbers_before = await self._check_numbers(store)
            journal = Journal(self.directory / "second")
            engine = Engine(
                store,
                Hub(store, heartbeat_seconds=10.0),
                scripted_turns_with_journal(journal, ends_soon=True),
                ids=Ids(),
                limits=LONG_LIMITS,
            )
            if await store.workspaces():
                await self._run_second_server(engine, store)
            after = await check_log_matches_tables(store)
            assert store.last_number >= numbers_before
            self._check_runs(before, after)
            self._check_cancels(after)
            await self._check_tools(store, before)
            await self._check_text(store, after)
            await engine.stop()
        finally:
            await store.close()
        return self.counts

    async def _run_second_server(self, engine: Engine, store: SqliteStore) -> None:
        await engine.open_workspace(WORKSPACE)
        for session_id in SESSIONS:
            for _ in range(100):
                unfinished = await store.unfinished_runs(session_id=session_id)
                if not unfinished:
                    break
                await engine.wait_run(unfinished[0].id, timeout=20)

    async def _check_numbers(self, store: SqliteStore) -> int:
        """Event numbers do not repeat or go back, and the log has every event that was published."""
        told = [tuple(pair) for line in self.lines_with("numbers") for pair in line["numbers"]]
        assert [number for number, _ in told] == sorted({number for number, _ in told})
        page = await store.events_after(0, upto=store.last_number, limit=1_000_000)
        stored = {event.number: event.kind for event in page.events}
        for number, kind in told:
            assert stored[number] == kind
        highest = max((number for number, _ in told), default=0)
        assert store.last_number >= highest
        self.counts["numbers told"] += len(told)
        return store.last_number

    def _check_runs(self, before: LoggedState, after: LoggedState) -> None:
        for line in self.lines_with("accepted"):
            run_id = line["accepted"]
            assert run_id in before.runs, f"R1: {run_id} was answered and is lost"
            assert after.ended[run_id] == 1, f"R7: {run_id} has {after.ended[run_id]} ends"
            was, now = before.runs[run_id], after.runs[run_id]
            assert now.state in END_STATES
            self.counts[f"accepted: {was.state} → {now.state}"] += 1
            if was.state == "active":
                assert (now.state, now.reason) == ("interrupted", "server_crash")
            if was.state in ("queued", "waiting"):
                assert now.state == "completed", f"W6: {run_id} was {was.state} and became {now.state}"
                assert after.started[run_id] == 1 or now.host_run_id is not None
            if was.state == "stopping":
                assert now.state == "cancelled"
                assert after.started[run_id] == before.started[run_id]

    def _check_cancels(self, after: LoggedState) -> None:
        for line in self.lines_with("cancelled"):
            for run_id, was, ended_as in line["cancelled"]:
                self.counts["covered by a cancel"] += 1
                if was in ("queued", "waiting"):
                    assert after.started[run_id] == 0, f"C1: {run_id} was covered and started"
                if ended_as is not None:
                    assert after.runs[run_id].state == ended_as

    async def _check_tools(self, store: SqliteStore, before: LoggedState) -> None:
        ran = [line["tool"] for line in self.lines_with("tool")]
        again = [line["tool"] for line in read_journal(self.directory / "second") if "tool" in line]
        twice = [tool for tool, times in Counter(ran + again).items() if times > 1]
        assert not twice, f"tools ran twice: {twice}"
        for tool in again:
            run_id = tool.split("/")[0]
            assert before.started[run_id] == 0, f"{run_id} had started before the crash, and was started again"
        calls = {
            part.id for message in await all_messages(store) for part in message.parts if isinstance(part, ToolCall)
        }
        assert {line["call"] for line in self.lines_with("tool")} <= calls, "R14: a tool ran before its row was written"
        self.counts["tools ran"] += len(ran) + len(again)

    async def _check_text(self, store: SqliteStore, after: LoggedState) -> None:
        messages = await all_messages(store)
        by_run: dict[str, str] = {}
        for message in messages:
            if message.role == "assistant":
                by_run[message.run_id] = by_run.get(message.run_id, "") + text_of(message.parts)
        for line in self.lines_with("said"):
            assert line["text"] in by_run.get(line["said"], ""), f"text of {line['said']} is lost"
        prompts = Counter(message.run_id for message in messages if message.role == "user")
        assert prompts == Counter(after.runs.keys()), "C5: a prompt is not there exactly once"
        for session_id in {message.session_id for message in messages}:
            assert unanswered(m for m in messages if m.session_id == session_id) == []
        self.counts["texts kept"] += len(self.lines_with("said"))


async def killed_at(plans: Iterable[tuple[str, int]], tmp_path: Path) -> Counter[str]:
    counts: Counter[str] = Counter()
    async with ServerProcesses() as servers:
        for number, (when, nth) in enumerate(plans):
            directory = tmp_path / f"{number}"
            directory.mkdir()
            plan = KillPlan(directory=str(directory), seed=number % 7, when=when, nth=nth)
            survived = await servers.run(plan)
            counts["not killed" if survived else f"killed {when}"] += 1
            try:
                counts += await RecoveryCheck(directory).check()
            except BaseException as error:
                error.add_note(f"{plan}; journal: {directory / 'journal'}")
                raise
            shutil.rmtree(directory)
    return counts


_COMMITS = 55
"""Every server makes at least this many commits."""


def points(total: int, *, rng: random.Random) -> list[tuple[str, int]]:
    """Points at which to kill: two thirds around commits, the rest at statements and after answers."""
    commits = [(when, 2 + nth % _COMMITS) for nth in range(total // 3) for when in ("before", "after")]
    others = [("statement", rng.randrange(60, 1000)) for _ in range(total // 6)]
    answers = [("answer", rng.randrange(1, 24)) for _ in range(total - len(commits) - len(others))]
    return commits + others + answers


@pytest.mark.promise(*ALL_PROMISES)
@pytest.mark.timeout(300)
async def test_a_killed_server_loses_no_accepted_run_and_repeats_nothing(tmp_path: Path) -> None:
    rng = random.Random(7)
    plans = [(when, nth * 4 if when in ("before", "after") else nth) for when, nth in points(42, rng=rng)]
    counts = await killed_at(plans, tmp_path)
    assert sum(number for what, number in counts.items() if what.startswith("killed")) >= 35
    assert counts["tools ran"] > 0
    assert counts["covered by a cancel"] > 0


@pytest.mark.stress(weight=4)
@pytest.mark.promise(*ALL_PROMISES)
async def test_a_server_killed_at_many_points_loses_and_repeats_nothing(tmp_path: Path, share: StressShare) -> None:
    plans = share.sample(points(3_000, rng=share.random), what="points")
    counts = await killed_at(plans, tmp_path)
    share.count("killed", sum(number for what, number in counts.items() if what.startswith("killed")))
    for what in ("tools ran", "covered by a cancel", "texts kept"):
        share.count(what, counts[what])
