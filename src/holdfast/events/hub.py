"""The hub: distributes committed events and live text to any number of subscribers, and waits for none of them.

Durable events come from the store in commit order, encoded once. The latest are in a buffer that all subscribers share;
a subscriber that is further behind reads the log. Live text is state, not a queue (`live_state`). So a subscriber is a
position and a wake-up, whether it reads or not.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable, Collection

from holdfast.events.live_state import LiveState, encode_snapshot
from holdfast.events.recent_events import RecentEvent, RecentEvents
from holdfast.events.stream_item import StreamItem
from holdfast.events.subscription import ReadableWorkspaces, StreamScope, Subscription
from holdfast.ids import Clock, Sleep, rfc3339
from holdfast.schema.base import encode
from holdfast.schema.events import (
    DeltaKind,
    Heartbeat,
    KnownLive,
    MessageCreated,
    MessageFinished,
    MessageUpdated,
    RunFinished,
    RunProgress,
    SessionCreated,
    SessionDeleted,
    event_kind,
)
from holdfast.schema.messages import ToolResult
from holdfast.schema.runs import Now
from holdfast.store import CommittedEvent, Store

_MAX_KNOWN_SESSIONS = 16384
_UNHURRIED_SECONDS = 0.01
"""How long the progress of a run may wait for an event that is sent with it."""


class Hub:
    """Belongs to one event loop and one store. Its owner runs `send_heartbeats` and calls `close`."""

    def __init__(
        self,
        store: Store,
        *,
        heartbeat_seconds: float,
        clock: Clock = time.time,
        recent_events: RecentEvents | None = None,
    ) -> None:
        self.store = store
        self.recent_events = recent_events or RecentEvents(store.last_number)
        self.live_state = LiveState()
        self.heartbeat = b""
        """The body of the latest heartbeat."""
        self.heartbeat_seconds = heartbeat_seconds
        self._clock = clock
        self._workspace_by_session: OrderedDict[str, str | None] = OrderedDict()
        self._subscriptions: set[Subscription] = set()
        self._sleeping: set[Subscription] = set()
        self._waking: set[Subscription] = set()
        self._unhurried: set[tuple[str | None, str | None]] = set()
        """The workspaces and sessions whose readers are woken when the timer ends."""
        self._timer: asyncio.TimerHandle | None = None
        self._progress_observers: tuple[Callable[[str, Now], None], ...] = ()
        self._stop_listening = store.listen(self._on_commit)

    @property
    def cursor(self) -> str:
        """The cursor of a response that is true now."""
        return self.cursor_at(self.recent_events.last)

    def cursor_at(self, number: int) -> str:
        """Return the cursor of a response that is true at an event's number (`Page.at`, `E7`)."""
        return f"{self.store.log_id}.{number}"

    def subscribe(
        self,
        *,
        after: str | None = None,
        workspace_id: str | None = None,
        session_id: str | None = None,
        readable: ReadableWorkspaces | None = None,
    ) -> Subscription:
        """Return a stream from a cursor on, or from now. The stream of a session includes its descendants.

        ``readable`` says which workspaces the reader may see.
        """
        scope = StreamScope(workspace_id=workspace_id, session_id=session_id, readable=readable)
        subscription = Subscription(self, after=after, scope=scope)
        self._subscriptions.add(subscription)
        return subscription

    @property
    def subscriber_count(self) -> int:
        return len(self._subscriptions)

    async def send_heartbeats(self, *, sleep: Sleep = asyncio.sleep) -> None:
        """Send heartbeats until cancelled."""
        while True:
            await sleep(self.heartbeat_seconds)
            self.send_heartbeat()

    def send_heartbeat(self) -> None:
        """Send a heartbeat to every stream (`E6`)."""
        self.heartbeat = encode(Heartbeat(at=self.timestamp()))
        for subscription in self._subscriptions:
            subscription.request_heartbeat()
        self._wake(self._sleeping)

    def close(self) -> None:
        """End all subscriptions. Events they have not read stay in the log."""
        self._stop_listening()
        if self._timer is not None:
            self._timer.cancel()
        for subscription in tuple(self._subscriptions):
            subscription.close()

    def add_delta(
        self,
        session_id: str,
        message_id: str,
        part: int,
        *,
        text: str,
        of: DeltaKind = "text",
        attempt: int = 1,
        call_id: str | None = None,
        name: str | None = None,
    ) -> None:
        """Add text to an open part. A part is open until a durable event contains it whole.

        Message events contain whole parts only, so a delta of a part that one has contained is ignored. Live ``output``
        belongs to a call (``call_id``) and ends with the event that contains the call's result.
        """
        message = self.live_state.open_message(message_id, session_id=session_id)
        if message.append(part, text, attempt=attempt, of=of, call_id=call_id, name=name):
            self.live_state.mark_changed(message)
            self._wake_for(self._workspace_by_session.get(session_id), session_id)

    def start_attempt(self, session_id: str, message_id: str, attempt: int) -> None:
        """Withdraw the text of a failed attempt: subscribers get a snapshot without it (`R13`)."""
        message = self.live_state.open_message(message_id, session_id=session_id)
        message.restart(attempt)
        self.live_state.mark_changed(message)
        self._wake_for(self._workspace_by_session.get(session_id), session_id)

    def close_message(self, message_id: str) -> None:
        """Withdraw the open parts of a message that no durable event contains. A finished message closes by itself."""
        message = self.live_state.drop_message(message_id)
        if message is not None and message.parts:
            item = encode_snapshot(message.session_id, message_id, (), self.timestamp)
            self._set_notice(("closed", message_id), item, session_id=message.session_id)

    def close_session(self, session_id: str) -> None:
        """Close all messages of a session when its turn ends."""
        for message_id in self.live_state.messages_of(session_id):
            self.close_message(message_id)

    def report_progress(self, session_id: str, run_id: str, now: Now) -> None:
        """Publish what a run is doing. Only the latest report is sent."""
        for observer in self._progress_observers:
            observer(run_id, now)
        event = RunProgress(at=self.timestamp(), session_id=session_id, run_id=run_id, now=now)
        item = StreamItem("run.progress", encode(event))
        workspace_id = self._workspace_by_session.get(session_id)
        self.live_state.set_notice(
            ("progress", run_id), item, workspace_id=workspace_id, session_id=session_id, is_state=True
        )
        self._wake_later(workspace_id, session_id)

    def observe_progress(self, observer: Callable[[str, Now], None]) -> None:
        """Call the observer with the id of the run and what it is doing, whenever that changes."""
        self._progress_observers = (*self._progress_observers, observer)

    def publish(self, event: KnownLive, *, key: str, workspace_id: str | None = None, is_state: bool = False) -> None:
        """Publish another live event, such as presence. Of one kind and key only the latest is sent.

        ``is_state``: streams that are opened later get it too, until it is withdrawn.
        """
        session_id: str | None = getattr(event, "session_id", None)
        kind = event_kind(event)
        item = StreamItem(kind, encode(event))
        self._set_notice((kind, key), item, session_id=session_id, workspace_id=workspace_id, is_state=is_state)

    def withdraw(self, kind: type[KnownLive], *, key: str) -> None:
        """Send an event that was published no longer."""
        self.live_state.drop_notice((str(kind.__struct_config__.tag), key))

    def timestamp(self) -> str:
        """Return the current time in the format of events."""
        return rfc3339(self._clock())

    def workspace_of(self, session_id: str) -> str | None:
        return self._workspace_by_session.get(session_id)

    def add_sleeping(self, subscription: Subscription) -> None:
        """Wake the subscription when there is something for it."""
        self._sleeping.add(subscription)

    def remove(self, subscription: Subscription) -> None:
        self._subscriptions.discard(subscription)
        self._sleeping.discard(subscription)

    def _on_commit(self, committed: tuple[CommittedEvent, ...]) -> None:
        """The store calls this on the event loop, in commit order."""
        places = {(logged.workspace_id, logged.session_id) for logged in committed}
        for workspace_id, session_id in places:
            if session_id is not None:
                self._remember_workspace(session_id, workspace_id)
        for logged in committed:
            self._update_live_state(logged)
            self.recent_events.append(
                RecentEvent(
                    number=logged.number,
                    workspace_id=logged.workspace_id,
                    session_id=logged.session_id,
                    item=StreamItem(logged.kind, logged.body, id=self.cursor_at(logged.number)),
                )
            )
        for workspace_id, session_id in places:
            self._wake_soon(workspace_id, session_id)

    def _update_live_state(self, logged: CommittedEvent) -> None:
        match logged.event:
            case MessageCreated() | MessageUpdated() | MessageFinished() as event:
                if self.live_state.messages_of(event.session_id):
                    self._close_stored_parts(event)
            case RunFinished(run=run):
                self.live_state.drop_notice(("progress", run.id))
            case SessionCreated(session_id=session_id, session=session) if session.parent_id is not None:
                for subscription in self._subscriptions:
                    subscription.scope.add_descendant(session_id, parent_id=session.parent_id)
            case SessionDeleted(session_id=session_id):
                self.close_session(session_id)

    def _close_stored_parts(self, event: MessageCreated | MessageUpdated | MessageFinished) -> None:
        stored = event.message
        message = self.live_state.find_message(stored.id)
        if message is not None:
            message.mark_stored(len(stored.parts))
        finished_calls = {part.call_id for part in stored.parts if isinstance(part, ToolResult) and part.call_id}
        if finished_calls:
            for message_id in self.live_state.messages_of(event.session_id):
                caller = self.live_state.open_message(message_id, session_id=event.session_id)
                caller.close_outputs(finished_calls)
                if caller.is_finished_output:
                    self.live_state.drop_message(message_id)
        if isinstance(event, MessageFinished):
            self.live_state.drop_message(stored.id)

    def _set_notice(
        self,
        key: tuple[str, str],
        item: StreamItem,
        *,
        session_id: str | None,
        workspace_id: str | None = None,
        is_state: bool = False,
    ) -> None:
        if session_id is not None and workspace_id is None:
            workspace_id = self._workspace_by_session.get(session_id)
        self.live_state.set_notice(key, item, workspace_id=workspace_id, session_id=session_id, is_state=is_state)
        self._wake_for(workspace_id, session_id)

    def _remember_workspace(self, session_id: str, workspace_id: str | None) -> None:
        """Live text names only its session. The durable events before it name the workspace."""
        self._workspace_by_session[session_id] = workspace_id
        self._workspace_by_session.move_to_end(session_id)
        if len(self._workspace_by_session) > _MAX_KNOWN_SESSIONS:
            self._workspace_by_session.popitem(last=False)

    def _wake_for(self, workspace_id: str | None, session_id: str | None) -> None:
        if self._sleeping:
            self._wake([one for one in self._sleeping if one.scope.concerns(workspace_id, session_id)])

    def _wake_soon(self, workspace_id: str | None, session_id: str | None) -> None:
        """Wake subscriptions after the answer to the caller of the commit is sent: writing to a stream takes time."""
        if not self._sleeping:
            return
        found = [one for one in self._sleeping if one.scope.concerns(workspace_id, session_id)]
        if found and not self._waking:
            asyncio.get_running_loop().call_soon(self._wake_waking)
        self._waking.update(found)
        self._sleeping.difference_update(found)

    def _wake_later(self, workspace_id: str | None, session_id: str | None) -> None:
        """Wake subscriptions for what is no haste, unless they read it sooner with something else."""
        self._unhurried.add((workspace_id, session_id))
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(_UNHURRIED_SECONDS, self._wake_unhurried)

    def _wake_unhurried(self) -> None:
        places, self._unhurried, self._timer = self._unhurried, set(), None
        for workspace_id, session_id in places:
            self._wake_for(workspace_id, session_id)

    def _wake_waking(self) -> None:
        waking, self._waking = self._waking, set()
        self._wake(waking)

    def _wake(self, subscriptions: Collection[Subscription]) -> None:
        for subscription in tuple(subscriptions):
            self._sleeping.discard(subscription)
            subscription.wake()
