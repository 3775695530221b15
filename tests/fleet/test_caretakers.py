"""A caretaker keeps the books of a host that is away, and lets go when the host is back."""

import asyncio
from collections.abc import AsyncIterator, MutableMapping
from typing import Any

import httpx2  # noqa: F401 - imported by every server before its first forwarded request, and not on the event loop
import pytest

from holdfast.fleet.fleet_member import FleetMember
from holdfast.fleet.fleet_router import FleetRouter
from holdfast.fleet.known_fleet import KnownFleet
from holdfast.fleet.request_places import Handle, RefuseForwarded, RequestPlace, WaitForOwner
from holdfast.server.http.request_parsing import HEADERS, Receive
from holdfast.server.http.responses import Scope, Send
from holdfast.store.postgres.lease_table import KnownServer, LeaseKind, WorkspacePlace

_WORKSPACE = "wsp_1"


class KnownLeases:
    """A keeper that has the lease of one workspace, whose directory is on the host ``away``."""

    server_id, host_id = "srv_me", "here"

    def __init__(self) -> None:
        self.known = KnownFleet()
        self.servers: dict[str, KnownServer] = {}
        self.held_as: LeaseKind | None = "caretaker"
        self.released = asyncio.Event()

    def host_comes_back(self) -> None:
        self.servers["srv_back"] = KnownServer("srv_back", "away", "http://other", "", 3.0, dead=False, info={})

    def fence(self, workspace_id: str) -> int | None:
        return 1 if self.held_as else None

    def kind(self, workspace_id: str) -> LeaseKind | None:
        return self.held_as

    async def transact(self, work: Any) -> Any:
        return WorkspacePlace(_WORKSPACE, "away", "/work", None), tuple(self.servers.values())

    async def look(self) -> None:
        pass

    async def release(self, workspace_id: str) -> None:
        self.held_as = None
        self.released.set()


class SeenMember(FleetMember):
    """A member whose decisions, and whose requests to other servers, are seen by the test."""

    def __init__(self, keeper: KnownLeases) -> None:
        super().__init__(keeper, token=None)  # type: ignore[arg-type]
        self._engine: Any = self  # of the engine, only `stop_caretaking` is used
        self.places: asyncio.Queue[RequestPlace] = asyncio.Queue()
        self.sent: list[tuple[str, bytes]] = []

    async def stop_caretaking(self, workspace_id: str) -> None:
        pass

    async def place(self, workspace_id: str, *, mutates: bool, forwarded: bool) -> RequestPlace:
        found = await super().place(workspace_id, mutates=mutates, forwarded=forwarded)
        self.places.put_nowait(found)
        return found

    def new_key(self) -> bytes:
        return b"key"

    async def send(self, server_id: str, *request: Any, body: bytes = b"", **others: Any) -> Any:
        self.sent.append((server_id, body))
        return EmptyResponse()


class EmptyResponse:
    """The answer of another server."""

    status, headers, length = 200, (), None

    async def chunks(self) -> AsyncIterator[bytes]:
        yield b""

    async def aclose(self) -> None:
        pass


class HeldRoutes:
    """The routes of this server. They answer when the test says so, by method."""

    def __init__(self) -> None:
        self.begun: asyncio.Queue[str] = asyncio.Queue()
        self.may_end = {"GET": asyncio.Event(), "POST": asyncio.Event()}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.begun.put_nowait(scope["method"])
        await self.may_end[scope["method"]].wait()


def _request(router: FleetRouter, method: str, body: bytes = b"") -> asyncio.Task[None]:
    async def receive() -> MutableMapping[str, Any]:
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message: MutableMapping[str, Any]) -> None:
        pass

    path = f"/v1/workspaces/{_WORKSPACE}/sessions"
    scope = {"type": "http", "method": method, "path": path, "query_string": b"", HEADERS: {}}
    return asyncio.create_task(router(scope, receive, send), name=f"{method} {body!r}")


@pytest.mark.promise("W16", "R5")
async def test_a_caretaker_takes_no_more_writes_when_the_host_is_back() -> None:
    keeper = KnownLeases()
    member = FleetMember(keeper, token=None)  # type: ignore[arg-type]
    async with member.using(_WORKSPACE, None) as is_held:  # a request is being handled
        assert is_held
        assert await member.place(_WORKSPACE, mutates=True, forwarded=False) == Handle()
        keeper.host_comes_back()
        assert await member.place(_WORKSPACE, mutates=True, forwarded=False) == WaitForOwner("srv_me")
        assert await member.place(_WORKSPACE, mutates=True, forwarded=True) == RefuseForwarded()
        assert await member.place(_WORKSPACE, mutates=False, forwarded=False) == Handle()
        keeper.held_as = None  # nothing is released here at the end


@pytest.mark.promise("W16", "R5")
async def test_a_long_read_does_not_keep_a_caretakers_lease_and_a_write_waits_for_the_host_that_is_back() -> None:
    keeper, routes = KnownLeases(), HeldRoutes()
    member = SeenMember(keeper)
    router = FleetRouter(routes, member)
    async with asyncio.timeout(15):
        read, first = _request(router, "GET"), _request(router, "POST", b"first")
        assert {await routes.begun.get(), await routes.begun.get()} == {"GET", "POST"}
        assert [await member.places.get() for _ in range(2)] == [Handle(), Handle()]
        keeper.host_comes_back()
        second = _request(router, "POST", b"second")
        assert await member.places.get() == WaitForOwner("srv_me")
        assert not keeper.released.is_set()  # the first write is not finished
        routes.may_end["POST"].set()
        await first
        await keeper.released.wait()
        assert not read.done()
        await second
        assert member.sent == [("srv_back", b"second")]
        assert routes.begun.empty()
        routes.may_end["GET"].set()
        await read
