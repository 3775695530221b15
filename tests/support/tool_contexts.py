"""Contexts for tools under test: real jobs and files, and recorders for the rest."""

import asyncio
import os
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

from holdfast.config import Redactor, Settings, StreamRedactor
from holdfast.config.setting_validation import decode
from holdfast.schema.approvals import QuestionItem
from holdfast.schema.runs import Outcome
from holdfast.schema.sessions import Job, Todo
from holdfast.tools.jobs import JobTable
from holdfast.tools.process.command_process import command_environment
from holdfast.tools.protocol import ToolContext


def settings_of(**tables: Any) -> Settings:
    """Return settings as a configuration file would set them."""
    settings, problems = decode(tables)
    assert not problems, problems
    return settings


class FixedAnswers:
    """Answers questions with given answers."""

    def __init__(self, answers: tuple[tuple[str, ...], ...] | None = None) -> None:
        self.answers = answers
        self.asked: list[tuple[QuestionItem, ...]] = []

    async def ask(self, items: tuple[QuestionItem, ...]) -> tuple[tuple[str, ...], ...] | None:
        self.asked.append(items)
        return self.answers


class TodoList:
    def __init__(self) -> None:
        self.todos: tuple[Todo, ...] = ()

    async def read(self) -> tuple[Todo, ...]:
        return self.todos

    async def write(self, todos: tuple[Todo, ...]) -> None:
        self.todos = todos


class FixedSubagents:
    """Starts no sub-agents; returns a given outcome."""

    def __init__(self, outcome: Outcome | None = None) -> None:
        self.outcome = outcome or Outcome(state="completed", reason="end_turn", text="found it")
        self.started: list[tuple[str, str, str]] = []

    async def run(self, *, agent: str, prompt: str, title: str) -> Outcome:
        self.started.append((agent, prompt, title))
        return self.outcome


async def no_search_key() -> None:
    """Return no key, for contexts without a search service."""


class Gate:
    """A named pipe that blocks a command (`read < gate`) until the test opens it.

    Use a gate for one `read` only: a second one could meet the writer of the first and return at once.
    """

    def __init__(self, directory: Path, name: str = "gate") -> None:
        self.path = directory / name
        os.mkfifo(self.path)

    async def open(self) -> None:
        await asyncio.to_thread(self.path.write_text, "go\n")


class ToolWorkspace:
    """Makes tool contexts of one workspace, and records live output and changes of jobs."""

    _numbers = count(1)

    def __init__(self, directory: Path) -> None:
        self.directory = directory / "workspace"
        self.directory.mkdir(parents=True)
        self.outputs = directory / "outputs"
        self.live: list[str] = []
        self.changes: list[Job] = []
        self.asker = FixedAnswers()
        self.todos = TodoList()
        self.subagents = FixedSubagents()
        self.table = JobTable(on_change=self._changed, now=lambda: "2026-01-01T00:00:00.000Z")
        self._emitted = asyncio.Event()

    def emit(self, text: str) -> None:
        self.live.append(text)
        self._emitted.set()

    async def wait_for_output(self, text: str, *, times: int = 1) -> None:
        """Wait until the live output of the calls contains a text the given number of times."""
        while "".join(self.live).count(text) < times:
            self._emitted.clear()
            await self._emitted.wait()

    async def _changed(self, job: Job) -> None:
        self.changes.append(job)

    def new_id(self, prefix: str) -> str:
        return f"{prefix}_{os.getpid()}_{next(self._numbers)}"  # unique among parallel test processes

    def context(
        self,
        *,
        settings: Settings | None = None,
        session_id: str = "ses_1",
        redact: Callable[[str], str] = str,
        redact_stream: Callable[[], StreamRedactor] | None = None,
        **more: Any,
    ) -> ToolContext:
        settings = settings or Settings()
        return ToolContext(
            workspace=self.directory,
            session_id=session_id,
            run_id="run_1",
            call_id=self.new_id("call"),
            workspace_id="wsp_1",
            settings=settings,
            environment=command_environment(os.environ, settings),
            outputs=self.outputs,
            temporary=self.outputs.parent / "tmp",
            can_see_images=False,
            interactive=True,
            emit=self.emit,
            redact=redact,
            redact_stream=redact_stream or Redactor().stream,
            permits_url=more.pop("permits_url", permit_every_url),
            new_id=self.new_id,
            now=lambda: "2026-01-01T00:00:00.000Z",
            files=more.pop("files", None),
            jobs=self.table.for_session(session_id),
            asker=self.asker,
            todos=self.todos,
            subagents=self.subagents,
            search_key=more.pop("search_key", no_search_key),
            **more,
        )


async def permit_every_url(tool: str, url: str) -> bool:
    return True
