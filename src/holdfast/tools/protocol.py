"""What a tool is, and what it is given. The turn drives every tool the same way:

arguments (validated against the tool's struct) → `plan` (no side effects: what will be done, shown to the person and to
the approval rules) → approval → `run`. Between plan and run time may pass, so `run` checks again what it relies on.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, ClassVar, Generic, Protocol, TypeVar

import msgspec
from msgspec import UNSET, UnsetType

from holdfast.config import Secret, Settings
from holdfast.schema.approvals import Effect, QuestionItem, Subject
from holdfast.schema.base import Value
from holdfast.schema.messages import File, ResultStatus
from holdfast.schema.runs import Outcome
from holdfast.schema.sessions import Job, Todo

P_contra = TypeVar("P_contra", bound=msgspec.Struct, contravariant=True)


class ToolPlan(Value, frozen=True):
    """What a call will do, before it does it."""

    subject: Subject
    display: dict[str, Any] = {}
    """For the approval and the transcript: for example ``{"diff": …}``."""
    expected: dict[str, str] = {}
    """By path, the hash of each file that the plan was made from; `run` refuses when one is another now."""


class ToolOutput(Value, frozen=True):
    """What a call did. An error is raised as `ToolError`; its message goes to the model."""

    text: str
    status: ResultStatus = "ok"
    files: tuple[File, ...] = ()
    display: dict[str, Any] = {}
    killed: tuple[str, ...] = ()
    left_running: tuple[str, ...] = ()
    output_path: str = ""
    """The file with the whole output, where ``text`` is only part of it."""


class FileLedger(Protocol):
    """What this session knows of files: which content it has read, and what was there before it wrote."""

    async def last_read(self, path: Path) -> str | None:
        """The hash of the content this session last read or wrote, or None."""

    async def record_read(self, path: Path, content_hash: str) -> None: ...

    async def before_write(self, path: Path, old: bytes | None, *, new: bytes | UnsetType | None = UNSET) -> None:
        """Keep the old content (None: the file did not exist), durably, before the write happens.

        Who knows the new content already gives it, so that undo also works after a crash in mid-write.
        """

    async def after_write(self, path: Path, new: bytes | None, *, diff: str) -> None:
        """The write happened: the session knows this content now, and everyone is told (`file.changed`)."""

    async def drop_write(self, path: Path) -> None:
        """The write that `before_write` announced did not happen; undo has nothing to do for it."""


class Jobs(Protocol):
    """The workspace's background processes."""

    async def adopt(self, job: Job, process: Any, *, shown: int = 0) -> None:
        """Take over a running command (`commands.LiveCommand`); from now on it belongs to the workspace, not to the
        call. ``shown``: how many bytes of its output this session has been given already."""

    async def read(self, job_id: str, *, wait: float = 0.0) -> tuple[Job, str]:
        """The job and its output that this session has not been shown yet."""

    async def kill(self, job_id: str) -> Job: ...

    def list(self) -> tuple[Job, ...]: ...


class Asker(Protocol):
    """Puts questions to the person."""

    async def ask(self, items: tuple[QuestionItem, ...]) -> tuple[tuple[str, ...], ...] | None:
        """One tuple of answers per item, or None when dismissed."""


class TodoList(Protocol):
    async def read(self) -> tuple[Todo, ...]: ...

    async def write(self, todos: tuple[Todo, ...]) -> None: ...


class SubagentRunner(Protocol):
    """Starts sub-agents; the child run itself belongs to the engine."""

    async def run(self, *, agent: str, prompt: str, title: str) -> Outcome: ...


async def no_key() -> Secret | None:
    """Finds nothing."""
    return None


class ToolContext(msgspec.Struct, frozen=True, kw_only=True):
    """Everything a call may touch. Made by the turn, one per call."""

    workspace: Path
    """The resolved directory; relative paths start here."""
    session_id: str
    run_id: str
    call_id: str
    workspace_id: str
    settings: Settings
    environment: Mapping[str, str]
    """For child processes: provider keys already removed."""
    outputs: Path
    """The directory for whole outputs of calls, outside the workspace."""
    can_see_images: bool
    interactive: bool
    emit: Callable[[str], None]
    """Live output, shown to people as it comes."""
    redact: Callable[[str], str]
    """Removes known secrets; every text that leaves a tool passes through it."""
    new_id: Callable[[str], str]
    """Makes an id with this prefix."""
    now: Callable[[], str]
    files: FileLedger
    jobs: Jobs
    asker: Asker
    todos: TodoList
    subagents: SubagentRunner
    search_key: Callable[[], Awaitable[Secret | None]] = no_key
    """The key of the configured search service, for `web_search` (see `web_search.key_finder`)."""


class Tool(Protocol, Generic[P_contra]):
    name: ClassVar[str]
    description: ClassVar[str]
    """For the model: ours, short."""
    arguments: ClassVar[type[Any]]
    """A msgspec struct; its JSON Schema is what the model is given, its field docs the parameters' descriptions."""
    effect: ClassVar[Effect]
    parallel: ClassVar[bool]
    """Whether it may run beside its siblings of the same step."""

    async def plan(self, arguments: P_contra, context: ToolContext) -> ToolPlan: ...

    async def run(self, arguments: P_contra, context: ToolContext, plan: ToolPlan) -> ToolOutput:
        """Do it. Cancelled, a tool that started processes ends them (bounded, see `processes`) and then *returns* an
        output of status ``cancelled`` that names what was killed and what lives on; others let the cancel through. So
        the turn runs each call in a task of its own, cancels that, and takes its result if there is one."""
