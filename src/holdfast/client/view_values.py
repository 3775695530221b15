"""What every user interface shows, as frozen values that encode to JSON.

The values have no numbers that depend on the language of a client: durations are whole milliseconds, and no sums of
costs are made here. So the fold of another client, such as the web page's, gives the same JSON.
"""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

from holdfast.schema.approvals import Approval, Question
from holdfast.schema.base import Value
from holdfast.schema.messages import ResultStatus
from holdfast.schema.runs import Delivery, EndReason, EndState, Now, PauseReason, RunKind, RunState
from holdfast.schema.sessions import Client, Job, Session, Todo
from holdfast.schema.usage import Usage

CallState: TypeAlias = Literal["writing", "waiting", "running"] | ResultStatus
"""``writing``: the model still writes the arguments; ``waiting``: for an approval or an answer."""


class _Block(Value, frozen=True, tag_field="type", kw_only=True):
    id: str
    """Unique in the session, and the same as long as the block exists."""
    run_id: str


class AttachedFile(Value, frozen=True):
    name: str
    media_type: str


class PromptBlock(_Block, frozen=True, tag="prompt"):
    message_id: str
    text: str
    attachments: tuple[AttachedFile, ...] = ()
    client: str = ""
    """The client that sent it."""
    steered: bool = False
    """It joined a turn that was running."""
    unsent: bool = False
    """Its run never started; no model has seen it."""


class TextBlock(_Block, frozen=True, tag="text"):
    text: str
    open: bool = False
    """It is still being written."""


class ThinkingBlock(_Block, frozen=True, tag="thinking"):
    text: str
    open: bool = False
    duration_ms: int | None = None


class CallBlock(_Block, frozen=True, tag="call"):
    """A tool call, with its output when it runs or has ended."""

    call_id: str
    name: str
    state: CallState
    title: str = ""
    """The main argument, such as the command or the path, as the model wrote it."""
    arguments: dict[str, Any] = {}
    written: str = ""
    """The arguments as JSON text, while the model writes them or if they are not well formed."""
    output: str = ""
    display: dict[str, Any] = {}
    """As in the tool's result: diff, exit code, files."""
    images: tuple[AttachedFile, ...] = ()
    duration_ms: int | None = None
    ask_id: str | None = None
    """The approval or question that it waits for."""
    child_session_id: str | None = None
    """The session of the sub-agent that it started."""


class ShellBlock(_Block, frozen=True, tag="shell"):
    """A command of the user."""

    command: str
    output: str = ""
    open: bool = False
    exit_code: int | None = None


class SummaryBlock(_Block, frozen=True, tag="summary"):
    """The conversation was compacted. The model sees this text instead of what is above."""

    text: str


class NoticeBlock(_Block, frozen=True, tag="notice"):
    code: str
    text: str


class TurnEndBlock(_Block, frozen=True, tag="turn_end"):
    """The end of a run, below its messages."""

    kind: RunKind
    state: EndState
    reason: EndReason | None = None
    error: str = ""
    model: str = ""
    duration_ms: int | None = None
    usage: Usage = Usage()
    steps: int = 0
    left_running: tuple[str, ...] = ()


Block: TypeAlias = (
    PromptBlock | TextBlock | ThinkingBlock | CallBlock | ShellBlock | SummaryBlock | NoticeBlock | TurnEndBlock
)


class QueuedPrompt(Value, frozen=True):
    run_id: str
    prompt: str = ""
    kind: RunKind = "prompt"
    delivery: Delivery = "queue"
    client: str = ""
    attachments: tuple[AttachedFile, ...] = ()


class QueueState(Value, frozen=True):
    queued: tuple[QueuedPrompt, ...] = ()
    """In start order."""
    waiting: tuple[QueuedPrompt, ...] = ()
    """Steers that join the active turn at its next step."""
    paused: PauseReason | None = None


class ActiveTurn(Value, frozen=True):
    """The run that is active, and what it is doing."""

    run_id: str
    kind: RunKind
    state: RunState
    started_at: str | None = None
    now: Now | None = None


class SessionTranscript(Value, frozen=True):
    """One session as shown."""

    session_id: str
    blocks: tuple[Block, ...] = ()
    older: str | None = None
    """Messages before this position are not loaded; ``None`` if all are."""
    queue: QueueState = QueueState()
    active: ActiveTurn | None = None
    todos: tuple[Todo, ...] = ()
    context_tokens: int = 0
    """Tokens of the context window that the last step used."""


class OpenAsk(Value, frozen=True):
    """An approval or a question that waits for an answer. One of the two is set."""

    id: str
    approval: Approval | None = None
    question: Question | None = None


ConnectionState = Literal["connecting", "live", "lost"]


class StreamConnection(Value, frozen=True):
    state: ConnectionState = "connecting"
    since: str = ""
    detail: str = ""
    """Why the connection was lost."""


class ClientView(Value, frozen=True):
    """Everything that a client shows."""

    sessions: tuple[Session, ...] = ()
    """The one prompted last first. ``busy``, ``queued`` and ``clients`` are current."""
    asks: tuple[OpenAsk, ...] = ()
    """Open approvals and questions of all sessions, the oldest first."""
    jobs: tuple[Job, ...] = ()
    """Background jobs, in the order of their start."""
    clients: tuple[Client, ...] = ()
    transcripts: dict[str, SessionTranscript] = {}
    """The opened sessions and their sub-agents' sessions, by id."""
    connection: StreamConnection = StreamConnection()
