"""What is true now and not stored: open messages and notices, each stamped with the count of its last change."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection

import msgspec

from holdfast.events.live_text import LiveMessage
from holdfast.events.stream_item import StreamItem

MOST_NOTICES = 1024


class Notice(msgspec.Struct, frozen=True):
    """Only the latest of its key counts."""

    tick: int
    workspace_id: str | None
    session_id: str | None
    item: StreamItem


class LiveState:
    """Both collections are in order of change, so that a reader looks only at what changed since it looked."""

    def __init__(self) -> None:
        self.tick = 0
        self._messages: OrderedDict[str, LiveMessage] = OrderedDict()
        self._of_session: dict[str, set[str]] = {}
        self._notices: OrderedDict[tuple[str, str], Notice] = OrderedDict()

    def message(self, message_id: str, *, session_id: str) -> LiveMessage:
        """The open message, opened if it is not."""
        message = self._messages.get(message_id)
        if message is None:
            message = self._messages[message_id] = LiveMessage(message_id, session_id=session_id, tick=self.tick + 1)
            self._of_session.setdefault(session_id, set()).add(message_id)
        return message

    def find(self, message_id: str) -> LiveMessage | None:
        return self._messages.get(message_id)

    def of_session(self, session_id: str) -> Collection[str]:
        """Ids of the session's open messages."""
        return tuple(self._of_session.get(session_id, ()))

    def changed(self, message: LiveMessage) -> None:
        self.tick += 1
        message.tick = self.tick
        self._messages.move_to_end(message.id)

    def drop(self, message_id: str) -> LiveMessage | None:
        message = self._messages.pop(message_id, None)
        if message is not None:
            siblings = self._of_session[message.session_id]
            siblings.discard(message_id)
            if not siblings:
                del self._of_session[message.session_id]
        return message

    def notice(
        self, key: tuple[str, str], item: StreamItem, *, workspace_id: str | None, session_id: str | None
    ) -> None:
        self.tick += 1
        self._notices[key] = Notice(tick=self.tick, workspace_id=workspace_id, session_id=session_id, item=item)
        self._notices.move_to_end(key)
        if len(self._notices) > MOST_NOTICES:
            self._notices.popitem(last=False)

    def retract(self, key: tuple[str, str]) -> None:
        self._notices.pop(key, None)

    def messages_since(self, tick: int) -> list[LiveMessage]:
        """Changed after the count, the earliest change first."""
        found = []
        for message in reversed(self._messages.values()):
            if message.tick <= tick:
                break
            found.append(message)
        found.reverse()
        return found

    def notices_since(self, tick: int) -> list[Notice]:
        found = []
        for notice in reversed(self._notices.values()):
            if notice.tick <= tick:
                break
            found.append(notice)
        found.reverse()
        return found

    def forget(self, subscriber: object) -> None:
        for message in self._messages.values():
            message.forget(subscriber)
