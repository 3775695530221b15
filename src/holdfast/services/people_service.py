"""People: who they are, what they may do and in which directories, and their tokens.

A change takes effect at once, also on open streams. Nothing is read from the store until the first token of a person is
checked.
"""

from __future__ import annotations

import asyncio
import os
import re

from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from holdfast.errors import BadRequest, Conflict, NotFound
from holdfast.events import Hub
from holdfast.ids import Clock, rfc3339
from holdfast.schema.api.response_bodies import PageView
from holdfast.schema.devices import AccessScope, Device
from holdfast.schema.events import ConfigChanged
from holdfast.schema.people import Person, PersonToken
from holdfast.services.device_service import DeviceService
from holdfast.store import Batch, CommittedEvent, Store
from holdfast.store.writes import AnyWrite, PutPerson, PutToken
from holdfast.tasks import OwnedTasks

_NAME = r"[a-z0-9][a-z0-9._-]{0,59}"
_CHANGED = ("people",)


class PeopleService:
    def __init__(self, store: Store, hub: Hub, devices: DeviceService, *, clock: Clock) -> None:
        self._store = store
        self._hub = hub
        self._devices = devices
        self._clock = clock
        self._by_name: dict[str, Person] | None = None
        self._loading = asyncio.Lock()
        self._changing = asyncio.Lock()
        self._tasks = OwnedTasks()
        store.listen(self._on_commit)

    def _on_commit(self, committed: tuple[CommittedEvent, ...]) -> None:
        """Read again what another server of the fleet changed. A change of this one is found unchanged."""
        for logged in committed:
            if isinstance(logged.event, ConfigChanged) and not {"people", "devices"}.isdisjoint(logged.event.keys):
                _ = self._tasks.spawn(self.refresh(), name="people:refresh", may_fail=True)

    async def refresh(self) -> None:
        """Take over what is stored, and end the streams of those whose rights have changed."""
        await self._devices.refresh()
        if self._by_name is None:
            return
        async with self._changing:
            known = self._by_name
            for person in await self._store.people():
                old = known.get(person.name)
                if old is None or old == person:
                    known[person.name] = person
                elif old.removed_at is None or old.created_at != person.created_at:  # a removal is final
                    known[person.name] = person
                    self._devices.end_requests_of(person.name)

    async def close(self) -> None:
        await self._tasks.finish(seconds=1.0)

    async def owner_of(self, device: Device) -> Person | None:
        """The person that a device belongs to; ``None`` if the person was removed."""
        assert device.person is not None
        person = (await self._people()).get(device.person)
        if person is None:
            await self.refresh()
            person = (await self._people()).get(device.person)
        return None if person is None or person.removed_at is not None else person

    async def list_people(self) -> PageView[Person]:
        cursor = self._hub.cursor
        people = (await self._people()).values()
        return PageView(tuple(sorted((one for one in people if not one.removed_at), key=lambda one: one.name)), cursor)

    async def add(self, name: str, *, role: AccessScope, workspaces: tuple[str, ...] | None) -> Person:
        if re.fullmatch(_NAME, name) is None:
            raise BadRequest(
                f"{name!r} is not a name of a person; use small letters, digits, '.', '_' and '-'",
                detail={"field": "name"},
            )
        directories = await asyncio.to_thread(_resolve, workspaces)
        async with self._changing:
            known = (await self._people()).get(name)
            if known is not None and known.removed_at is None:
                raise Conflict(
                    f"there is already a person {name!r}; 'holdfast people change {name}' changes what they may do",
                    code="person_exists",
                )
            return await self._put(Person(name, role, directories, rfc3339(self._clock())))

    async def change(
        self,
        name: str,
        *,
        role: AccessScope | UnsetType = UNSET,
        workspaces: tuple[str, ...] | UnsetType | None = UNSET,
    ) -> Person:
        """Change what is given. The person's open streams end, and what is sent next has the new rights."""
        directories = UNSET if workspaces is UNSET else await asyncio.to_thread(_resolve, workspaces)
        async with self._changing:
            person = await self._require(name)
            changed = replace(
                person,
                role=person.role if role is UNSET else role,
                workspaces=person.workspaces if directories is UNSET else directories,
            )
            return await self._put(changed)

    async def remove(self, name: str) -> Person:
        """Revoke all tokens of a person. Takes effect even if it cannot be stored."""
        async with self._changing:
            person = replace(await self._require(name), removed_at=rfc3339(self._clock()))
            (await self._people())[name] = person
            revoked = await self._devices.forget_tokens_of(name)
            writes: list[AnyWrite] = [PutPerson(person), *(PutToken(record) for record in revoked)]
            await self._store.commit(Batch(tuple(writes), (self._changed(),), uses_reserve=True))
            return person

    async def make_token(self, name: str, *, label: str, scope: AccessScope) -> PersonToken:
        """Make a token for a person. It allows what the person's role and ``scope`` both allow."""
        async with self._changing:
            await self._require(name)
            made = await self._devices.make_token(person=name, name=label, scope=scope)
        assert made.token is not None
        return PersonToken(made.token, made.device.id)

    async def require(self, name: str) -> Person:
        """Raises `NotFound`."""
        return await self._require(name)

    async def _require(self, name: str) -> Person:
        person = (await self._people()).get(name)
        if person is None or person.removed_at is not None:
            raise NotFound(f"there is no person {name!r}; 'holdfast people' lists them", code="person_not_found")
        return person

    async def _put(self, person: Person) -> Person:
        await self._store.commit(Batch((PutPerson(person),), (self._changed(),)))
        (await self._people())[person.name] = person
        self._devices.end_requests_of(person.name)
        return person

    def _changed(self) -> ConfigChanged:
        return ConfigChanged(at=self._hub.timestamp(), keys=_CHANGED)

    async def _people(self) -> dict[str, Person]:
        if self._by_name is None:
            async with self._loading:
                if self._by_name is None:
                    self._by_name = {person.name: person for person in await self._store.people()}
        return self._by_name


def _resolve(directories: tuple[str, ...] | None) -> tuple[str, ...] | None:
    """The directories as workspaces name them. One that does not exist yet may be made later. Blocks."""
    if directories is None:
        return None
    for path in directories:
        if not os.path.isabs(path) or "\0" in path:
            raise BadRequest(f"the directory {path!r} is not an absolute path", detail={"field": "workspaces"})
    return tuple(sorted({os.path.realpath(path) for path in directories}))
