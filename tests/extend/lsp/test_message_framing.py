"""Messages are cut out of a stream, however it arrives, and rubbish is refused."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.extend.lsp.message_framing import MAX_MESSAGE_BYTES, FrameReader, ProtocolViolation, encode_message


@given(st.lists(st.text(), max_size=5), st.lists(st.integers(1, 40), min_size=1, max_size=20))
def test_messages_are_found_however_the_stream_is_cut(texts: list[str], sizes: list[int]) -> None:
    stream = b"".join(encode_message({"method": text}) for text in texts)
    reader, bodies, at = FrameReader(), list[bytes](), 0
    while at < len(stream):
        size = sizes[at % len(sizes)]
        bodies += reader.feed(stream[at : at + size])
        at += size
    assert bodies == [encode_message({"method": text}).partition(b"\r\n\r\n")[2] for text in texts]


def test_other_headers_and_any_case_are_accepted() -> None:
    data = b"Content-Type: application/vscode-jsonrpc; charset=utf-8\r\ncontent-length:  2\r\n\r\n{}"
    assert FrameReader().feed(data) == [b"{}"]


@pytest.mark.parametrize(
    "data",
    [
        b"Content-Type: json\r\n\r\n{}",
        b"Content-Length: nine\r\n\r\n",
        b"Content-Length: -1\r\n\r\n",
        b"Content-Length: %d\r\n\r\n" % (MAX_MESSAGE_BYTES + 1),
        b"Content-Length: 99999999999999999999\r\n\r\n",
        b"X" * 5_000,
    ],
)
def test_what_is_no_message_is_refused(data: bytes) -> None:
    with pytest.raises(ProtocolViolation):
        FrameReader().feed(data)
