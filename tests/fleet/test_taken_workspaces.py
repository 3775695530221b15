"""A server that comes to own a workspace lets its queues go on, also if it took it only to handle a request.

A workspace that fails or hangs does not keep the others from being taken over.
"""

import asyncio
import threading
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any

import pytest

from holdfast.errors import BadRequest, StoreUnreachable
from holdfast.fleet import directory_checks, fleet_member, workspace_tasks
from holdfast.fleet.directory_checks import DirectoryChecks
from holdfast.fleet.fleet_member import FleetMember
from holdfast.store.postgres.lease_table import LeaseKind, WorkspacePlace

_WORKSPACE, _OTHER = "wsp_1", "wsp_2"


class FreeLeases:
    """A keeper that gets each lease that it asks for."""

    server_id, host_id, is_late = "srv_me", "here", False

    def __init__(self) -> None:
        self.held: dict[str, LeaseKind] = {}
        self.orphans: tuple[WorkspacePlace, ...] | Exception = ()
        self.looked = asyncio.Event()

    def fence(self, workspace_id: str) -> int | None:
        return 1 if workspace_id in self.held else None

    def kind(self, workspace_id: str) -> LeaseKind | None:
        return self.held.get(workspace_id)

    async def look(self) -> None:
        pass

    async def transact(self, work: Any) -> Any:
        self.looked.set()
        if isinstance(self.orphans, Exception):
            raise self.orphans
        return self.orphans

    async def release(self, workspace_id: str) -> None:
        del self.held[workspace_id]


class TakingMember(FleetMember):
    def __init__(self, keeper: FreeLeases) -> None:
        super().__init__(keeper, token=None)  # type: ignore[arg-type]
        self.leases = keeper
        self._services: Any = SimpleNamespace(workspaces=self)
        self._shared: Any = SimpleNamespace(store=self)
        self._engine: Any = self
        self._directories = DirectoryChecks(lambda path: True)
        self.opened: list[str] = []
        self.openings: asyncio.Queue[str] = asyncio.Queue()
        self.fail: dict[str, Callable[[], Awaitable[None]]] = {}
        """What happens to a workspace instead of being taken, or of being opened."""

    async def _take(self, workspace_id: str, kind: LeaseKind) -> bool:
        await self._trouble(f"take {workspace_id}")
        self.leases.held[workspace_id] = kind
        return True

    async def workspace(self, workspace_id: str) -> Any:
        return SimpleNamespace(path=f"/{workspace_id}")

    async def configured(self, workspace_id: str) -> None:
        await self._trouble(f"open {workspace_id}")
        self.opened.append(workspace_id)
        self.openings.put_nowait(workspace_id)

    async def stop_caretaking(self, workspace_id: str) -> None:
        pass

    async def _trouble(self, what: str) -> None:
        if what in self.fail:
            await self.fail[what]()


async def _adopt_until(member: TakingMember, opened: list[str]) -> None:
    while member.opened != opened:
        await member.adopt()
        await asyncio.sleep(0)  # a round without work waits for nothing


def _raises(error: Exception) -> Callable[[], Awaitable[None]]:
    async def fail() -> None:
        raise error

    return fail


@pytest.fixture
async def member() -> TakingMember:
    """It has taken a workspace for a request that does not open it, such as an answer to an approval."""
    member = TakingMember(FreeLeases())
    async with member.using(_WORKSPACE, "owner") as is_held:
        assert is_held
    return member


@pytest.fixture
async def orphans() -> TakingMember:
    """Two workspaces have no owner."""
    member = TakingMember(FreeLeases())
    member.leases.orphans = tuple(WorkspacePlace(one, "here", f"/{one}", None) for one in (_WORKSPACE, _OTHER))
    return member


@pytest.mark.promise("W16", "R5")
async def test_a_workspace_that_was_taken_for_a_request_is_opened_once(member: TakingMember) -> None:
    await member.adopt()
    await member.adopt()
    assert member.opened == [_WORKSPACE]


