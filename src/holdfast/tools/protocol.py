"""The `Tool` protocol, and the context of a tool call.

Each call takes the same steps: the arguments are validated against the tool's struct; `plan` describes the call without
side effects; the approval rules or the user decide; `run` makes the call. Time can pass between `plan` and `run`, so
`run` checks again what the plan relied on.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, ClassVar, Generic, Literal, NamedTuple, Protocol, TypeVar

import msgspec
from msgspec import UNSET, UnsetType

from holdfast.config import Secret, Settings, StreamRedactor
from holdfast.schema.approvals import Effect, QuestionItem, Subject
from holdfast.schema.base import Value
from holdfast.schema.client_tools import EditorCommand, EditorCommandEnd
from holdfast.schema.messages import File, Part, ResultStatus
from holdfast.schema.runs import Outcome
from holdfast.schema.sessions import Job, Todo

P_contra = TypeVar("P_contra", bound=msgspec.Struct, contravariant=True)


class ToolPlan(Value, frozen=True):
    """What a call will do."""

    subject: Subject
    display: dict[str, Any] = {}
    """For the approval request and the transcript, for example ``{"diff": …}``."""
    expected: dict[str, str] = {}
    """Content hashes by path of the files from which the plan was made. `run` fails if one has changed."""
    read_only: bool = False
    """Whether the call runs without approval because it changes nothing. Set after `plan`, for `run`."""


class ToolOutput(Value, frozen=True):
    """The result of a call. Errors are raised as `ToolError` instead; the model gets the message."""

    text: str
    status: ResultStatus = "ok"
    files: tuple[File, ...] = ()
    display: dict[str, Any] = {}
    killed: tuple[str, ...] = ()
    left_running: tuple[str, ...] = ()
    output_path: str = ""
    """The file with the whole output, if ``text`` is only a part."""


class FileLedger(Protocol):
    """Records which file contents a session has read, and the contents before its writes."""

    async def last_read(self, path: Path) -> str | None:
        """Return the hash of the content that the session last read or wrote, or None."""

    async def record_read(self, path: Path, content_hash: str) -> None: ...

    async def before_write(self, path: Path, old: bytes | None, *, new: bytes | UnsetType | None = UNSET) -> None:
        """Store the old content durably before a write; None means that the file did not exist.

        Pass the new content if it is known, so that undo works after a crash during the write.
        """

    async def after_write(self, path: Path, new: bytes | None, *, diff: str) -> None:
        """Record a finished write and publish `file.changed`."""

    @property
    def written(self) -> tuple[Path, ...]:
        """The existing files that this call has written."""

    async def content_before(self, path: Path) -> bytes | None:
        """Return the content of a written file before this call; None if there was no file."""

    async def drop_write(self, path: Path) -> None:
        """Record that the write announced by `before_write` did not happen."""


class AfterEdit(Protocol):
    """The steps after an edit, such as formatters."""

    async def run(self, context: ToolContext) -> str:
        """Run them for the files that the call wrote. Returns what is added to its result."""


class CommandWatch(Protocol):
    """Finds out which files a command changes."""

    async def begin(self) -> None:
        """Store the files as they are before the command. It never fails because of the files."""

    async def end(self) -> tuple[str, ...]:
        """Record the files that changed since. Returns their paths."""


class UserEditor(Protocol):
    """The editors in which the user has this session open."""

    @property
    def can_write(self) -> bool: ...

    @property
    def can_run(self) -> bool: ...

    async def unsaved(self, path: Path, saved: str) -> tuple[str, ...]:
        """Return the texts of a file that differ from ``saved``, the text on the disk, because they are not saved.

        An editor that does not answer has none. A text that the file had before is not one: the editor has not yet
        noticed that the file has changed.
        """

    async def write(self, path: Path, text: str) -> bool:
        """Have the editor replace the text of a file and save it. Returns whether it says that it did."""

    async def run(self, command: EditorCommand) -> EditorCommandEnd:
        """Run a command in a terminal of the editor. Raises `ToolError`. If it is cancelled, call `stop`."""

    async def stop(self) -> EditorCommandEnd | None:
        """Wait until the cancelled command has ended; ``None`` if the editor does not say so in time."""


class Jobs(Protocol):
    """The workspace's background jobs."""

    async def adopt(self, job: Job, process: Any, *, shown: int = 0) -> None:
        """Take over a running command (`CapturedCommand`) as a job of the workspace.

        ``shown`` is the number of bytes of its output that the session has already read.
        """

    async def read(self, job_id: str, *, wait: float = 0.0) -> tuple[Job, str]:
        """Return the job and its output since the session's last read."""

    async def kill(self, job_id: str) -> Job: ...

    def list(self) -> tuple[Job, ...]: ...


