"""Every event kind is decoded as it was encoded, and kinds of a newer version are kept."""

from typing import Any, get_args

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.schema import events as ev
from holdfast.schema.approvals import Approval, Question
from holdfast.schema.base import Unknown, encode, to_builtins
from holdfast.schema.client_tools import ClientCall
from holdfast.schema.devices import Device
from holdfast.schema.extensions import ExtensionStatus
from holdfast.schema.messages import Message, Text
from holdfast.schema.runs import Now, Queue, Run
from holdfast.schema.sessions import Client, Job, Session, Todo
from tests.schema.strategies import messages, objects, texts, unknown_parts

_MADE: dict[Any, Any] = {
    str: "s",
    int: 1,
    float: 1.5,
    bool: True,
    Session: Session(id="ses_1", workspace_id="wsp_1"),
    Run: Run(id="run_1", session_id="ses_1", seq=1),
    Queue: Queue(session_id="ses_1", run_ids=("run_1",), paused="user"),
    Message: Message(id="m", session_id="ses_1", run_id="r", role="user", seq=1, created_at="t", parts=(Text("a"),)),
    Approval: Approval(
        id="a", workspace_id="w", session_id="s", root_session_id="s", run_id="r", call_id="c", tool="t", title="t"
    ),
    Question: Question(
        id="q", workspace_id="w", session_id="s", root_session_id="s", run_id="r", call_id="c", items=()
    ),
    ClientCall: ClientCall("i", "w", "s", "s", run_id="r", call_id="c", client_id="c", tool="t"),
    Job: Job(id="j", workspace_id="w", session_id="s", run_id="r", command="c"),
    Now: Now("tool"),
    ExtensionStatus: ExtensionStatus("mcp", "docs", "ready"),
    Client: Client("c"),
    Device: Device("dev_1", "phone", "drive"),
    tuple[Todo, ...]: (Todo("a"),),
    tuple[ev.OpenPart, ...]: (ev.OpenPart(part=0, attempt=1, of="text", text="a"),),
}

_KINDS = {
    "session.created",
    "session.updated",
    "session.deleted",
    "run.accepted",
    "run.started",
    "run.joined",
    "run.stopping",
    "run.updated",
    "run.retrying",
    "run.finished",
    "queue.changed",
    "message.created",
    "message.updated",
    "message.finished",
    "run.progress",
    "delta",
    "snapshot",
    "approval.requested",
    "approval.resolved",
    "question.asked",
    "question.resolved",
    "job.started",
    "job.finished",
    "file.changed",
    "todo.changed",
    "config.changed",
    "extension.changed",
    "call.requested",
    "call.closed",
    "client.attached",
    "client.detached",
    "device.changed",
    "pairing.failed",
    "heartbeat",
    "reset",
    "hello",
}

_every_kind = (*get_args(ev.KnownDurable), *get_args(ev.KnownLive))


def _example(kind: Any) -> Any:
    """Return an event of this kind with all required fields."""
    fields = msgspec.structs.fields(kind)
    return kind(**{field.name: _value(field.type) for field in fields if field.required})


def _value(type_: Any) -> Any:
    return _MADE[type_] if type_ in _MADE else get_args(type_)[0]


def test_the_event_kinds_are_those_of_the_interface() -> None:
    assert {ev.event_kind(_example(kind)) for kind in _every_kind} == _KINDS


@pytest.mark.parametrize("kind", _every_kind)
def test_every_event_kind_is_decoded_as_it_was_encoded(kind: Any) -> None:
    event = _example(kind)
    assert ev.read_event(encode(event)) == event
    assert to_builtins(event)["kind"] == ev.event_kind(event)


@pytest.mark.parametrize("kind", _every_kind)
def test_a_field_of_a_newer_version_is_ignored(kind: Any) -> None:
    event = _example(kind)
    assert ev.read_event(encode({**to_builtins(event), "new_field": {"a": [1]}})) == event


@given(kind=texts.map(lambda text: f"new.{text}"), fields=objects)
def test_an_event_kind_of_a_newer_version_is_kept_unchanged(kind: str, fields: dict[str, Any]) -> None:
    raw = encode({**fields, "kind": kind})
    event = ev.read_event(raw)
    assert event == Unknown(kind, raw)
    assert encode(event) == raw


@given(message=messages, unknown=unknown_parts, kind=st.sampled_from(["created", "updated", "finished"]))
def test_an_unknown_part_is_kept_in_its_message(message: Message, unknown: dict[str, Any], kind: str) -> None:
    parts = [*to_builtins(message)["parts"], unknown]
    event = ev.read_event(
        encode(
            {
                "kind": f"message.{kind}",
                "at": "t",
                "session_id": message.session_id,
                "message": {**to_builtins(message), "parts": parts},
            }
        )
    )
    assert isinstance(event, ev.MessageCreated | ev.MessageUpdated | ev.MessageFinished)
    assert ev.event_kind(event) == f"message.{kind}"
    assert event.message.parts[:-1] == message.parts
    assert to_builtins(event)["message"]["parts"] == parts


@pytest.mark.parametrize(
    "event",
    [
        {"kind": "message.created", "at": "t"},
        {"kind": "message.created", "at": 7, "session_id": "s", "message": to_builtins(_MADE[Message])},
        {"kind": "message.updated", "at": "t", "session_id": "s", "message": "another shape"},
        {
            "kind": "message.updated",
            "at": "t",
            "session_id": "s",
            "message": {**to_builtins(_MADE[Message]), "role": "new"},
        },
        {"kind": "run.finished", "at": "t", "session_id": "s", "run": {"id": 7}},
        {"no": "kind"},
        ["not an object"],
    ],
)
def test_an_event_of_another_shape_is_kept_unchanged(event: Any) -> None:
    read = ev.read_event(encode(event))
    assert isinstance(read, Unknown)
    assert to_builtins(read) == event
