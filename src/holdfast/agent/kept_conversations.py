"""Long conversations, kept from one turn to the next, so that a prompt costs the same after 10 turns and after 400.

What is kept is what would be read: the messages as requests have them, and what they were converted to. It is used only
by the run that follows directly (`Run.seq`), and only after a turn that ended by itself: any other run of the session,
such as a cancel, a compaction, an undo or a run of another server, makes the next turn read everything anew. Little is
kept, and nothing of it is needed.
"""

from __future__ import annotations

from collections import OrderedDict

from holdfast.models.wires.request_cache import RequestCache
from holdfast.schema.base import Value
from holdfast.schema.messages import Message

_LEAST_MESSAGES = 40
"""A shorter conversation is read as fast."""
_MOST_SESSIONS = 4
_MOST_TOKENS = 500_000
"""Of one conversation, by our own estimate."""


class KeptConversation(Value, frozen=True, kw_only=True):
    """The state of a `Conversation` after a turn. The next turn takes its lists over."""

    run_seq: int
    images: bool
    last_seq: int
    known: set[str]
    sent: list[Message]
    fresh: list[Message]
    size: int
    estimate: int
    system: tuple[str, ...]
    facts: dict[str, str]
    converted: RequestCache


class KeptConversations:
    """Those that were used last, by session."""

    def __init__(self, *, least_messages: int = _LEAST_MESSAGES) -> None:
        self._least_messages = least_messages
        self._kept: OrderedDict[str, KeptConversation] = OrderedDict()

    def __len__(self) -> int:
        return len(self._kept)

    def __contains__(self, session_id: str) -> bool:
        return session_id in self._kept

    def put(self, session_id: str, conversation: KeptConversation) -> None:
        if len(conversation.known) < self._least_messages or conversation.estimate > _MOST_TOKENS:
            return
        self._kept[session_id] = conversation
        if len(self._kept) > _MOST_SESSIONS:
            self._kept.popitem(last=False)

    def take(self, session_id: str, *, run_seq: int, images: bool) -> KeptConversation | None:
        """Return what the run before this one left, once."""
        kept = self._kept.pop(session_id, None)
        return kept if kept is not None and (kept.run_seq + 1, kept.images) == (run_seq, images) else None