class Asker(Protocol):
    """Asks the user questions."""

    async def ask(self, items: tuple[QuestionItem, ...]) -> tuple[tuple[str, ...], ...] | None:
        """Return one tuple of answers per item, or None if the user dismissed the questions."""


class TodoList(Protocol):
    async def read(self) -> tuple[Todo, ...]: ...

    async def write(self, todos: tuple[Todo, ...]) -> None: ...


class SubagentRunner(Protocol):
    """Runs sub-agents. Their runs belong to the engine."""

    async def run(self, *, agent: str, prompt: str, title: str) -> Outcome: ...


class SamplingMessage(Value, frozen=True):
    role: Literal["user", "assistant"]
    parts: tuple[Part, ...]


class SamplingRequest(Value, frozen=True, kw_only=True):
    """What an MCP server asks of a model."""

    server: str
    system: str = ""
    messages: tuple[SamplingMessage, ...]
    max_tokens: int
    model: str | None = None
    """None: the small model."""
    max_requests: int
    """How many requests the server may make in one run."""


class SampledAnswer(Value, frozen=True):
    text: str
    model: str
    stop: str


class Sampler(Protocol):
    """Asks a model on behalf of an MCP server."""

    async def sample(self, request: SamplingRequest, plan: ToolPlan) -> SampledAnswer:
        """Get an approval as ``plan`` describes it, then the answer. Raises `ToolError` if it is refused or fails."""


class ToolContext(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that a call can use. The turn makes one for each call."""

    workspace: Path
    """The resolved directory. Relative paths start here."""
    session_id: str
    run_id: str
    call_id: str
    workspace_id: str
    settings: Settings
    environment: Mapping[str, str]
    """The environment of commands, without provider keys."""
    outputs: Path
    """The session's directory for long outputs of calls, outside the workspace. Sub-agents share it."""
    temporary: Path
    """The session's directory for temporary files of confined commands."""
    hidden: tuple[Path, ...] = ()
    """Directories that confined commands may not read."""
    visible: tuple[Path, ...] = ()
    """Directories below `hidden` that they may read, besides `outputs` and `temporary`."""
    can_see_images: bool
    interactive: bool
    emit: Callable[[str], None]
    """Publishes live output."""
    redact: Callable[[str], str]
    """Removes secrets. Every text that leaves a tool passes through it."""
    redact_stream: Callable[[], StreamRedactor]
    """Returns a redactor for text that arrives in pieces."""
    permits_url: Callable[[str, str], Awaitable[bool]]
    """Whether a tool may request an address without approval, by the name of the tool. For redirects."""
    new_id: Callable[[str], str]
    """Makes an id with a prefix."""
    now: Callable[[], str]
    files: FileLedger
    editor: UserEditor | None = None
    """None: the session is open in no editor that offers files or terminals."""
    command_watch: CommandWatch | None = None
    """None: changes of commands are not recorded."""
    after_edit: AfterEdit | None = None
    jobs: Jobs
    asker: Asker
    todos: TodoList
    subagents: SubagentRunner
    sampler: Sampler | None = None
    search_key: Callable[[], Awaitable[Secret | None]]
    """Returns the key of the configured search service (see `web_search.search_key_finder`)."""


class Tool(Protocol, Generic[P_contra]):
    name: ClassVar[str]
    description: ClassVar[str]
    """For the model."""
    arguments: ClassVar[type[Any]]
    """A msgspec struct. The model gets its JSON Schema, with the descriptions of the fields."""
    effect: ClassVar[Effect]
    parallel: ClassVar[bool]
    """Whether the call can run in parallel with other calls of the same step."""

    async def plan(self, arguments: P_contra, context: ToolContext) -> ToolPlan: ...

    async def run(self, arguments: P_contra, context: ToolContext, plan: ToolPlan) -> ToolOutput:
        """Make the call.

        If it is cancelled, a tool that started processes kills them and *returns* an output of status ``cancelled``
        that names what was killed and what still runs. Other tools raise the cancel. So the turn runs each call in its
        own task, cancels the task, and uses its result if there is one.
        """


class PreparedCall(NamedTuple):
    """A call that can be planned and run."""

    tool: Tool[Any]
    arguments: Any
    """The validated arguments."""
    notes: tuple[str, ...] = ()
    """What the model is told about how its call was understood."""
