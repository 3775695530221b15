"""Devices: pair a browser or program with a one-time code, make a person's token, recognise it, rename it, revoke it.

Devices are read from the store when the first token is checked. A server that is used over its own socket only does
nothing here.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from msgspec.structs import replace

from holdfast.digests import sha256_hex
from holdfast.errors import CommitRefused, Forbidden, NotFound
from holdfast.events import Hub
from holdfast.ids import Clock, Ids, new_token, rfc3339
from holdfast.schema.api.response_bodies import PageView, PairingCodeView
from holdfast.schema.devices import AccessScope, Device
from holdfast.schema.events import ConfigChanged, DeviceChanged, PairingFailed
from holdfast.services.pairing_codes import CODE_SECONDS, PairingCodes
from holdfast.store import Batch, Store, TokenRecord
from holdfast.store.writes import PutToken

_LAST_USE_SECONDS = 300.0
"""The last use of a token is stored at most this often."""
_REREAD_SECONDS = 1.0
"""Tokens are read again for an unknown one at most this often."""
_TOKEN_BYTES = 48
_NAME_CHARS = 60

_logger = logging.getLogger(__name__)


class PairedDevice:
    """The outcome of a pairing. ``token`` is ``None`` if the device keeps the one that it has."""

    __slots__ = ("device", "token")

    def __init__(self, device: Device, token: str | None) -> None:
        self.device = device
        self.token = token


class DeviceService:
    def __init__(
        self,
        store: Store,
        hub: Hub,
        *,
        ids: Ids,
        clock: Clock,
        seconds_now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._store = store
        self._hub = hub
        self._ids = ids
        self._clock = clock
        self._seconds_now = seconds_now
        self.codes = PairingCodes(seconds_now=seconds_now)
        self._by_digest: dict[str, TokenRecord] | None = None
        self._loading = asyncio.Lock()
        self._read_at = -_REREAD_SECONDS
        self._changes = 0
        """How often the tokens were changed here."""
        self._stored_use: dict[str, float] = {}
        self._requests: dict[str, list[asyncio.Event]] = {}

    @property
    def server_id(self) -> str:
        """Distinguishes the cookies of two servers on one host, which browsers do not keep apart by port."""
        return _digest(self._store.log_id)[:8]

    async def recognise(self, token: str) -> Device | None:
        """The device that has this token; ``None`` if there is none or it was revoked."""
        digest = _digest(token)
        record = (await self._records()).get(digest)
        if record is None and self._seconds_now() - self._read_at >= _REREAD_SECONDS:
            await self.refresh()  # another server of the fleet may have made it
            record = (await self._records()).get(digest)
        if record is None or record.device.revoked_at is not None:
            return None
        if self._seconds_now() - self._stored_use.get(record.device.id, -_LAST_USE_SECONDS) >= _LAST_USE_SECONDS:
            record = await self._store_use(record)
        return record.device

    @contextmanager
    def request(self, device: Device) -> Iterator[asyncio.Event]:
        """Yields an event that is set when the device is revoked, or its rights change, while a request is handled."""
        revoked = asyncio.Event()
        requests = self._requests.setdefault(device.id, [])
        requests.append(revoked)
        try:
            yield revoked
        finally:
            requests.remove(revoked)
            if not requests:
                self._requests.pop(device.id, None)

    def is_known(self, device: Device) -> bool:
        """Whether a device that was recognised is still let in."""
        return any(one.device.id == device.id and not one.device.revoked_at for one in (self._by_digest or {}).values())

    def end_requests_of(self, person: str) -> None:
        """End the open streams of a person, whose rights have changed."""
        for record in (self._by_digest or {}).values():
            if record.device.person == person:
                self._end_requests(record.device.id)

    def _end_requests(self, device_id: str) -> None:
        for ended in self._requests.get(device_id, ()):
            ended.set()

    def make_code(self, scope: AccessScope, *, person: str | None = None) -> PairingCodeView:
        code = self.codes.make(scope, person=person)
        return PairingCodeView(code.text, scope, rfc3339(self._clock() + CODE_SECONDS))

    async def pair(self, code: str, *, name: str, current: Device | None, address: str) -> PairedDevice:
        """Exchange a code for a token. A device that has a token already keeps it and gets the code's scope."""
        try:
            taken = self.codes.take(code)
        except Forbidden:
            failures = self.codes.recent_failures
            _logger.warning("a pairing code from %s was refused; %d in the last minute", address, failures)
            event = PairingFailed(at=self._hub.timestamp(), address=address, failures=failures)
            self._hub.publish(event, key="pairing")
            raise
        token: str | None = None
        known = None if current is None else await self._find(current.id)
        if known is not None and known.device.person == taken.person:
            record = TokenRecord(known.digest, replace(known.device, scope=taken.scope))
        else:
            token, record = self._new_token(_clean_name(name) or "browser", taken.scope, person=taken.person)
        try:
            await self._put(record)
        except CommitRefused:
            self.codes.give_back(taken)
            raise
        self._stored_use[record.device.id] = self._seconds_now()
        self._publish(record.device, "paired")
        return PairedDevice(record.device, token)

    async def make_token(self, *, person: str, name: str, scope: AccessScope) -> PairedDevice:
        """Make a token for a program of a person."""
        token, record = self._new_token(_clean_name(name) or "token", scope, person=person)
        await self._put(record)
        self._stored_use[record.device.id] = self._seconds_now()
        self._publish(record.device, "paired")
        return PairedDevice(record.device, token)

    def _new_token(self, name: str, scope: AccessScope, *, person: str | None) -> tuple[str, TokenRecord]:
        token = new_token(_TOKEN_BYTES)
        now = rfc3339(self._clock())
        return token, TokenRecord(_digest(token), Device(self._ids.new("dev"), name, scope, now, now, person=person))

    async def forget_tokens_of(self, person: str) -> list[TokenRecord]:
        """Refuse the tokens of a person from now on, and end their streams. Returns them for the store."""
        records = await self._records()
        known = [one for one in records.values() if one.device.person == person and not one.device.revoked_at]
        return [self._forget(records, record) for record in known]

    def _forget(self, records: dict[str, TokenRecord], record: TokenRecord) -> TokenRecord:
        record = TokenRecord(record.digest, replace(record.device, revoked_at=rfc3339(self._clock())))
        records[record.digest] = record
        self._changes += 1
        self._end_requests(record.device.id)
        self._publish(record.device, "revoked")
        return record

    async def devices(self) -> PageView[Device]:
        """All devices that may connect, the oldest first."""
        cursor = self._hub.cursor
        records = (await self._records()).values()
        return PageView(tuple(one.device for one in records if one.device.revoked_at is None), cursor)

    async def rename(self, device_id: str, name: str) -> Device:
        record = await self._require(device_id)
        record = TokenRecord(record.digest, replace(record.device, name=_clean_name(name) or record.device.name))
        await self._put(record)
        self._publish(record.device, "changed")
        return record.device

    async def revoke(self, device_id: str) -> Device:
        """Refuse the token from now on, and end the device's streams. Takes effect even if it cannot be stored."""
        record = self._forget(await self._records(), await self._require(device_id))
        event = ConfigChanged(at=self._hub.timestamp(), keys=("devices",))  # for other servers of the fleet
        await self._store.commit(Batch((PutToken(record),), (event,), uses_reserve=True))
        return record.device

    async def _records(self) -> dict[str, TokenRecord]:
        if self._by_digest is None:
            async with self._loading:
                if self._by_digest is None:
                    self._read_at = self._seconds_now()
                    self._by_digest = {record.digest: record for record in await self._store.tokens()}
        return self._by_digest

    async def refresh(self) -> None:
        """Read the tokens again, for what other servers of the fleet changed. What is revoked stays revoked."""
        known = await self._records()
        async with self._loading:
            while True:
                changes, self._read_at = self._changes, self._seconds_now()
                stored = await self._store.tokens()
                if changes == self._changes:
                    break
        for record in stored:
            old = known.get(record.digest)
            if old is not None and old.device.revoked_at is not None:
                continue
            known[record.digest] = record
            if old is not None and (record.device.revoked_at, record.device.scope) != (None, old.device.scope):
                self._end_requests(record.device.id)

    async def _find(self, device_id: str) -> TokenRecord | None:
        for record in (await self._records()).values():
            if record.device.id == device_id and record.device.revoked_at is None:
                return record
        return None

    async def _require(self, device_id: str) -> TokenRecord:
        record = await self._find(device_id)
        if record is None:
            raise NotFound(f"there is no device {device_id!r}; 'holdfast devices' lists them", code="device_not_found")
        return record

    async def _put(self, record: TokenRecord) -> None:
        await self._store.commit(Batch((PutToken(record),)))
        records = await self._records()
        self._changes += 1
        known = records.get(record.digest)
        if known is None or known.device.revoked_at is None:  # a revocation in the meantime stays
            records[record.digest] = record

    async def _store_use(self, record: TokenRecord) -> TokenRecord:
        """Store when a token was used. A full disk does not keep the device from being used."""
        self._stored_use[record.device.id] = self._seconds_now()
        used = TokenRecord(record.digest, replace(record.device, last_used_at=rfc3339(self._clock())))
        try:
            await self._put(used)
        except CommitRefused as error:
            _logger.warning("the use of device %s cannot be stored: %s", record.device.id, error)
        return (await self._records())[record.digest]

    def _publish(self, device: Device, change: str) -> None:
        event = DeviceChanged(at=self._hub.timestamp(), device=device, change=change)  # type: ignore[arg-type]
        self._hub.publish(event, key=device.id)


def _digest(text: str) -> str:
    return sha256_hex(text.encode("utf-8", "surrogateescape"))


def _clean_name(name: str) -> str:
    """A name that is safe to print on a terminal, on one line."""
    return " ".join("".join(char if char.isprintable() else " " for char in name).split())[:_NAME_CHARS]
