"""A server that comes to own a workspace lets its queues go on, also if it took it only to handle a request."""

from types import SimpleNamespace
from typing import Any

import pytest

from holdfast.errors import BadRequest, HoldfastError, StoreUnreachable
from holdfast.fleet.fleet_member import FleetMember
from holdfast.store.postgres.lease_table import LeaseKind

_WORKSPACE = "wsp_1"


class FreeLeases:
    """A keeper that gets each lease that it asks for. No server is gone."""

    server_id, is_late = "srv_me", False

    def __init__(self) -> None:
        self.held: dict[str, LeaseKind] = {}

    def fence(self, workspace_id: str) -> int | None:
        return 1 if workspace_id in self.held else None

    def kind(self, workspace_id: str) -> LeaseKind | None:
        return self.held.get(workspace_id)

    async def look(self) -> None:
        pass

    async def transact(self, work: Any) -> Any:
        return ()


class TakingMember(FleetMember):
    def __init__(self, keeper: FreeLeases) -> None:
        super().__init__(keeper, token=None)  # type: ignore[arg-type]
        self._services: Any = SimpleNamespace(workspaces=self)
        self.opened: list[str] = []
        self.error: HoldfastError | None = None

    async def _take(self, workspace_id: str, kind: LeaseKind) -> bool:
        self.keeper.held[workspace_id] = kind  # type: ignore[index]
        return True

    async def open_known(self, workspace_id: str) -> None:
        if self.error is not None:
            raise self.error
        self.opened.append(workspace_id)


@pytest.fixture
async def member() -> TakingMember:
    """It has taken a workspace for a request that does not open it, such as an answer to an approval."""
    member = TakingMember(FreeLeases())
    async with member.using(_WORKSPACE, "owner") as is_held:
        assert is_held
    return member


@pytest.mark.promise("W16", "R5")
async def test_a_workspace_that_was_taken_for_a_request_is_opened_once(member: TakingMember) -> None:
    await member.adopt()
    await member.adopt()
    assert member.opened == [_WORKSPACE]


@pytest.mark.promise("W16", "R5")
async def test_it_is_opened_when_the_database_answers_again(member: TakingMember) -> None:
    member.error = StoreUnreachable("the database does not answer")
    await member.adopt()
    member.error = None
    await member.adopt()
    assert member.opened == [_WORKSPACE]


async def test_a_directory_that_does_not_exist_is_tried_once(member: TakingMember) -> None:
    member.error = BadRequest("there is no such directory")
    await member.adopt()
    member.error = None
    await member.adopt()
    assert member.opened == []


async def test_a_workspace_that_was_released_meanwhile_is_not_opened(member: TakingMember) -> None:
    member.keeper.held.clear()  # type: ignore[attr-defined]
    await member.adopt()
    assert member.opened == []
