"""Runs: one accepted prompt or lane command, from acceptance to its single end."""

from typing import Any, Final, Literal, TypeAlias

from holdfast.schema.base import Value
from holdfast.schema.messages import File
from holdfast.schema.usage import Usage

RunKind = Literal["prompt", "compact", "shell", "undo", "redo", "delete"]
Delivery = Literal["queue", "steer"]
After = Literal["any", "success"]
Mode = Literal["ask", "accept_edits", "plan", "auto"]
MODES_BY_FREEDOM: Final[tuple[Mode, ...]] = ("plan", "ask", "accept_edits", "auto")
"""The strictest first."""
RunDecision = Literal["started", "queued", "steered"]

UnfinishedState = Literal["queued", "waiting", "joined", "active", "stopping"]
EndState = Literal["completed", "cancelled", "failed", "interrupted"]
RunState: TypeAlias = UnfinishedState | EndState

END_STATES: frozenset[str] = frozenset({"completed", "cancelled", "failed", "interrupted"})

EndReason = Literal[
    "end_turn",
    "max_tokens",
    "output_schema",
    "refused",
    "limit_steps",
    "limit_time",
    "limit_cost",
    "loop",
    "denied",
    "auth",
    "no_model",
    "rate_limit",
    "provider",
    "rejected",
    "network",
    "stall",
    "context",
    "tool",
    "user_cancel",
    "user_remove",
    "session_deleted",
    "parent_ended",
    "server_stop",
    "server_crash",
    "store",
    "internal",
]

LaneHold = Literal["user", "server_stop"]
"""A stored pause. The third pause, ``predecessor``, follows from the queue."""

LaneLifecycle = Literal["open", "closed", "deleting", "deleted"]
"""``closed``: the server is stopping, or has not opened the workspace. Nothing is accepted and nothing starts."""

CancelScope = Literal["session", "active"]
"""What a cancel of a session covers (`C4`): everything accepted before it, or the active run and what joined it."""

PauseReason = Literal["user", "server_stop", "predecessor"]

Phase = Literal[
    "starting", "first_token", "streaming", "tool", "approval", "question", "retry", "compacting", "stopping", "store"
]


class Limits(Value, frozen=True, omit_defaults=True):
    """Limits of a run. ``None``: as configured."""

    max_steps: int | None = None
    max_seconds: float | None = None
    max_cost: float | None = None


class RunSettings(Value, frozen=True, omit_defaults=True):
    """Settings of one run. A steer joins only a host that works with the same settings (`R6`)."""

    model: str | None = None
    """``provider/model``. ``None``: as configured when the run starts."""
    mode: Mode | None = None
    interactive: bool = True
    limits: Limits = Limits()
    effort: str | None = None
    output_schema: dict[str, Any] | None = None
    """JSON Schema of the final text. An answer that does not match it is corrected once, then the run fails."""
    agent: str | None = None
    """The agent of a sub-agent's run, or the one that the user chose; ``main``: none. ``None``: that of the session."""


class RunRequest(RunSettings, frozen=True, omit_defaults=True):
    """A request for a run. Its hash decides whether a repeated ``run_id`` is the same request (`R3`)."""

    prompt: str = ""
    run_id: str | None = None
    attachments: tuple[File, ...] = ()
    delivery: Delivery = "queue"
    after: After = "any"
    kind: RunKind = "prompt"
    arguments: dict[str, Any] = {}
    """Arguments of a run that is not a prompt: the shell command, the message to undo to."""
    environment: dict[str, str] | None = None
    """Variables of the client's shell, for the commands of the run. Not part of the hash, and not shown to clients."""
    chooses_agent: bool = False
    """Whether ``agent`` becomes the agent of the session. Set when the server prepares a request."""
    in_effect: RunSettings | None = None
    """The settings of a steer with all defaults filled in. Set when the server prepares a request."""


class RunError(Value, frozen=True, omit_defaults=True):
    code: str
    message: str


class Now(Value, frozen=True, omit_defaults=True):
    """What an active run is doing, and since when."""

    phase: Phase
    what: str = ""
    since: str = ""
    until: str = ""
    """When the wait ends, if that is known: the time of the next attempt."""


