"""Idempotency keys: a mutation that is sent again with its key is answered again, not done again.

The answer is stored for a day, with a hash of the request. While the first request is being handled, another one with
the same key waits for it. Answers that mean "try again" are not stored. A crash between the work and the storing of its
answer leaves the key unused. Runs do not depend on this: they are known by their own ids (`R3`).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from holdfast.digests import sha256_hex
from holdfast.errors import CommitRefused, Conflict, HoldfastError
from holdfast.ids import is_valid_client_id
from holdfast.schema.base import Value, encode
from holdfast.services.api_values import error_body
from holdfast.store import Batch, Store, StoredResponse
from holdfast.store.writes import PutResponse

_TRY_AGAIN = frozenset({401, 403, 408, 429})

_logger = logging.getLogger(__name__)


class KeyedAnswer(Value, frozen=True):
    """The answer to a request with a key: a status of `errors.py` (or of success) and an encoded body."""

    status: int
    body: bytes


class IdempotencyKeys:
    """The keys of one server, stored in its database."""

    def __init__(self, store: Store, *, now: Callable[[], str]) -> None:
        self._store = store
        self._now = now
        self._active: dict[str, tuple[str, asyncio.Future[KeyedAnswer]]] = {}

    async def answer_once(self, key: str, request_hash: str, work: Callable[[], Awaitable[KeyedAnswer]]) -> KeyedAnswer:
        """Return the stored answer of the key, or do the work and store its answer."""
        while (active := self._active.get(key)) is not None:
            if active[0] != request_hash:
                raise _reused(key)
            done, _ = await asyncio.wait({active[1]})
            future = done.pop()
            if not future.cancelled() and future.exception() is None:
                return future.result()
        own: asyncio.Future[KeyedAnswer] = asyncio.get_running_loop().create_future()
        self._active[key] = (request_hash, own)
        try:
            answer = await self._stored_or_done(key, request_hash, work)
            own.set_result(answer)
            return answer
        finally:
            del self._active[key]
            if not own.done():
                own.cancel()  # waiters retry

    async def _stored_or_done(
        self, key: str, request_hash: str, work: Callable[[], Awaitable[KeyedAnswer]]
    ) -> KeyedAnswer:
        stored = await self._store.stored_response(key)
        if stored is not None:
            if stored.request_hash != request_hash:
                raise _reused(key)
            return KeyedAnswer(stored.status, stored.body)
        try:
            answer = await work()
        except HoldfastError as error:
            if error.status >= 500 or error.status in _TRY_AGAIN:
                raise
            answer = KeyedAnswer(error.status, encode(error_body(error)))
        record = StoredResponse(key, request_hash, answer.status, answer.body, self._now())
        try:
            await self._store.commit(Batch((PutResponse(record),)), until_known=False)
        except CommitRefused as error:
            _logger.warning("the answer to idempotency key %s cannot be stored: %s", key, error)
        return answer


def run_id_of_key(key: str) -> str:
    """The id of a run that was started with a key and without an id of its own."""
    return key if is_valid_client_id(key) else f"run_{sha256_hex(key.encode())[:32]}"


def _reused(key: str) -> Conflict:
    return Conflict(
        f"Idempotency-Key {key!r} was used for another request; use a new one", code="idempotency_key_reused"
    )
