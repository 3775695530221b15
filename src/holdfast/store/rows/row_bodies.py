"""Encodes and decodes the bodies of rows: messages, and runs that leave out their answer.

Long messages are compressed. The first message of every session has the system prompt, which is longer than all else
that a short run stores, and nearly the same in all sessions. So a text like it is the dictionary: what the message has
in common with it takes a few bytes.
"""

from __future__ import annotations

import zlib
from functools import cache
from pathlib import Path

import msgspec

from holdfast.errors import StoreDamaged
from holdfast.schema.base import LateDecoder, encode
from holdfast.schema.messages import Message, read_message, text_of
from holdfast.schema.runs import Run
from holdfast.store.rows.sql import Sql

_run = LateDecoder(Run)

_LEAST_COMPRESSED = 1500
_MOST_COMPRESSED = 1 << 20
"""Longer bodies are mostly files, and would keep other commits waiting."""
_FAST = 1
_LEAST_LONG = 16 * 1024
_SHORT_WINDOW, _SHORT_MEMORY = 13, 7
"""For bodies that are not long: the dictionary and most of the body are in the window, and to set up a larger one takes
longer than to compress them. It makes no difference to the reader."""
_MARK = b"\x01"
"""The first byte of a compressed body. JSON begins with a brace."""


def pack_message(message: Message) -> bytes:
    body = encode(message)
    if not _LEAST_COMPRESSED <= len(body) <= _MOST_COMPRESSED:
        return body
    if len(body) < _LEAST_LONG:
        compressor = zlib.compressobj(_FAST, zlib.DEFLATED, _SHORT_WINDOW, _SHORT_MEMORY, zdict=_dictionary())
    else:
        compressor = zlib.compressobj(_FAST, zdict=_dictionary())
    packed = b"".join((_MARK, compressor.compress(body), compressor.flush()))
    return packed if len(packed) < len(body) else body


def unpack_message(body: bytes) -> Message:
    """Decode a message, which may be compressed."""
    if body.startswith(_MARK):
        try:
            body = zlib.decompressobj(zdict=_dictionary()).decompress(body[1:])
        except zlib.error as error:
            raise StoreDamaged(f"a message cannot be read ({error}); restore a backup") from None
    return read_message(body)


@cache
def _dictionary() -> bytes:
    """It belongs to the format, so it is never edited. A better one gets a mark of its own."""
    return Path(__file__).with_name("message_dictionary.txt").read_bytes()


def referenced_message(sql: Sql, message_id: str) -> Message:
    row = sql.execute("SELECT body FROM messages WHERE id = ?", (message_id,)).fetchone()
    if row is None:
        raise StoreDamaged(f"a row refers to message {message_id!r}, which does not exist; restore a backup")
    return unpack_message(row[0])


def referenced_run(sql: Sql, run_id: str) -> Run:
    row = sql.execute("SELECT body, text_from FROM runs WHERE id = ?", (run_id,)).fetchone()
    if row is None:
        raise StoreDamaged(f"an event refers to run {run_id!r}, which does not exist; restore a backup")
    return read_run(sql, *row)


def read_run(sql: Sql, body: bytes, text_from: str | None) -> Run:
    """Decode a run, with the answer that its row leaves out."""
    run = _run.decode(body)
    if text_from is None:
        return run
    return msgspec.structs.replace(run, text=text_of(referenced_message(sql, text_from).parts))
