"""The parser returns the same events however the bytes are split."""

from collections import deque
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.schema.sse_parser import SseEvent, SseParser, SseTooLong

_lines = st.sampled_from(
    [
        b"",
        b"",
        b"data: a",
        b"data:b",
        b"data:  c",
        b"data",
        b"data:",
        b"event: delta",
        b"event",
        b"id: 7",
        b"id: \0",
        b"id",
        b": comment",
        b"retry: 10",
        b"retry: x",
        b"unknown: x",
        "data: ä😀".encode(),
        b"\xef\xbb\xbfdata: not first",
    ]
)
_streams = st.lists(st.tuples(_lines, st.sampled_from([b"\n", b"\r\n", b"\r"])), max_size=14).map(
    lambda lines: b"".join(line + end for line, end in lines)
)


def _whole(stream: bytes) -> tuple[list[SseEvent], str, int | None]:
    parser = SseParser()
    return parser.feed(stream), parser.id, parser.retry


@given(stream=_streams, cuts=st.lists(st.integers(0, 200), max_size=8))
def test_the_events_do_not_depend_on_chunk_boundaries(stream: bytes, cuts: list[int]) -> None:
    parser = SseParser()
    places = [0, *sorted(min(cut, len(stream)) for cut in cuts), len(stream)]
    events = [event for a, b in pairwise(places) for event in parser.feed(stream[a:b])]
    assert (events, parser.id, parser.retry) == _whole(stream)


@given(stream=_streams)
def test_single_bytes_give_the_same_events_as_one_chunk(stream: bytes) -> None:
    parser = SseParser()
    events = [event for byte in stream for event in parser.feed(bytes([byte]))]
    assert (events, parser.id, parser.retry) == _whole(stream)


@given(stream=_streams)
def test_all_three_line_endings_are_equivalent(stream: bytes) -> None:
    plain = stream.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    assert (
        _whole(stream) == _whole(plain) == _whole(plain.replace(b"\n", b"\r\n")) == _whole(plain.replace(b"\n", b"\r"))
    )


@pytest.mark.parametrize(
    ("stream", "events"),
    [
        (b"data: a\n\n", [SseEvent(b"a")]),
        (b"data: a\ndata: b\n\n", [SseEvent(b"a\nb")]),
        (b"\xef\xbb\xbfdata: a\n\n", [SseEvent(b"a")]),
        (b"event: delta\ndata: a\n\ndata: b\n\n", [SseEvent(b"a", "delta"), SseEvent(b"b")]),
        (b"id: 7\ndata: a\n\ndata: b\n\n", [SseEvent(b"a", id="7"), SseEvent(b"b", id="7")]),
        (b"event: delta\n\ndata: a\n\n", [SseEvent(b"a")]),
        (b": comment\nretry: 10\n\n", []),
        (b"data: cut off", []),
    ],
)
def test_streams_are_parsed_into_events(stream: bytes, events: list[SseEvent]) -> None:
    assert SseParser().feed(stream) == events


def test_end_returns_an_event_without_its_last_blank_line() -> None:
    parser = SseParser()
    assert parser.feed(b"event: done\ndata: a") == []
    assert parser.end() == [SseEvent(b"a", "done")]
    assert parser.end() == []


@pytest.mark.parametrize("endless", [b"x" * 60, b"data: xxx\n" * 20])
def test_an_event_over_the_limit_is_rejected(endless: bytes) -> None:
    parser = SseParser(limit=50)
    with pytest.raises(SseTooLong, match="50"):
        deque((parser.feed(bytes([byte])) for byte in endless), maxlen=0)
