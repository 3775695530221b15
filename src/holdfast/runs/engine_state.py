"""What everything of the engine shares: the ledger, the hub, who runs and who waits."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.agent.protocol import TurnFactory
from holdfast.events import Hub
from holdfast.ids import Clock, Ids, rfc3339
from holdfast.runs.end_waiters import Waiters
from holdfast.runs.engine_limits import EngineLimits
from holdfast.runs.lane.ledger_batch import Entry, LaneState, new_state
from holdfast.runs.mailbox import Mailbox, MailboxOwner
from holdfast.schema.sessions import Session
from holdfast.store import Store
from holdfast.tasks import OwnedTasks

if TYPE_CHECKING:
    from holdfast.runs.driver import Driver


class EngineState:
    def __init__(
        self,
        store: Store,
        hub: Hub,
        turns: TurnFactory,
        *,
        ids: Ids,
        clock: Clock,
        bounds: EngineLimits,
        owner: MailboxOwner,
    ) -> None:
        self.store = store
        self.hub = hub
        self.turns = turns
        self.ids = ids
        self.bounds = bounds
        self.tasks = OwnedTasks()
        self.waiters = Waiters()
        self.mailboxes: dict[str, Mailbox] = {}
        """By session; only those with something to do or unfinished."""
        self.drivers: dict[str, Driver] = {}
        """By run: those that have a turn."""
        self.open_workspaces: set[str] = set()
        self.stopping = False
        self._clock = clock
        self._owner = owner

    def now(self) -> str:
        return rfc3339(self._clock())

    def entry(self, state: LaneState) -> Entry:
        return Entry(state, at=self.now(), new_message_id=self.new_message_id)

    def new_message_id(self) -> str:
        return self.ids.new("msg")

    def is_open(self, workspace_id: str) -> bool:
        """Whether runs of this workspace are accepted and started."""
        return workspace_id in self.open_workspaces and not self.stopping

    def mailbox(self, session_id: str, *, known: Session | None = None) -> Mailbox:
        """The session's mailbox. Post to it at once: one without work is not kept."""
        return self.mailboxes.get(session_id) or self._make(session_id, None, known)

    def new_mailbox(self, session: Session) -> Mailbox:
        """Of a session that its first command makes."""
        return self._make(session.id, new_state(session), session)

    def _make(self, session_id: str, state: LaneState | None, known: Session | None) -> Mailbox:
        mailbox = Mailbox(
            session_id,
            store=self.store,
            owner=self._owner,
            tasks=self.tasks,
            bounds=self.bounds,
            state=state,
            known=known,
        )
        self.mailboxes[session_id] = mailbox
        return mailbox
