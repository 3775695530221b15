"""The contract between the engine and a turn: the engine gives a `Turn` a `TurnHandle`, the turn returns an `Ending`.

A turn does the work of one run, whatever its kind. It writes only through its handle, so everything of a session is
written in one order, and nothing is written after the run's end (`R14`).

- Before a tool starts or an answer is shown, its row is committed: `TurnHandle.commit` returns when it is on disk.
- After each step the turn calls `TurnHandle.boundary`. The answer is to take another step, to stop, or that the run
  has ended. The turn may learn it before the commit, and then do what has no effects: ask the model.
- A cancel arrives as the cancellation of the task that runs `Turn.run`. The turn then has `EngineLimits.stop_seconds`
  to kill what it started and to return what it has; shield that clean-up. It may also let `CancelledError` through:
  the engine then closes the stored messages (`agent.unfinished_messages`). A turn that takes longer is abandoned and
  named in the run's end.
- A turn raises its failures; `agent.run_outcome` maps them to an end.
- Everything the turn started in the foreground is dead when `Turn.run` returns.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from msgspec import UNSET, UnsetType

from holdfast.ids import Prefix
from holdfast.schema.base import Value
from holdfast.schema.events import DeltaKind, KnownDurable
from holdfast.schema.messages import Message, Part, Role
from holdfast.schema.runs import BoundaryAnswer, EndReason, Outcome, Phase, Run, RunRequest, RunSettings
from holdfast.schema.sessions import Session
from holdfast.schema.usage import Usage
from holdfast.store.writes import AnyWrite, Committed


class Spent(Value, frozen=True):
    """The usage of one model request. It is added to the run, the session and the daily statistics in one commit."""

    model: str
    usage: Usage
    steps: int = 1
    """0 for a request that is not a step of the turn: a summary, a title, a failed attempt."""
    by_subagent: bool = False
    """A sub-agent spent it. Its own run has already added it to the daily statistics."""


class Ending(Value, frozen=True):
    """How a turn ended, and the last state of its open messages. Written in the commit of the run's end."""

    outcome: Outcome
    """The state and reason are ignored if the run is stopping: the lane has already decided them."""
    messages: tuple[Message, ...] = ()
    """Published as `message.finished` before `run.finished` (`E5`)."""
    writes: tuple[AnyWrite, ...] = ()
    events: tuple[KnownDurable, ...] = ()
    spent: Spent | None = None
    closes_all: bool = False
    """The turn knows that nothing else of the run is open: no message, call, approval or question."""


class StepOpening(Value, frozen=True):
    """What begins the next step, and is stored with the results of the step before."""

    writes: tuple[AnyWrite, ...]
    """Reminders, and the row of the next answer."""
    events: tuple[KnownDurable, ...]
    on_decided: Callable[[], None]
    """Called once before the commit, if the run goes on and nothing joins: the model may be asked. A steer that is
    accepted later joins at the next boundary."""


class Subagent(Protocol):
    """A sub-agent's run, in its own session."""

    @property
    def session_id(self) -> str: ...

    @property
    def run_id(self) -> str: ...

    @property
    def run(self) -> Run | None:
        """The ended run, or `None` while it has not ended."""
        ...

    async def ended(self) -> Run:
        """Wait for the end. Cancelling this cancels the sub-agent and waits until it has stopped, in bounded time."""
        ...


class StartRecord(Value, frozen=True, kw_only=True):
    """What the commit that started a run says about it, so that its turn need not read it from the database."""

    variables: dict[str, str] | UnsetType | None = UNSET
    """The variables of the shell in which it works; unset: the database has those that were sent before it."""
    messages: tuple[Message, ...] | None = None
    """All messages of its session, if the session began with it."""


