"""The audit: one entry for each request that changes something, with who sent it and how it was answered (`W15`).

An entry is handed to the store before the change, without waiting, and is written with it in one transaction. So there
is no change without its entry, and no request waits for the audit.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from holdfast.events import Hub
from holdfast.ids import Ids
from holdfast.schema.api.response_bodies import PageView
from holdfast.schema.audit import AuditEntry
from holdfast.schema.base import Value
from holdfast.store import AuditFilter, Batch, Store
from holdfast.store.writes import AddAudit, EndAudit

_MAX_TARGET = 300
_REFUSAL_SECONDS = 60.0
"""Of refused requests of one sender to one route, only the first in this time is recorded."""
_MAX_REFUSALS = 1000


class Actor(Value, frozen=True):
    """Who sends a request. Both ``None``: the owner of the server."""

    client: str = ""
    person: str | None = None
    device_id: str | None = None


class AuditService:
    def __init__(
        self,
        store: Store,
        hub: Hub,
        *,
        ids: Ids,
        redact: Callable[[str], str],
        seconds_now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._store = store
        self._hub = hub
        self._series = ids.new("aud")
        self._count = 0
        self._redact = redact
        self._seconds_now = seconds_now
        self._refused_at: dict[tuple[str | None, str], float] = {}
        self._readers: set[asyncio.Future[None]] = set()

    def begin(self, actor: Actor, *, action: str, target: str) -> str:
        """Record a request that is about to change something. Returns the id of the entry."""
        self._count += 1
        entry_id = f"{self._series}-{self._count:x}"
        self._store.append_audit(
            AddAudit(
                id=entry_id,
                at=self._hub.timestamp(),
                person=actor.person,
                device_id=actor.device_id,
                client=actor.client,
                action=action,
                target=self._redact(_printable(target)),
            )
        )
        return entry_id

    def end(self, entry_id: str, *, status: int, code: str | None = None, made: str | None = None) -> None:
        """Record how the request was answered."""
        self._store.append_audit(EndAudit(id=entry_id, status=status, code=code, made=made))
        for reader in self._readers:
            if not reader.done():
                reader.set_result(None)

    def refuse(self, actor: Actor, *, action: str, target: str, status: int, code: str) -> None:
        """Record a request that its sender was not allowed, unless one like it was recorded a moment ago."""
        now, key = self._seconds_now(), (actor.device_id, action)
        if now - self._refused_at.get(key, -_REFUSAL_SECONDS) < _REFUSAL_SECONDS:
            return
        if len(self._refused_at) >= _MAX_REFUSALS:
            self._refused_at.clear()
        self._refused_at[key] = now
        self.end(self.begin(actor, action=action, target=target), status=status, code=code)

    async def entries(
        self, wanted: AuditFilter, *, limit: int, before: int | None, after: int | None, wait: float = 0.0
    ) -> PageView[AuditEntry]:
        """Entries before a number, the newest first; or after a number, the oldest first.

        With ``after`` and ``wait``, returns when there is one or the time is over.
        """
        cursor = self._hub.cursor
        deadline = self._seconds_now() + wait
        while True:
            changed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._readers.add(changed)
            try:
                await self._store.commit(Batch())  # what is recorded by now is stored then
                found = await self._store.audit(limit=limit, before=before, after=after, wanted=wanted)
                left = deadline - self._seconds_now()
                if found or after is None or left <= 0:
                    position = str(found[-1].number) if len(found) == limit else None
                    return PageView(found, cursor, position)
                await asyncio.wait({changed}, timeout=left)
            finally:
                self._readers.discard(changed)


def _printable(text: str) -> str:
    """Safe to print on a terminal."""
    text = text[:_MAX_TARGET]
    return text if text.isprintable() else "".join(char if char.isprintable() else "?" for char in text)
