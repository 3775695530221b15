"""What a turn reads early is used once, and ends with the turn."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from pathlib import Path
from typing import Any, cast

import pytest

from holdfast.agent.system_prompt import PromptContext
from holdfast.errors import ConfigError
from holdfast.schema.runs import Run
from holdfast.store import Store
from holdfast.store.rows.ledger_reads import LedgerReads
from holdfast.workspace.context_gatherer import DirectoryContextGatherer, DirectoryFacts
from holdfast.workspace.early_reads import EarlyReads
from holdfast.workspace.open_workspace import OpenWorkspace
from tests.support.app_harness import open_app_harness, saying


class _Source:
    """A directory and a store, whose reads wait until they are let go."""

    def __init__(self, *, needs_git: bool = True) -> None:
        self.needs_git = needs_git
        self.go = asyncio.Event()
        self.begun: list[str] = []
        self.ended: list[str] = []

    async def _wait(self, name: str) -> None:
        self.begun.append(name)
        try:
            await self.go.wait()
        finally:
            self.ended.append(name)

    async def read_files(self) -> DirectoryFacts:
        await self._wait("files")
        return DirectoryFacts("early", None, ())

    async def read_directory(self, files: Awaitable[DirectoryFacts] | None = None) -> DirectoryFacts:
        await self._wait("directory")
        return await files if files is not None else DirectoryFacts("later", None, ())

    async def gather(self, facts: DirectoryFacts | None = None) -> PromptContext:
        return cast("Any", (facts or await self.read_directory()).git_branch)

    async def messages_since_summary(self, session_id: str) -> tuple[str, ...]:
        await self._wait("messages")
        return (session_id, str(self.begun.count("messages")))

    def early_reads(self, *, with_messages: bool = True, known_messages: Any = None) -> EarlyReads:
        run = Run(id="run_1", session_id="ses_1", seq=1)
        gatherer, store = cast("DirectoryContextGatherer", self), cast("Store", self)
        return EarlyReads(gatherer, store, run, with_messages=with_messages, known_messages=known_messages)


async def test_reads_begin_at_once_and_a_second_use_reads_anew() -> None:
    source = _Source()
    early = source.early_reads()
    await asyncio.sleep(0)
    assert sorted(source.begun) == ["directory", "files", "messages"]
    source.go.set()
    assert [await early.gather(), await early.gather()] == ["early", "later"]
    assert [await early.messages(), await early.messages()] == [("ses_1", "1"), ("ses_1", "2")]
    await early.close()


async def test_messages_of_a_kept_conversation_are_not_read_early() -> None:
    source = _Source()
    early = source.early_reads(with_messages=False)
    await asyncio.sleep(0)
    assert source.begun == ["files", "directory"]
    await early.close()
    assert sorted(source.ended) == ["directory", "files"]


async def test_known_messages_are_not_read_but_a_second_use_reads_them() -> None:
    source = _Source()
    early = source.early_reads(known_messages=("known",))
    source.go.set()
    assert [await early.messages(), await early.messages()] == [("known",), ("ses_1", "1")]
    await early.close()
    assert "messages" not in source.begun[:-1]


async def test_without_git_the_directory_is_read_with_the_files() -> None:
    source = _Source(needs_git=False)
    early = source.early_reads(with_messages=False)
    source.go.set()
    await early.files_read()
    assert await early.gather() == cast("Any", "early")
    assert source.begun == ["files"]
    await early.close()


@pytest.mark.parametrize("used", [False, True])
async def test_closing_ends_reads_that_are_still_under_way(used: bool) -> None:
    source = _Source()
    early = source.early_reads()
    users = [asyncio.create_task(early.gather()), asyncio.create_task(early.messages())] if used else []
    await asyncio.sleep(0)
    await early.close()
    assert sorted(source.ended) == ["directory", "files", "messages"]
    assert all(isinstance(one, asyncio.CancelledError) for one in await asyncio.gather(*users, return_exceptions=True))


async def test_a_cancel_of_the_turn_ends_the_read_that_it_waits_for() -> None:
    source = _Source()
    early = source.early_reads()
    using = asyncio.create_task(early.gather())
    await asyncio.sleep(0)
    using.cancel()
    with pytest.raises(asyncio.CancelledError):
        await using
    assert "directory" in source.ended
    await early.close()
    assert sorted(source.ended) == ["directory", "files", "messages"]


@pytest.mark.parametrize("failing", ["refresh_extensions", "open_model"])
async def test_a_turn_that_cannot_be_made_leaves_no_read_behind(
    tmp_path: Path, failing: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[EarlyReads] = []
    closed: list[EarlyReads] = []
    begin, close = EarlyReads.__init__, EarlyReads.close

    def noted_begin(self: EarlyReads, *args: Any, **options: Any) -> None:
        made.append(self)
        begin(self, *args, **options)

    async def noted_close(self: EarlyReads) -> None:
        await close(self)
        closed.append(self)

    def fail(*args: Any) -> Any:
        raise ConfigError("broken")

    monkeypatch.setattr(EarlyReads, "__init__", noted_begin)
    monkeypatch.setattr(EarlyReads, "close", noted_close)
    monkeypatch.setattr(OpenWorkspace, failing, fail)
    async with open_app_harness(tmp_path, saying("done")) as harness:
        run = await harness.run("go")
        assert (run.state, run.error and run.error.message) == ("failed", "broken")
        assert made
        assert closed == made
        assert not [task for task in asyncio.all_tasks() if task.get_name().endswith(f":{run.id}")]


async def test_a_run_that_begins_its_session_reads_nothing_from_the_database_before_it_asks_the_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_app_harness(tmp_path, saying("done")) as harness:
        await harness.run("go")
        for name in ("environment_of_run", "messages_since_summary"):
            monkeypatch.delattr(LedgerReads, name)
        assert (await harness.run("go")).state == "completed"
