"""The hub: committed events and live text, to any number of subscribers that nobody waits for.

Durable events come from the ledger, in commit order, encoded once. The last ones are kept in a ring that all
subscribers share; whoever is further behind reads the log. Live text is state, not a queue (`live`). So a subscriber
is a position and a wake-up, whatever it does or does not read.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Collection

import msgspec

from holdfast.events.cursor import Cursor
from holdfast.events.live_state import LiveState
from holdfast.events.live_text import snapshot
from holdfast.events.recent_events import Entry, RecentEvents
from holdfast.events.stream_item import StreamItem
from holdfast.events.subscription import Scope, Subscription
from holdfast.ids import Clock, Sleep, rfc3339
from holdfast.schema.base import encode
from holdfast.schema.events import DeltaKind, Heartbeat, KnownLive, RunProgress, event_kind
from holdfast.schema.runs import Now
from holdfast.store import LoggedEvent, Store

_HOMES = 16384


class _Part(msgspec.Struct):
    type: str = ""
    call_id: str | None = None


class _Message(msgspec.Struct):
    id: str
    parts: list[_Part] = []


class _Run(msgspec.Struct):
    id: str


class _Session(msgspec.Struct):
    parent_id: str | None = None


class _Glance(msgspec.Struct):
    """As much of an event's body as the hub must know."""

    message: _Message | None = None
    run: _Run | None = None
    session: _Session | None = None


_glance = msgspec.json.Decoder(_Glance)


