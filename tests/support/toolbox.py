"""A context for tools under test, with everything real that can be, and records of the rest."""

import asyncio
import os
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

from holdfast.config import Settings
from holdfast.config.setting_validation import decode
from holdfast.schema.approvals import QuestionItem
from holdfast.schema.runs import Outcome
from holdfast.schema.sessions import Job, Todo
from holdfast.tools.jobs import JobTable
from holdfast.tools.process.command_environment import child_environment
from holdfast.tools.protocol import ToolContext


def settings_of(**tables: Any) -> Settings:
    """Settings as a configuration file would make them."""
    settings, problems = decode(tables)
    assert not problems, problems
    return settings


class Person:
    """Answers questions as told."""

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


class Nursery:
    """Sub-agents that end as told."""

    def __init__(self, outcome: Outcome | None = None) -> None:
        self.outcome = outcome or Outcome(state="completed", reason="end_turn", text="found it")
        self.started: list[tuple[str, str, str]] = []

    async def run(self, *, agent: str, prompt: str, title: str) -> Outcome:
        self.started.append((agent, prompt, title))
        return self.outcome


class Gate:
    """A named pipe at which a command waits (`read < gate`) until the test opens it.

    One gate, one `read`: a second one could still find the writer of the first, and pass at once.
    """

    def __init__(self, directory: Path, name: str = "gate") -> None:
        self.path = directory / name
        os.mkfifo(self.path)

    async def open(self) -> None:
        await asyncio.to_thread(self.path.write_text, "go\n")


class Toolbox:
    """Makes contexts of one workspace; keeps what its calls emitted and its jobs' changes."""

    _numbers = count(1)

    def __init__(self, directory: Path) -> None:
        self.workspace = directory / "workspace"
        self.workspace.mkdir(parents=True)
        self.outputs = directory / "outputs"
        self.live: list[str] = []
        self.changes: list[Job] = []
        self.person = Person()
        self.todos = TodoList()
        self.nursery = Nursery()
        self.table = JobTable(on_change=self._changed, now=lambda: "2026-01-01T00:00:00.000Z")
        self._heard = asyncio.Event()

    def emit(self, text: str) -> None:
        self.live.append(text)
        self._heard.set()

    async def until_said(self, words: str, *, times: int = 1) -> None:
        """Until the live output of some call has these words in it, so many times."""
        while "".join(self.live).count(words) < times:
            self._heard.clear()
            await self._heard.wait()

    async def _changed(self, job: Job) -> None:
        self.changes.append(job)

    def new_id(self, prefix: str) -> str:
        return f"{prefix}_{os.getpid()}_{next(self._numbers)}"  # others run the same tests at the same time

    def context(
        self,
        *,
        settings: Settings | None = None,
        session_id: str = "ses_1",
        redact: Callable[[str], str] = str,
        **more: Any,
    ) -> ToolContext:
        settings = settings or Settings()
        return ToolContext(
            workspace=self.workspace,
            session_id=session_id,
            run_id="run_1",
            call_id=self.new_id("call"),
            workspace_id="wsp_1",
            settings=settings,
            environment=child_environment(os.environ, settings),
            outputs=self.outputs,
            can_see_images=False,
            interactive=True,
            emit=self.emit,
            redact=redact,
            new_id=self.new_id,
            now=lambda: "2026-01-01T00:00:00.000Z",
            files=more.pop("files", None),
            jobs=self.table.for_session(session_id),
            asker=self.person,
            todos=self.todos,
            subagents=self.nursery,
            **more,
        )