class TurnHandle(Protocol):
    """The interface of one run to its turn. After the run's end it raises `Conflict` (`run_over`)."""

    @property
    def run(self) -> Run:
        """The run as committed: usage and steps so far, `active` or `stopping`."""
        ...

    @property
    def session(self) -> Session:
        """The session as it was when the run started."""
        ...

    async def may_begin(self) -> None:
        """Wait, for a moment at most, until prompts that are being accepted are answered.

        Call it before the work that begins a turn, so that a burst of prompts is accepted first.
        """
        ...

    @property
    def started_with(self) -> StartRecord: ...

    @property
    def stopping(self) -> EndReason | None:
        """Why the run must stop, or `None`."""
        ...

    def now(self) -> str:
        """The current time in the format of the database."""
        ...

    def new_id(self, prefix: Prefix) -> str: ...

    async def commit(
        self, writes: Sequence[AnyWrite], events: Sequence[KnownDurable] = (), *, spent: Spent | None = None
    ) -> Committed:
        """Write everything or raise a `StoreError`. A cancel that comes meanwhile is raised after the commit."""
        ...

    async def boundary(
        self,
        *,
        outcome: Outcome | None = None,
        messages: Sequence[Message] = (),
        writes: Sequence[AnyWrite] = (),
        events: Sequence[KnownDurable] = (),
        spent: Spent | None = None,
        opening: StepOpening | None = None,
    ) -> BoundaryAnswer:
        """Report the end of a step. Every call has its result, and another step is allowed.

        `outcome` is the end of the run if no steer joins; `None` if tool results require another step. The messages
        (published as `message.finished`) and writes are stored in the same commit, whatever the answer is. If a limit
        forbids another step, return an `Ending` instead.

        `opening` is stored in the same commit if the run goes on and nothing joins.
        """
        ...

    async def start_subagent(self, request: RunRequest, *, title: str) -> Subagent:
        """Start a run in a new child session; `request.agent` names its agent.

        It is stopped with this run and ends before it. Raises `ToolError` if there are too many or they are nested too
        deeply.
        """
        ...

    def progress(self, phase: Phase, what: str = "", *, since: str | None = None, seconds: float | None = None) -> None:
        """Set what the run is waiting for (`now` of the run, `run.progress`).

        `since` defaults to the current time. `seconds` says how long it waits, if that is known.
        """
        ...

    def use_settings(self, in_effect: RunSettings) -> None:
        """Say with which settings the turn works, all defaults filled in. Steers are compared with them (`R6`)."""
        ...

    def report(self, *, killed: Sequence[str] = (), left_running: Sequence[str] = ()) -> None:
        """Add the names of processes that were killed or did not die, for receipts and for the run's end."""
        ...

    def delta(
        self,
        message_id: str,
        part: int,
        *,
        text: str,
        of: DeltaKind = "text",
        attempt: int = 1,
        call_id: str | None = None,
        name: str | None = None,
    ) -> None:
        """Publish more text of an open part to subscribers. Text and reasoning are kept over a crash (`E3`)."""
        ...

    def attempt(self, message_id: str, attempt: int) -> None:
        """Start a new attempt; subscribers replace the text of the failed one (`R13`)."""
        ...


def new_message(handle: TurnHandle, role: Role, parts: tuple[Part, ...] = (), *, model: str | None = None) -> Message:
    """Make a message of the handle's run. Its `seq` is set when it is committed."""
    return Message(
        id=handle.new_id("msg"),
        session_id=handle.run.session_id,
        run_id=handle.run.id,
        role=role,
        seq=0,
        created_at=handle.now(),
        parts=parts,
        model=model,
    )


class Turn(Protocol):
    async def run(self, handle: TurnHandle) -> Ending | None:
        """Do the run's work. Return `None` only after `Ended`."""
        ...


class TurnFactory(Protocol):
    """Makes the turn for a run's kind and its session's workspace."""

    async def prepare(self, session: Session, request: RunRequest) -> RunRequest:
        """Return the request as it is stored, with the settings of the command that it calls; for a steer also with
        those that would be in effect.

        Refuses one that cannot run (`NoModel`, `BadRequest`). Not called for known ids.
        """
        ...

    def turn(self, run: Run, session: Session) -> Turn:
        """Make the turn of a run that has just started. An exception becomes the run's end."""
        ...
