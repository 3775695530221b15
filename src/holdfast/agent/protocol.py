"""The contract between a run and its turn: the engine gives a `Turn` a `TurnHandle`, the turn returns an `Ending`.

A turn is one run's work, whatever its kind. It writes only through its handle, so that everything of a session goes
into the ledger in one order, nothing is written after the run's end, and nothing moves that is not written (`R14`).

- A tool's start and a model request are committed before they happen: `TurnHandle.commit` returns when it is on disk.
- After each step, `TurnHandle.boundary`: it says whether to go on, with which steers' prompts, or that the run is over.
- A cancel arrives as the cancellation of the task that runs `Turn.run`. The turn then has ``Bounds.stop_seconds`` to
  kill what it started and to answer with what it has; shield that clean-up. It may also let `CancelledError` through:
  the engine closes the stored messages in its place (`agent.closing`). One that takes longer is left behind and named.
- A failure is raised; `agent.failures` says which end it becomes.
- Nothing that the turn started in the foreground is alive when `Turn.run` is over.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, TypeAlias

from holdfast.ids import Prefix
from holdfast.schema.base import Value
from holdfast.schema.events import DeltaKind, KnownDurable
from holdfast.schema.messages import Message
from holdfast.schema.runs import EndReason, Outcome, Phase, Run, RunRequest
from holdfast.schema.sessions import Session
from holdfast.schema.usage import Usage
from holdfast.store.writes import AnyWrite, Committed


class Spent(Value, frozen=True):
    """What one model request cost; added to its run, to the session and to the day's statistics in the same commit."""

    model: str
    usage: Usage
    steps: int = 1
    """0 for a request that is no step of the turn: a summary, a title, an attempt that failed."""
    by_subagent: bool = False
    """A sub-agent spent it: its own run has told the day's statistics already."""


class Ending(Value, frozen=True):
    """How a turn ended, and the last state of what it still had open. Written in the one commit of the run's end."""

    outcome: Outcome
    """Of a run that is stopping only its text, message, error and what was left running count: the end is settled."""
    messages: tuple[Message, ...] = ()
    """Told as ``message.finished`` before ``run.finished`` (`E5`)."""
    writes: tuple[AnyWrite, ...] = ()
    events: tuple[KnownDurable, ...] = ()
    spent: Spent | None = None


class GoOn(Value, frozen=True):
    """Take another step. The prompts of ``joined`` are already stored as user messages, in this order."""

    joined: tuple[Run, ...] = ()


class Ended(Value, frozen=True):
    """This was the run's end; return ``None``."""


class StopNow(Value, frozen=True):
    """The run is stopping: what was given is stored, now clean up and return an `Ending`."""

    why: EndReason


Crossing: TypeAlias = GoOn | Ended | StopNow


class Child(Protocol):
    """A sub-agent's run, in its own session."""

    @property
    def session_id(self) -> str: ...

    @property
    def run_id(self) -> str: ...

    async def ended(self) -> Run:
        """The run with its end. Cancelling this cancels the child and waits for its end, which is bounded."""
        ...

    @property
    def run(self) -> Run | None:
        """The run with its end, once it has one."""
        ...


class TurnHandle(Protocol):
    """What the engine gives to a turn. Of one run; useless after its end (`Conflict`, code ``run_over``)."""

    @property
    def run(self) -> Run:
        """As it stands in the ledger now: usage and steps so far, ``active`` or ``stopping``."""
        ...

    @property
    def session(self) -> Session:
        """Whose run it is; its title and usage as they were when the run started."""
        ...

    @property
    def stopping(self) -> EndReason | None:
        """Why the run must stop, or ``None``."""
        ...

    def now(self) -> str:
        """The time, as it is written."""
        ...

    def new_id(self, prefix: Prefix) -> str: ...

    async def commit(
        self, writes: Sequence[AnyWrite], events: Sequence[KnownDurable] = (), *, spent: Spent | None = None
    ) -> Committed:
        """All of it, durably, or an error of the store. A cancel that comes meanwhile is raised when it is known."""
        ...

    async def boundary(
        self,
        *,
        outcome: Outcome | None = None,
        messages: Sequence[Message] = (),
        writes: Sequence[AnyWrite] = (),
        events: Sequence[KnownDurable] = (),
        spent: Spent | None = None,
    ) -> Crossing:
        """A step is done, every call has its result, and another step is allowed.

        ``outcome`` is how the run ends if nobody joins; ``None`` when tool results make it go on anyway. The messages
        (told as ``message.finished``) and writes are stored in the same commit, whatever the answer is. Where a limit
        forbids another step, return an `Ending` instead.
        """
        ...

    async def child(self, request: RunRequest, *, title: str) -> Child:
        """Accepts and starts a run in a new child session. `ToolError` when there are too many, or too deep.

        It is stopped with this run and has ended before it; ``request.agent`` names who it is.
        """
        ...

    def progress(self, phase: Phase, what: str = "", *, since: str | None = None) -> None:
        """What the run waits for (``now`` of the run, ``run.progress``), from now on or since then."""
        ...

    def report(self, *, killed: Sequence[str] = (), left_running: Sequence[str] = ()) -> None:
        """Processes that were killed or would not die, named: for receipts and for the run's end, however it comes."""
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
        """More text of an open part, to whoever watches (`E3`). Nothing of it is stored."""
        ...

    def attempt(self, message_id: str, attempt: int) -> None:
        """The attempt before failed: what it told is replaced (`R13`)."""
        ...


class Turn(Protocol):
    async def run(self, handle: TurnHandle) -> Ending | None:
        """Does the run's work. ``None`` only after `Ended`."""
        ...


class TurnFactory(Protocol):
    """Makes the turn that fits a run's kind and its session's workspace."""

    async def check(self, session: Session, request: RunRequest) -> None:
        """Refuses what cannot be run (`NoModel`, `BadRequest`) before anything is stored. Not called for known ids."""
        ...

    def turn(self, run: Run, session: Session) -> Turn:
        """For a run that has just started. What it raises is the run's end."""
        ...
