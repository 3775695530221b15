"""What the log stores of an event: long texts that a row has anyway are left out, and filled in when it is read.

An event of a message leaves out its parts if they are some of the stored message's; an event of a run leaves out the
prompt and the answer. Filled in, the body is the same, byte for byte. Pure; the same for every implementation.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

from msgspec.structs import replace

from holdfast.schema import events as e
from holdfast.schema.base import Value, encode
from holdfast.schema.messages import Message, Part, public_parts
from holdfast.schema.runs import Run
from holdfast.store.public_events import MESSAGE_EVENTS

MessageEvent: TypeAlias = e.MessageCreated | e.MessageUpdated | e.MessageFinished
RunEvent: TypeAlias = e.RunAccepted | e.RunStarted | e.RunJoined | e.RunStopping | e.RunUpdated | e.RunFinished

MESSAGE_KINDS = frozenset({"message.created", "message.updated", "message.finished"})


class LeftOut(Value, frozen=True):
    """Where the rest of an event's body is."""

    source: str
    """The id of the message or run."""
    first: int = 0
    """The first of the message's parts that the event has."""
    count: int = 0


class StoredBody(Value, frozen=True):
    """The body of an event as the log stores it."""

    body: bytes
    left_out: LeftOut | None = None


def parts_in_events(events: Iterable[e.KnownDurable]) -> dict[str, list[tuple[Part, ...]]]:
    """Return the parts that each message has in the events, by its id."""
    found: dict[str, list[tuple[Part, ...]]] = {}
    for event in events:
        if isinstance(event, MESSAGE_EVENTS):
            found.setdefault(event.message.id, []).append(event.message.parts)
    return found


def shorten_message(event: MessageEvent, stored: Message) -> StoredBody | None:
    """Return the body without its parts, or None if they are not the first parts of the stored message."""
    parts = event.message.parts
    if not parts or parts != public_parts(stored.parts[: len(parts)]):
        return None
    short = replace(event, message=replace(event.message, parts=()))
    return StoredBody(encode(short), LeftOut(stored.id, 0, len(parts)))


def shorten_run(event: RunEvent, stored: Run) -> StoredBody | None:
    """Return the body without the run's texts, or None if they are not those of the stored run."""
    run = event.run
    has_text = isinstance(event, e.RunFinished)
    if run.prompt != stored.prompt or (run.text != stored.text if has_text else run.text):
        return None
    return StoredBody(encode(replace(event, run=replace(run, prompt="", text=""))), LeftOut(run.id))


def fill_message(body: bytes, left_out: LeftOut, stored: Message) -> bytes:
    event = e.read_event(body)
    assert isinstance(event, e.MessageCreated | e.MessageUpdated | e.MessageFinished)
    parts = public_parts(stored.parts[left_out.first : left_out.first + left_out.count])
    return encode(replace(event, message=replace(event.message, parts=parts)))


def fill_run(body: bytes, stored: Run) -> bytes:
    event = e.read_event(body)
    assert isinstance(event, e.RunAccepted | e.RunStarted | e.RunJoined | e.RunStopping | e.RunUpdated | e.RunFinished)
    text = stored.text if isinstance(event, e.RunFinished) else ""
    return encode(replace(event, run=replace(event.run, prompt=stored.prompt, text=text)))


def moved_by(old: tuple[Part, ...], new: tuple[Part, ...], *, count: int) -> int | None:
    """Return by how many places the first parts moved when a message was replaced; None if they changed."""
    kept = public_parts(old[:count])
    return next((by for by in (0, 1) if public_parts(new[by : by + count]) == kept), None)
