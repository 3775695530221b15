"""A file as a response, whole or one range of its bytes, read in pieces off the event loop and redacted exactly."""

from __future__ import annotations

import asyncio
import codecs
import os
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import BinaryIO

from holdfast.config import Redactor
from holdfast.errors import NotFound
from holdfast.server.http.request_parsing import Receive
from holdfast.server.http.responses import Header, Scope, Send

_PIECE_BYTES = 1 << 18
_RANGE = rb"bytes=(\d{0,15})-(\d{0,15})"


class FileResponse:
    """Supports one range. Several ranges, or one that is not valid, get the whole file.

    A secret that a piece or the range cuts in two is redacted as a whole.
    """

    def __init__(self, file: BinaryIO, *, size: int, span: tuple[int, int] | None, redactor: Redactor) -> None:
        self._file = file
        self._size = size
        self._span = span
        self._redactor = redactor

    @classmethod
    async def open(cls, path: Path, *, range_header: bytes | None, redactor: Redactor) -> FileResponse:
        """`NotFound` if the file does not exist any more."""
        try:
            file, size = await asyncio.to_thread(_open, path)
        except OSError:
            raise NotFound("the output of this call is not kept any more", code="output_not_found") from None
        return cls(file, size=size, span=_parse_range(range_header, size), redactor=redactor)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        start, stop = self._span or (0, self._size)
        headers: list[Header] = [
            (b"content-type", b"text/plain; charset=utf-8"),
            (b"accept-ranges", b"bytes"),
            (b"x-content-type-options", b"nosniff"),
            (b"cache-control", b"no-store"),
        ]
        if self._span is not None:
            headers.append((b"content-range", b"bytes %d-%d/%d" % (start, stop - 1, self._size)))
        try:
            await send({"type": "http.response.start", "status": 206 if self._span else 200, "headers": headers})
            async for piece in self._redacted(start, stop):
                await send({"type": "http.response.body", "body": piece, "more_body": True})
            await send({"type": "http.response.body", "body": b""})
        finally:
            await asyncio.to_thread(self._file.close)

    async def _redacted(self, start: int, stop: int) -> AsyncIterator[bytes]:
        if self._redactor:
            start = (await self._secret_across(start))[0]
            stop = (await self._secret_across(stop))[1]
        stream = self._redactor.stream()
        decoder = codecs.getincrementaldecoder("utf-8")("surrogateescape")  # bytes that are not UTF-8 stay as they are
        async for piece in self._read(start, stop):
            yield stream.feed(decoder.decode(piece)).encode("utf-8", "surrogateescape")
        rest = stream.feed(decoder.decode(b"", final=True)) + stream.flush()
        yield rest.encode("utf-8", "surrogateescape")

    async def _read(self, start: int, stop: int) -> AsyncIterator[bytes]:
        await asyncio.to_thread(self._file.seek, start)
        while start < stop:
            piece = await asyncio.to_thread(self._file.read, min(_PIECE_BYTES, stop - start))
            if not piece:
                return
            start += len(piece)
            yield piece

    async def _secret_across(self, position: int) -> tuple[int, int]:
        """Where the secrets begin and end that a cut at this position would split."""
        margin = self._redactor.max_bytes
        before = min(margin, position)
        window = b"".join([piece async for piece in self._read(position - before, position + margin)])
        start, end = self._redactor.span_across(window, before)
        return position - before + start, position - before + end


def _open(path: Path) -> tuple[BinaryIO, int]:
    file = open(path, "rb")  # noqa: SIM115 - closed after it was sent
    return file, os.fstat(file.fileno()).st_size


def _parse_range(header: bytes | None, size: int) -> tuple[int, int] | None:
    found = re.fullmatch(_RANGE, header or b"")
    if found is None or not (found[1] or found[2]):
        return None
    if not found[1]:
        start, stop = max(size - int(found[2]), 0), size
    else:
        start, stop = int(found[1]), min(int(found[2]) + 1, size) if found[2] else size
    return (start, stop) if start < stop else None