@pytest.mark.promise("W16", "R5")
async def test_it_is_opened_when_the_database_answers_again(member: TakingMember) -> None:
    member.fail[f"open {_WORKSPACE}"] = _raises(StoreUnreachable("the database does not answer"))
    await member.adopt()
    member.fail.clear()
    await member.adopt()
    assert member.opened == [_WORKSPACE]


@pytest.mark.promise("W16", "R5")
async def test_a_workspace_whose_directory_is_gone_is_given_back_so_that_it_is_taken_over_again(
    member: TakingMember,
) -> None:
    member.fail[f"open {_WORKSPACE}"] = _raises(BadRequest("there is no such directory"))
    async with member.using(_WORKSPACE, None):
        await member.adopt()
        assert member.leases.held == {_WORKSPACE: "owner"}  # a request is being handled
    await member.adopt()
    assert member.leases.held == {}
    member.fail.clear()
    member.leases.orphans = (WorkspacePlace(_WORKSPACE, "here", f"/{_WORKSPACE}", None),)
    await member.adopt()
    assert member.opened == [_WORKSPACE]


async def test_a_workspace_that_was_released_meanwhile_is_not_opened(member: TakingMember) -> None:
    member.leases.held.clear()
    await member.adopt()
    assert member.opened == []


@pytest.mark.promise("W16", "R5")
@pytest.mark.parametrize("what", ["take", "open"])
async def test_an_unexpected_error_of_one_workspace_does_not_stop_the_others(
    orphans: TakingMember, what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workspace_tasks, "_FAILED_SECONDS", 0.0)
    orphans.fail[f"{what} {_WORKSPACE}"] = _raises(RuntimeError("a bug"))
    await orphans.adopt()
    assert orphans.opened == [_OTHER]
    orphans.fail.clear()
    await orphans.adopt()
    assert orphans.opened == [_OTHER, _WORKSPACE]


@pytest.mark.promise("W16", "R5")
@pytest.mark.parametrize("what", ["take", "open"])
async def test_a_workspace_that_hangs_does_not_stop_the_others(
    orphans: TakingMember, what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workspace_tasks, "SETTLE_SECONDS", 0.01)
    answers, tries = asyncio.Event(), 0

    async def hang() -> None:
        nonlocal tries
        tries += 1
        await answers.wait()

    orphans.fail[f"{what} {_WORKSPACE}"] = hang
    await _adopt_until(orphans, [_OTHER])
    await orphans.adopt()
    assert tries == 1  # it is not begun again while it hangs
    answers.set()
    await _adopt_until(orphans, [_OTHER, _WORKSPACE])


@pytest.mark.promise("W16", "R5")
async def test_takeovers_go_on_after_an_unexpected_error(
    orphans: TakingMember, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fleet_member, "_ADOPT_SECONDS", 0.0)
    found, orphans.leases.orphans = orphans.leases.orphans, RuntimeError("a bug")
    adopting = asyncio.create_task(orphans.adopt_periodically())
    await orphans.leases.looked.wait()
    orphans.leases.orphans = found
    assert {await orphans.openings.get(), await orphans.openings.get()} == {_WORKSPACE, _OTHER}
    adopting.cancel()
    assert isinstance((await asyncio.gather(adopting, return_exceptions=True))[0], asyncio.CancelledError)


@pytest.mark.promise("W16")
async def test_a_directory_that_hangs_is_asked_once_and_used_when_it_answers(
    orphans: TakingMember, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(directory_checks, "ANSWER_SECONDS", 0.2)
    answers, asked = threading.Event(), []

    def is_directory(path: str) -> bool:
        asked.append(path)
        return path != f"/{_WORKSPACE}" or answers.wait(50)

    orphans._directories = DirectoryChecks(is_directory)
    await _adopt_until(orphans, [_OTHER])
    await orphans.adopt()
    assert asked.count(f"/{_WORKSPACE}") == 1
    answers.set()
    await _adopt_until(orphans, [_OTHER, _WORKSPACE])
