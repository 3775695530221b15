"""Events: what a client's stream consists of. Kinds may be added, never removed."""

from typing import Any, Literal, TypeAlias

import msgspec

from holdfast.schema.approvals import Approval, Question
from holdfast.schema.base import LateDecoder, TaggedReader, Unknown, Value
from holdfast.schema.client_tools import ClientCall
from holdfast.schema.devices import Device
from holdfast.schema.extensions import ExtensionStatus
from holdfast.schema.messages import Message, read_message
from holdfast.schema.runs import Now, Queue, Run
from holdfast.schema.sessions import Client, Job, Session, Todo


class _SessionEvent(Value, frozen=True, tag_field="kind"):
    at: str
    session_id: str


class SessionCreated(_SessionEvent, frozen=True, tag="session.created"):
    session: Session


class SessionUpdated(_SessionEvent, frozen=True, tag="session.updated"):
    session: Session


class SessionDeleted(_SessionEvent, frozen=True, tag="session.deleted"):
    pass


class RunAccepted(_SessionEvent, frozen=True, tag="run.accepted"):
    run: Run


class RunStarted(_SessionEvent, frozen=True, tag="run.started"):
    run: Run


class RunJoined(_SessionEvent, frozen=True, tag="run.joined"):
    run: Run


class RunStopping(_SessionEvent, frozen=True, tag="run.stopping"):
    run: Run


class RunUpdated(_SessionEvent, frozen=True, tag="run.updated"):
    run: Run


class RunRetrying(_SessionEvent, frozen=True, tag="run.retrying"):
    run_id: str
    attempt: int
    cause: str
    message: str
    wait: float
    """Seconds until the next attempt."""


class RunFinished(_SessionEvent, frozen=True, tag="run.finished"):
    run: Run


class QueueChanged(_SessionEvent, frozen=True, tag="queue.changed"):
    queue: Queue


class MessageCreated(_SessionEvent, frozen=True, tag="message.created"):
    message: Message


class MessageUpdated(_SessionEvent, frozen=True, tag="message.updated"):
    message: Message


class MessageFinished(_SessionEvent, frozen=True, tag="message.finished"):
    message: Message


class ApprovalRequested(_SessionEvent, frozen=True, tag="approval.requested"):
    approval: Approval


class ApprovalResolved(_SessionEvent, frozen=True, tag="approval.resolved"):
    approval: Approval


class QuestionAsked(_SessionEvent, frozen=True, tag="question.asked"):
    question: Question


class QuestionResolved(_SessionEvent, frozen=True, tag="question.resolved"):
    question: Question


class JobStarted(_SessionEvent, frozen=True, tag="job.started"):
    job: Job


class JobFinished(_SessionEvent, frozen=True, tag="job.finished"):
    job: Job


class FileChanged(_SessionEvent, frozen=True, tag="file.changed"):
    run_id: str
    path: str
    change: Literal["created", "modified", "deleted", "restored"]
    diff: str = ""


class TodoChanged(_SessionEvent, frozen=True, tag="todo.changed"):
    todos: tuple[Todo, ...]


class ConfigChanged(Value, frozen=True, tag_field="kind", tag="config.changed"):
    at: str
    workspace_id: str | None = None
    keys: tuple[str, ...] = ()


class ExtensionChanged(Value, frozen=True, tag_field="kind", tag="extension.changed"):
    at: str
    workspace_id: str
    extension: ExtensionStatus


KnownDurable: TypeAlias = (
    SessionCreated
    | SessionUpdated
    | SessionDeleted
    | RunAccepted
    | RunStarted
    | RunJoined
    | RunStopping
    | RunUpdated
    | RunRetrying
    | RunFinished
    | QueueChanged
    | MessageCreated
    | MessageUpdated
    | MessageFinished
    | ApprovalRequested
    | ApprovalResolved
    | QuestionAsked
    | QuestionResolved
    | JobStarted
    | JobFinished
    | FileChanged
    | TodoChanged
    | ConfigChanged
    | ExtensionChanged
)
Durable: TypeAlias = KnownDurable | Unknown

