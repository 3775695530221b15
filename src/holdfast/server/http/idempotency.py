"""The same key, the same answer: a mutation that is sent again is not done again.

The answer is kept with a hash of the request for a day. While the first request is being worked on, another one with
its key waits for it. Answers that say "try again" are not kept. A crash between the work and the keeping of its answer
leaves the key unused; runs do not depend on this, they are known by their own ids (`R3`).
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import re
from collections.abc import Awaitable, Callable

from holdfast.errors import BadRequest, Conflict, HoldfastError, StoreUnwritable
from holdfast.server.http.responses import Raw, Reply, error_reply
from holdfast.store import Batch, Store, StoredResponse
from holdfast.store.writes import PutResponse

HEADER = "Idempotency-Key"
PATTERN = r"^[!-~]{1,128}$"
_FORM = re.compile(rb"[!-~]{1,128}")
_TRY_AGAIN = frozenset({401, 403, 408, 429})

_logger = logging.getLogger(__name__)


def read_key(value: bytes | None) -> str | None:
    if value is None:
        return None
    if _FORM.fullmatch(value) is None:
        raise BadRequest(f"{HEADER} must be 1 to 128 printable characters without spaces", detail={"field": HEADER})
    return value.decode("ascii")


def request_hash(method: str, path: str, query: bytes, body: bytes) -> str:
    digest = hashlib.sha256()
    for piece in (method.encode(), path.encode("utf-8", "surrogateescape"), query, body):
        digest.update(b"%d:" % len(piece))
        digest.update(piece)
    return digest.hexdigest()


class Answers:
    """Of one server; kept in its ledger."""

    def __init__(self, store: Store, *, now: Callable[[], str]) -> None:
        self._store = store
        self._now = now
        self._working: dict[str, tuple[str, asyncio.Future[Reply]]] = {}

    async def once(self, key: str, digest: str, work: Callable[[], Awaitable[Reply]]) -> Reply:
        """The kept answer, or that of the work, which is then kept."""
        while (working := self._working.get(key)) is not None:
            if working[0] != digest:
                raise _reused(key)
            done, _ = await asyncio.wait({working[1]})
            future = done.pop()
            if not future.cancelled() and future.exception() is None:
                return future.result()
        mine: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()
        self._working[key] = (digest, mine)
        try:
            reply = await self._once(key, digest, work)
            mine.set_result(reply)
            return reply
        finally:
            del self._working[key]
            if not mine.done():
                mine.cancel()  # who waits tries by itself

    async def _once(self, key: str, digest: str, work: Callable[[], Awaitable[Reply]]) -> Reply:
        kept = await self._store.stored_response(key)
        if kept is not None:
            if kept.request_hash != digest:
                raise _reused(key)
            return Raw(kept.body, status=kept.status)
        try:
            reply = await work()
        except HoldfastError as error:
            if error.status >= 500 or error.status in _TRY_AGAIN:
                raise
            reply = error_reply(error)
        answer = StoredResponse(key, digest, reply.status, reply.body(), self._now())
        try:
            await self._store.commit(Batch((PutResponse(answer),)))
        except StoreUnwritable as error:
            _logger.warning("what was answered to key %s cannot be kept: %s", key, error)
        return reply


def _reused(key: str) -> Conflict:
    return Conflict(f"{HEADER} {key!r} was used for another request; use a new one", code="idempotency_key_reused")
