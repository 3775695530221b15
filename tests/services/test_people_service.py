"""Two servers on one store: each follows what the other changes of people, tokens and workspaces (`W14`)."""

import asyncio
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from holdfast.events import Hub
from holdfast.ids import Ids
from holdfast.schema.sessions import Workspace
from holdfast.services.device_service import DeviceService
from holdfast.services.people_service import PeopleService
from holdfast.services.workspace_reach import WorkspaceDirectories, WorkspaceReach
from holdfast.store import Batch, Store, open_store
from holdfast.store.writes import PutWorkspace

pytestmark = pytest.mark.promise("W14")


class Server:
    """What one server of a fleet knows of people."""

    def __init__(self, store: Store) -> None:
        hub = Hub(store, heartbeat_seconds=10.0)
        self.passed = 0.0
        self.devices = DeviceService(store, hub, ids=Ids(), clock=time.time, seconds_now=lambda: self.passed)
        self.people = PeopleService(store, hub, self.devices, clock=time.time)  # reads tokens again after each change


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    opened = await open_store(tmp_path / "holdfast.db")
    yield opened
    await opened.close()


async def test_unknown_tokens_are_looked_up_in_the_store_once_a_second(store: Store) -> None:
    here, passed = Server(store), 0.0
    hub = Hub(store, heartbeat_seconds=10.0)
    # Without people: it hears of no change, and only its own looks find the token.
    there = DeviceService(store, hub, ids=Ids(), clock=time.time, seconds_now=lambda: passed)
    assert await there.recognise("nonsense") is None  # its tokens are read by now
    await here.people.add("anna", role="drive", workspaces=None)
    token = (await here.people.make_token("anna", label="", scope="admin")).token
    passed = 0.9
    assert await there.recognise(token) is None  # read a moment ago
    passed = 1.0
    assert await there.recognise(token) is not None
    await here.people.close()


async def test_a_token_that_another_server_made_is_known_and_one_that_it_revoked_is_not(store: Store) -> None:
    here, there = Server(store), Server(store)
    assert await there.devices.recognise("nonsense") is None  # its tokens are read by now
    await here.people.add("anna", role="drive", workspaces=None)
    token = (await here.people.make_token("anna", label="", scope="admin")).token
    there.passed += 1
    device = await there.devices.recognise(token)
    assert device is not None
    person = await there.people.owner_of(device)
    assert person is not None
    assert person.role == "drive"
    with there.devices.request(device) as ended:
        await here.people.change("anna", role="watch")
        await asyncio.wait_for(ended.wait(), 30)
    changed = await there.people.owner_of(device)
    assert changed is not None
    assert changed.role == "watch"
    with there.devices.request(device) as ended, here.devices.request(device) as own:
        await here.devices.revoke(device.id)
        await asyncio.wait_for(ended.wait(), 30)
        assert own.is_set()
    assert await there.devices.recognise(token) is None
    other = (await here.people.make_token("anna", label="", scope="admin")).token
    there.passed += 1
    assert await there.devices.recognise(other) is not None
    await there.people.remove("anna")
    await here.people.refresh()
    assert await here.devices.recognise(other) is None
    assert await here.people.owner_of(device) is None
    for server in (here, there):
        await server.people.close()


async def test_a_change_here_ends_no_stream_of_somebody_else(store: Store) -> None:
    server = Server(store)
    await server.people.add("anna", role="drive", workspaces=None)
    device = await server.devices.recognise((await server.people.make_token("anna", label="", scope="admin")).token)
    assert device is not None
    with server.devices.request(device) as ended:
        await server.people.add("bob", role="drive", workspaces=None)
        await server.people.change("bob", role="watch")
        await server.people.remove("bob")
        await server.people.close()  # all refreshes are over
        assert not ended.is_set()


async def test_a_workspace_that_another_server_registered_is_found(store: Store) -> None:
    paths = WorkspaceDirectories(store)
    await paths.load()
    reach = WorkspaceReach(("/srv",), store=store, paths=paths)
    await store.commit(Batch((PutWorkspace(Workspace(id="wsp_1", path="/srv/api", created_at="")),)))
    assert not reach.knows("wsp_1")
    assert not reach.includes("wsp_1")
    await reach.require_workspace("wsp_1")
    assert reach.includes("wsp_1")
