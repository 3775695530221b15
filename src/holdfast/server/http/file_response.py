"""A file's bytes as an answer, whole or a range of them, read piece by piece off the loop."""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Callable
from typing import BinaryIO

from holdfast.errors import NotFound
from holdfast.server.http.request_parsing import Receive
from holdfast.server.http.responses import Header, Scope, Send

_PIECE = 1 << 18
_RANGE = re.compile(rb"bytes=(\d{0,15})-(\d{0,15})")


class FileSlice:
    """One range, as most clients ask for; anything else gets the whole."""

    def __init__(
        self, file: BinaryIO, *, size: int, span: tuple[int, int] | None, redact: Callable[[bytes], bytes]
    ) -> None:
        self._file = file
        self._size = size
        self._span = span
        self._redact = redact

    @classmethod
    async def open(cls, path: str, *, wanted: bytes | None, redact: Callable[[bytes], bytes]) -> FileSlice:
        """`NotFound` if the output is not kept any more."""
        try:
            file, size = await asyncio.to_thread(_open, path)
        except OSError:
            raise NotFound("the output of this call is not kept any more", code="output_not_found") from None
        return cls(file, size=size, span=_span(wanted, size), redact=redact)

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
            await asyncio.to_thread(self._file.seek, start)
            while start < stop:
                piece = await asyncio.to_thread(self._file.read, min(_PIECE, stop - start))
                if not piece:
                    break
                start += len(piece)
                await send({"type": "http.response.body", "body": self._redact(piece), "more_body": True})
            await send({"type": "http.response.body", "body": b""})
        finally:
            await asyncio.to_thread(self._file.close)


def _open(path: str) -> tuple[BinaryIO, int]:
    file = open(path, "rb")  # noqa: SIM115 - closed when it was sent
    return file, os.fstat(file.fileno()).st_size


def _span(wanted: bytes | None, size: int) -> tuple[int, int] | None:
    found = _RANGE.fullmatch(wanted or b"")
    if found is None or not (found[1] or found[2]):
        return None
    if not found[1]:
        start, stop = max(size - int(found[2]), 0), size
    else:
        start, stop = int(found[1]), min(int(found[2]) + 1, size) if found[2] else size
    return (start, stop) if start < stop else None