class Hub:
    """Belongs to one loop and one store. `run` beats for it; `close` ends all its subscriptions."""

    def __init__(
        self,
        store: Store,
        *,
        clock: Clock = time.time,
        heartbeat_seconds: float = 10.0,
        recent_events: RecentEvents | None = None,
    ) -> None:
        self.store = store
        self.recent_events = recent_events or RecentEvents(store.last_number)
        self.live_state = LiveState()
        self.heartbeat = b""
        self.heartbeat_seconds = heartbeat_seconds
        self._clock = clock
        self._stamped = (0, "")
        self._homes: OrderedDict[str, str | None] = OrderedDict()
        self._subscriptions: set[Subscription] = set()
        self._asleep: set[Subscription] = set()
        self._stop_listening = store.listen(self._publish)

    @property
    def cursor(self) -> str:
        """Of an answer that is true now."""
        return self.cursor_at(self.recent_events.last)

    def cursor_at(self, number: int) -> str:
        """Of an answer that is true at an event's number (`Page.at`, `E7`)."""
        return str(Cursor(self.store.log_id, number))

    def subscribe(
        self, *, after: str | None = None, workspace_id: str | None = None, session_id: str | None = None
    ) -> Subscription:
        """A stream from a cursor on, or from now. A session's includes its descendants."""
        subscription = Subscription(self, after=after, scope=Scope(workspace_id=workspace_id, session_id=session_id))
        self._subscriptions.add(subscription)
        return subscription

    @property
    def subscriber_count(self) -> int:
        return len(self._subscriptions)

    async def send_heartbeats(self, *, sleep: Sleep = asyncio.sleep) -> None:
        """Beats for ever; its owner cancels it."""
        while True:
            await sleep(self.heartbeat_seconds)
            self.send_heartbeat()

    def send_heartbeat(self) -> None:
        """Every stream shows that it lives (`E6`)."""
        self.heartbeat = encode(Heartbeat(at=self.timestamp()))
        for subscription in self._subscriptions:
            subscription.beat()
        self._wake(self._asleep)

    def close(self) -> None:
        """Ends every subscription; what they have not read stays in the log."""
        self._stop_listening()
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
        """More text of an open part. A part is open until a durable event tells it whole.

        Message events carry whole parts only: a delta of a part that one has told is not passed on. Live ``output``
        belongs to a call (``call_id``) and ends with the event that tells the call's result.
        """
        message = self.live_state.message(message_id, session_id=session_id)
        if message.append(part, text, attempt=attempt, of=of, call_id=call_id, name=name):
            self.live_state.changed(message)
            self._wake_for(self._homes.get(session_id), session_id)

    def start_attempt(self, session_id: str, message_id: str, attempt: int) -> None:
        """The attempt before failed: its text is replaced, at once by a snapshot without it (`R13`)."""
        message = self.live_state.message(message_id, session_id=session_id)
        message.restart(attempt)
        self.live_state.changed(message)
        self._wake_for(self._homes.get(session_id), session_id)

    def close_message(self, message_id: str) -> None:
        """Its open parts are no more, though no durable event told them. A finished message closes by itself."""
        message = self.live_state.drop(message_id)
        if message is not None and message.parts:
            item = snapshot(message.session_id, message_id, (), self.timestamp)
            self._notice(("closed", message_id), item, session_id=message.session_id)

    def close_session(self, session_id: str) -> None:
        """The turn is over: nothing of the session is open any more."""
        for message_id in self.live_state.of_session(session_id):
            self.close_message(message_id)

    def report_progress(self, session_id: str, run_id: str, now: Now) -> None:
        """What a run is doing; only the latest is told."""
        event = RunProgress(at=self.timestamp(), session_id=session_id, run_id=run_id, now=now)
        self._notice(("progress", run_id), StreamItem("run.progress", encode(event)), session_id=session_id)

    def publish(self, event: KnownLive, *, key: str, workspace_id: str | None = None) -> None:
        """Any other live event (presence). Of one kind and key only the latest is told."""
        session_id: str | None = getattr(event, "session_id", None)
        kind = event_kind(event)
        self._notice((kind, key), StreamItem(kind, encode(event)), session_id=session_id, workspace_id=workspace_id)

    def timestamp(self) -> str:
        """The present time as events have it."""
        now = self._clock()
        millis = int(now * 1000)
        if self._stamped[0] != millis:
            self._stamped = (millis, rfc3339(now))
        return self._stamped[1]

    def workspace_of(self, session_id: str) -> str | None:
        return self._homes.get(session_id)

    def fell_asleep(self, subscription: Subscription) -> None:
        self._asleep.add(subscription)

    def left(self, subscription: Subscription) -> None:
        self._subscriptions.discard(subscription)
        self._asleep.discard(subscription)

    def _publish(self, logged: tuple[LoggedEvent, ...]) -> None:
        """From the store, on the loop, in commit order."""
        for event in logged:
            if event.session_id is not None:
                self._remember_home(event.session_id, event.workspace_id)
            self._close_what_it_tells(event)
            item = StreamItem(event.kind, event.body, id=self.cursor_at(event.number))
            self.recent_events.append(
                Entry(number=event.number, workspace_id=event.workspace_id, session_id=event.session_id, item=item)
            )
        for event in logged:
            self._wake_for(event.workspace_id, event.session_id)

    def _close_what_it_tells(self, event: LoggedEvent) -> None:
        session_id = event.session_id or ""
        match event.kind:
            case "message.created" | "message.updated" | "message.finished":
                if self.live_state.of_session(session_id):
                    self._message_told(event, session_id)
            case "run.finished":
                if run := _glance.decode(event.body).run:
                    self.live_state.retract(("progress", run.id))
            case "session.created":
                session = _glance.decode(event.body).session
                if session is not None and session.parent_id is not None:
                    for subscription in self._subscriptions:
                        subscription.scope.adopt(session_id, parent_id=session.parent_id)
            case "session.deleted":
                self.close_session(session_id)

    def _message_told(self, event: LoggedEvent, session_id: str) -> None:
        told = _glance.decode(event.body).message
        if told is None:
            return
        message = self.live_state.find(told.id)
        if message is not None:
            message.told(len(told.parts))
        answered = {part.call_id for part in told.parts if part.type == "tool_result" and part.call_id}
        if answered:
            for message_id in self.live_state.of_session(session_id):
                called = self.live_state.message(message_id, session_id=session_id)
                called.answered(answered)
                if called.is_spent:
                    self.live_state.drop(message_id)
        if event.kind == "message.finished":
            self.live_state.drop(told.id)

    def _notice(
        self, key: tuple[str, str], item: StreamItem, *, session_id: str | None, workspace_id: str | None = None
    ) -> None:
        if session_id is not None and workspace_id is None:
            workspace_id = self._homes.get(session_id)
        self.live_state.notice(key, item, workspace_id=workspace_id, session_id=session_id)
        self._wake_for(workspace_id, session_id)

    def _remember_home(self, session_id: str, workspace_id: str | None) -> None:
        """Live text names its session only; its workspace is known from the durable event that came before it."""
        self._homes[session_id] = workspace_id
        self._homes.move_to_end(session_id)
        if len(self._homes) > _HOMES:
            self._homes.popitem(last=False)

    def _wake_for(self, workspace_id: str | None, session_id: str | None) -> None:
        if self._asleep:
            self._wake([one for one in self._asleep if one.scope.wants(workspace_id, session_id)])

    def _wake(self, subscriptions: Collection[Subscription]) -> None:
        for subscription in tuple(subscriptions):
            self._asleep.discard(subscription)
            subscription.wake()