class Run(RunSettings, frozen=True, kw_only=True, omit_defaults=False):
    """A run as clients see it."""

    id: str
    session_id: str
    seq: int
    kind: RunKind = "prompt"
    state: RunState = "queued"
    reason: EndReason | None = None
    rank: int = 0
    delivery: Delivery = "queue"
    after: After = "any"
    prompt: str = ""
    attachments: tuple[File, ...] = ()
    arguments: dict[str, Any] = {}
    client: str = ""
    host_run_id: str | None = None
    parent_run_id: str | None = None
    """The run whose `agent` call started this run."""
    created_at: str = ""
    started_at: str | None = None
    finished_at: str | None = None
    now: Now | None = None
    text: str = ""
    """The final text, when the run has ended."""
    output: Any = None
    """With `output_schema`, when the run has completed: the text as JSON, which matches the schema."""
    message_id: str | None = None
    usage: Usage = Usage()
    steps: int = 0
    error: RunError | None = None
    left_running: tuple[str, ...] = ()
    """Background jobs and processes that still run after the end."""


def narrower_mode(mode: Mode | None, *, than: Mode) -> Mode:
    """Return the narrower one of two modes."""
    return mode if mode is not None and MODES_BY_FREEDOM.index(mode) < MODES_BY_FREEDOM.index(than) else than


def settings_of(run: RunSettings) -> RunSettings:
    """Return only the settings of a request or run, to compare two of them."""
    return RunSettings(**{name: getattr(run, name) for name in RunSettings.__struct_fields__})


class Outcome(Value, frozen=True, omit_defaults=True):
    """How a turn ended."""

    state: EndState
    reason: EndReason
    text: str = ""
    message_id: str | None = None
    error: RunError | None = None
    left_running: tuple[str, ...] = ()
    output: Any = None
    """With a schema: the text as JSON."""


class GoOn(Value, frozen=True):
    """The turn takes another step."""

    joined: tuple[str, ...] = ()
    """Ids of the runs that join now. Their prompts are stored as user messages, in this order."""


class Ended(Value, frozen=True):
    """The run has ended."""


class StopNow(Value, frozen=True):
    """The run is stopping: the turn cleans up and ends. The run ends with this reason, not with the turn's."""

    reason: EndReason


BoundaryAnswer: TypeAlias = GoOn | Ended | StopNow
"""What a turn does after a step, as the lane decides it."""


class CoveredRun(Value, frozen=True):
    """One run of a cancel receipt (`C3`)."""

    run_id: str
    session_id: str
    was: UnfinishedState | EndState
    doing: Now | None = None
    ended_as: EndState | None = None
    reason: EndReason | None = None
    prompt: str = ""
    """The text of the prompt, so that a client can restore it in its editor (`C10`)."""
    killed: tuple[str, ...] = ()
    left_running: tuple[str, ...] = ()
    stopped: bool = False
    """Whether nothing of the run is running any more. Its end may not be written yet."""


class Receipt(Value, frozen=True):
    """The runs that a cancel covered."""

    mark: int
    runs: tuple[CoveredRun, ...] = ()
    durable: bool = True
    """Whether the cancel is stored. If not, the runs are stopped, and the server keeps trying to store it (`C3`)."""
    error: RunError | None = None
    """Why the cancel or an end could not be written yet."""


NotSteered = Literal["idle", "stopping", "not_a_prompt", "settings"]
"""Why a steer does not join: nothing is active, the active run stops or is not a prompt, or its settings differ."""


class Accepted(Value, frozen=True):
    """The response to a request for a run."""

    run: Run
    decision: RunDecision
    position: int | None = None
    host_run_id: str | None = None
    not_steered: NotSteered | None = None
    """Why a run with the delivery ``steer`` was started or queued instead (`R6`)."""


class Queue(Value, frozen=True):
    """The lane of a session, as clients see it."""

    session_id: str
    run_ids: tuple[str, ...] = ()
    """Queued runs in start order."""
    waiting: tuple[str, ...] = ()
    active: str | None = None
    paused: PauseReason | None = None
