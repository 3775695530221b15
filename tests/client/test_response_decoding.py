"""Responses of older and newer servers are decoded as far as possible; those of other programs are refused."""

from typing import Any

import msgspec
import pytest

from holdfast import errors
from holdfast.client.response_decoding import read_as, read_error
from holdfast.client.session_decoding import read_messages, read_stream_event
from holdfast.schema.api.response_bodies import PageView
from holdfast.schema.api.server_views import Health
from holdfast.schema.base import Unknown, encode, to_builtins
from holdfast.schema.events import Heartbeat, MessageFinished, RunFinished
from holdfast.schema.messages import Finish, Message, Text
from holdfast.schema.runs import Run

RUN = Run(id="run_1", session_id="ses_1", seq=1, state="failed", reason="provider", text="so far")
MESSAGE = Message("msg_1", "ses_1", "run_1", "assistant", 1, "now", (Text("hello"), Finish("end_turn")))


def _newer(value: object, **fields: object) -> bytes:
    changed: dict[str, Any] = to_builtins(value)
    return msgspec.json.encode(changed | fields)


def test_unknown_fields_are_ignored() -> None:
    assert read_as(_newer(RUN, colour="green"), Run) == RUN


def test_a_value_of_a_newer_version_is_left_out() -> None:
    read = read_as(_newer(RUN, reason="eclipse", usage={"input": 5, "output": "many"}), Run)
    assert (read.state, read.reason, read.text) == ("failed", None, "so far")
    assert (read.usage.input, read.usage.output) == (5, 0)


def test_only_invalid_items_of_a_list_are_left_out() -> None:
    raw = msgspec.json.encode({"items": [to_builtins(RUN), 7, to_builtins(RUN)], "cursor": "a.1"})
    assert read_as(raw, PageView[Run]) == PageView((RUN, RUN), "a.1")


def test_missing_fields_of_an_older_server_have_defaults() -> None:
    assert read_as(b'{"status":"ok","version":"0.0.9"}', Health) == Health("0.0.9")


@pytest.mark.parametrize("raw", [b"", b"<html>", b"[1]", b'"text"', b"{}", b"\xff", b"[" * 100_000])
def test_a_body_of_another_program_is_refused(raw: bytes) -> None:
    with pytest.raises(errors.NotHoldfast):
        read_as(raw, Run)


def test_messages_keep_parts_of_unknown_types_in_their_places() -> None:
    message = to_builtins(MESSAGE)
    message["parts"].insert(0, {"type": "hologram", "data": 1})
    page = read_messages(msgspec.json.encode({"items": [message], "next": "4", "cursor": "a.9"}))
    (read,) = page.items
    assert isinstance(read.parts[0], Unknown)
    assert read.parts[1:] == MESSAGE.parts
    assert (page.next, page.cursor) == ("4", "a.9")


@pytest.mark.promise("R7")
def test_run_finished_with_an_unknown_reason_is_decoded() -> None:
    raw = msgspec.json.encode(
        {"kind": "run.finished", "at": "now", "session_id": "ses_1", "run": to_builtins(RUN) | {"reason": "eclipse"}}
    )
    event = read_stream_event(raw)
    assert isinstance(event, RunFinished)
    assert (event.run.state, event.run.reason) == ("failed", None)


def test_known_events_are_read_and_unknown_kinds_stay_unknown() -> None:
    assert read_stream_event(encode(Heartbeat(at="now"))) == Heartbeat(at="now")
    finished = MessageFinished("now", "ses_1", MESSAGE)
    assert read_stream_event(encode(finished)) == finished
    assert isinstance(read_stream_event(b'{"kind":"moon.rose","at":"now"}'), Unknown)
    assert isinstance(read_stream_event(b'{"kind":"run.finished","at":"now"}'), Unknown)


@pytest.mark.parametrize(
    ("status", "code", "leaf"),
    [
        (404, "session_not_found", errors.NotFound),
        (409, "no_model", errors.NoModel),
        (409, "run_joined", errors.Conflict),
        (410, "session_deleted", errors.Gone),
        (429, "too_many", errors.TooMany),
        (418, "teapot", errors.BadRequest),
        (503, "stopping", errors.ServerStopping),
        (507, "store_unwritable", errors.StoreUnwritable),
        (500, "internal", errors.InternalError),
        (599, "new_fault", errors.InternalError),
    ],
)
@pytest.mark.promise("W9")
def test_an_error_response_becomes_its_error_class(status: int, code: str, leaf: type[errors.HoldfastError]) -> None:
    raw = encode({"error": {"code": code, "message": "because", "detail": {"id": "x"}}})
    error = read_error(status, raw)
    assert type(error) is leaf
    assert (error.error_code, error.message, error.detail) == (code, "because", {"id": "x"})


@pytest.mark.parametrize(
    "raw",
    [
        *(b"", b"<html>secret</html>", b"[]", b'{"error": "secret"}', b'{"error": {"code": 7, "message": "secret"}}'),
        b'{"error": {"code": "NOT OURS", "message": "secret"}}',
        b'{"error": {"code": "a", "message": "secret", "detail": 1}}',
    ],
)
@pytest.mark.promise("W9")
def test_the_error_text_of_another_program_is_not_repeated(raw: bytes) -> None:
    error = read_error(404, raw)
    assert type(error) is errors.NotHoldfast
    assert "404" in str(error)
    assert "secret" not in str(error)
    assert type(read_error(502, raw)) is errors.Unreachable