DeltaKind = Literal["text", "reasoning", "arguments", "output"]


class Delta(_SessionEvent, frozen=True, tag="delta"):
    """Text that will be stored soon. ``offset`` counts code points within the part's attempt (`E3`)."""

    message_id: str
    part: int
    attempt: int
    of: DeltaKind
    """The kind of text. The name ``kind`` is the event's tag."""
    offset: int
    text: str


class OpenPart(Value, frozen=True):
    part: int
    attempt: int
    of: DeltaKind
    text: str
    call_id: str | None = None
    name: str | None = None


class Snapshot(_SessionEvent, frozen=True, tag="snapshot"):
    """The open parts of a message. Deltas continue at the end of their texts."""

    message_id: str
    parts: tuple[OpenPart, ...]


class RunProgress(_SessionEvent, frozen=True, tag="run.progress"):
    run_id: str
    now: Now


class CallRequested(_SessionEvent, frozen=True, tag="call.requested"):
    """A client must execute a call and send its result. A new stream begins with the open calls."""

    call: ClientCall


class CallClosed(_SessionEvent, frozen=True, tag="call.closed"):
    """A call of a client has its result, or needs none any more."""

    call: ClientCall


class ClientAttached(Value, frozen=True, tag_field="kind", tag="client.attached"):
    at: str
    client: Client
    session_id: str | None = None


class ClientDetached(Value, frozen=True, tag_field="kind", tag="client.detached"):
    at: str
    client: Client
    session_id: str | None = None


class DeviceChanged(Value, frozen=True, tag_field="kind", tag="device.changed"):
    at: str
    device: Device
    change: Literal["paired", "changed", "revoked"]


class PairingFailed(Value, frozen=True, tag_field="kind", tag="pairing.failed"):
    """Somebody sent a code that is wrong, used or expired."""

    at: str
    address: str
    """The address that it came from."""
    failures: int
    """How many there were in the last minutes."""


class Heartbeat(Value, frozen=True, tag_field="kind", tag="heartbeat"):
    at: str


class Hello(Value, frozen=True, tag_field="kind", tag="hello"):
    at: str
    cursor: str
    heartbeat_seconds: float


class Reset(Value, frozen=True, tag_field="kind", tag="reset"):
    """The stream continues after ``cursor``. The client must read its state again."""

    at: str
    cursor: str
    reason: Literal["foreign", "future", "pruned"]


KnownLive: TypeAlias = (
    Delta
    | Snapshot
    | RunProgress
    | CallRequested
    | CallClosed
    | ClientAttached
    | ClientDetached
    | DeviceChanged
    | PairingFailed
    | Heartbeat
    | Hello
    | Reset
)
Live: TypeAlias = KnownLive | Unknown
Event: TypeAlias = KnownDurable | KnownLive | Unknown

_events = TaggedReader(KnownDurable | KnownLive, "kind")
_fields = LateDecoder(dict[str, msgspec.Raw])


_MESSAGE_KINDS: dict[str, type[MessageCreated | MessageUpdated | MessageFinished]] = {
    "message.created": MessageCreated,
    "message.updated": MessageUpdated,
    "message.finished": MessageFinished,
}


def read_event(raw: bytes) -> Event:
    """Decode an event. An unknown kind becomes `Unknown`; an unknown part is kept in its message."""
    event: Event = _events.read(raw)
    if isinstance(event, Unknown) and (kind := _MESSAGE_KINDS.get(event.tag)):
        try:
            fields = _fields.decode(raw)
            message = read_message(fields["message"])
            return kind(at=msgspec.json.decode(fields["at"], type=str), session_id=message.session_id, message=message)
        except (KeyError, msgspec.ValidationError):  # not the shape of a message event
            return event
    return event


def event_kind(event: KnownDurable | KnownLive) -> str:
    """Return the kind, as in the stream's ``event:`` line."""
    tag: Any = type(event).__struct_config__.tag
    return str(tag)
