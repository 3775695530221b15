"""Bodies of messages: long ones are compressed, and old ones stay readable."""

from __future__ import annotations

import hashlib
import random

import pytest

from holdfast.errors import StoreDamaged
from holdfast.schema.base import encode
from holdfast.schema.messages import Context, File, Message, Text
from holdfast.store.rows import row_bodies
from holdfast.store.rows.row_bodies import pack_message, unpack_message
from tests.store.batches import a_message

PROMPT = row_bodies._dictionary().decode().replace("\\n", "\n").replace('\\"', '"')
NOISE = random.Random(1).randbytes(3000).hex()


@pytest.mark.parametrize(
    ("message", "most"),
    [
        (a_message("msg_1", Text("short")), 300),
        (a_message("msg_1", Context(blocks=(PROMPT, "Directory: /x")), Text("go"), role="user"), 900),
        (a_message("msg_1", Text("word " * 2000)), 500),
        (a_message("msg_1", Text("word " * 20_000)), 1000),
        (a_message("msg_1", Text(NOISE)), 6300),
        (a_message("msg_1", Text("ż😀\ud7ff" * 1000)), 500),
        (a_message("msg_1", File("a.png", "image/png", data="A" * (1 << 20))), 1 << 21),
    ],
    ids=["short", "system prompt", "repeated", "repeated for long", "noise", "unicode", "large"],
)
def test_a_message_is_read_as_it_was_stored(message: Message, most: int) -> None:
    packed = pack_message(message)
    assert unpack_message(packed) == message
    assert unpack_message(encode(message)) == message, "as older versions stored it"
    assert len(packed) <= most


def test_a_damaged_body_is_a_damaged_store() -> None:
    packed = pack_message(a_message("msg_1", Text("word " * 2000)))
    for broken in (packed[:1] + b"?" + packed[2:], packed[:20] + b"\0\0\0\0" + packed[24:]):
        with pytest.raises(StoreDamaged, match="restore a backup"):
            unpack_message(broken)


def test_the_dictionary_is_never_edited() -> None:
    """Otherwise no message that was compressed with it can be read."""
    found = hashlib.sha256(row_bodies._dictionary()).hexdigest()
    assert found == "d435420965e5901203657b2cf87f25f4a05cbe7c977a6b6dd7998f00baa8aeda"
