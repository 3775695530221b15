"""Compares each conversation that a turn begins with one that is read anew."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.agent.conversation import Conversation
from holdfast.agent.request_messages import following_messages, request_messages
from holdfast.schema.messages import Message


def check_conversations(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Check every turn from now on. The list gets the lengths of the requests that continue a kept conversation."""
    lengths: list[int] = []
    begin = Conversation.begin

    async def checked_begin(self: Conversation) -> None:
        await begin(self)
        run_id, images = self._handle.run.id, self._dependencies.model.info.images
        sent = (*self._sent, *following_messages(self._fresh, images=images))
        stored = await self._dependencies.store.messages_since_summary(self._handle.session.id)
        expected = request_messages(stored, images=images)
        assert _without_run(sent, run_id) == _without_run(expected, run_id)
        assert [message.id for message in sent] == [message.id for message in expected]
        if self._fresh:
            lengths.append(len(sent))

    monkeypatch.setattr(Conversation, "begin", checked_begin)
    return lengths


def _without_run(messages: tuple[Message, ...], run_id: str) -> list[tuple[Any, ...]]:
    """The context of the prompt that begins is not stored yet."""
    return [(one.id, one.role, one.parts) for one in messages if one.run_id != run_id]
