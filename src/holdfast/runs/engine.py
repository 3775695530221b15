"""The engine: owns the lanes and the tasks of the runs, and is what the layers above talk to."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Literal, Protocol

from holdfast.agent.protocol import TurnFactory
from holdfast.ids import Clock, Ids
from holdfast.schema.base import Word
from holdfast.schema.events import Delta, RunProgress, Snapshot
from holdfast.schema.messages import File
from holdfast.schema.runs import Accepted, Queue, Receipt, Run, RunRequest
from holdfast.store import Store

Scope = Literal["session", "active"]


class Bounds(Word, frozen=True, kw_only=True):
    """How long and how many."""

    stop_seconds: float = 1.5
    """What a turn gets to clean up after a cancel; then it is left behind and named (`C7`)."""
    receipt_seconds: float = 2.0
    """How long a cancel waits for the ends of what it covered (`C3`)."""
    shutdown_seconds: float = 5.0
    """How long a graceful stop waits for everything (`W5`)."""
    unfinished_runs: int = 256
    """Per session."""
    live_children: int = 8
    """Sub-agents of one run at a time."""
    child_depth: int = 2
    retry_first_seconds: float = 0.1
    """Until an end that could not be written is tried again; doubles each time."""
    retry_most_seconds: float = 5.0


class Watchers(Protocol):
    """Whoever watches live: deltas and progress, never stored. The hub."""

    def publish(self, event: Delta | Snapshot | RunProgress) -> None: ...


class Engine:
    """All runs of one server. One mailbox per session that has something to do; nothing for the others."""

    def __init__(
        self,
        store: Store,
        watchers: Watchers,
        turns: TurnFactory,
        *,
        ids: Ids,
        clock: Clock = time.time,
        bounds: Bounds | None = None,
    ) -> None: ...

    async def accept(self, session_id: str, request: RunRequest, *, client: str, body_hash: str) -> Accepted:
        """A new run, durably, or the first answer again for a known ``run_id`` (`R1`–`R3`)."""
        raise NotImplementedError

    async def accept_in_new_session(
        self, workspace_id: str, request: RunRequest, *, client: str, body_hash: str, title: str = ""
    ) -> Accepted:
        """The session and its first run in one commit."""
        raise NotImplementedError

    async def get_run(self, run_id: str) -> Run:
        """As it is, with what it is doing now. `NotFound`, or `Gone` when its session is deleted."""
        raise NotImplementedError

    async def wait_run(self, run_id: str, *, timeout: float) -> Run:
        """The same, when it has ended or the time is over (`R9`)."""
        raise NotImplementedError

    def shown(self, run: Run) -> Run:
        """A run read from the ledger, with what only the engine knows: ``now``."""
        raise NotImplementedError

    async def queue(self, session_id: str) -> Queue:
        raise NotImplementedError

    async def cancel_session(self, session_id: str, scope: Scope = "session") -> Receipt:
        raise NotImplementedError

    async def cancel_run(self, run_id: str) -> Receipt:
        raise NotImplementedError

    async def change_queued(
        self,
        run_id: str,
        *,
        prompt: str | None = None,
        attachments: Sequence[File] | None = None,
        position: int | None = None,
    ) -> Run:
        """Edits or moves a run that is still queued, in one commit. `Conflict` (``not_queued``) otherwise."""
        raise NotImplementedError

    async def remove_queued(self, run_id: str) -> Run:
        raise NotImplementedError

    async def pause(self, session_id: str) -> Queue:
        raise NotImplementedError

    async def resume(self, session_id: str) -> Queue:
        raise NotImplementedError

    async def delete_session(self, session_id: str) -> Receipt:
        """Stops what runs, then removes the session. The receipt comes as with a cancel."""
        raise NotImplementedError

    async def open_workspace(self, workspace_id: str) -> None:
        """Ends what a crash left behind, then lets queued runs start (`W6`). Again: nothing happens."""
        raise NotImplementedError

    async def close_workspace(self, workspace_id: str) -> None:
        """Interrupts its active runs, holds its queues; new prompts get `WorkspaceClosing`."""
        raise NotImplementedError

    async def unfinished_workspaces(self) -> tuple[str, ...]:
        """Ids of those with runs that have not ended: `serve` opens them itself (`W6`)."""
        raise NotImplementedError

    def unfinished(self, workspace_id: str | None = None) -> int:
        """How many runs of an open workspace (or of all) have not ended (`W2`)."""
        raise NotImplementedError

    def active(self, workspace_id: str | None = None) -> int:
        """How many of them have a turn."""
        raise NotImplementedError

    async def stop(self) -> None:
        """No new runs; active ones end ``interrupted``, queues are kept and held; bounded (`W5`)."""
        raise NotImplementedError
