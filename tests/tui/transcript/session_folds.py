"""Sessions for tests of the transcript, made by the client's fold as in the real interface."""

from typing import Any

from holdfast.client.transcript_fold import TranscriptFold
from holdfast.client.view_fold import SessionSnapshot, ViewFold
from holdfast.schema.events import Delta, MessageCreated
from holdfast.schema.messages import Message, Text
from holdfast.schema.runs import Run
from holdfast.schema.sessions import Session

AT = "2026-01-01T00:00:00.000Z"


class SessionMaker:
    """Builds a session message by message."""

    def __init__(self, *messages: Message, runs: tuple[Run, ...] = (), older: str | None = None) -> None:
        self.view = ViewFold()
        snapshot = SessionSnapshot(session=Session("ses_1", "wsp_1"), messages=messages, runs=runs, older=older)
        self.fold: TranscriptFold = self.view.open_session(snapshot)
        self.seq = len(messages)

    def add(self, role: Any, *parts: Any, **fields: Any) -> str:
        self.seq += 1
        found = message(self.seq, role, *parts, **fields)
        self.view.apply(MessageCreated(AT, "ses_1", found))
        return found.id

    def stream(self, message_id: str, text: str, *, offset: int = 0) -> None:
        self.view.apply(Delta(AT, "ses_1", message_id, 0, 1, "text", offset, text))


def message(seq: int, role: Any, *parts: Any, run_id: str = "run_1", **fields: Any) -> Message:
    return Message(f"msg_{seq}", "ses_1", run_id, role, seq, AT, tuple(parts), **fields)


def conversation(count: int) -> tuple[Message, ...]:
    """Prompts and answers in turn."""
    return tuple(
        message(number, "user", Text(f"prompt {number}"))
        if number % 2
        else message(number, "assistant", Text(f"## Answer {number}\n\nSome *text* about it.\n\n- one\n- two"))
        for number in range(1, count + 1)
    )
