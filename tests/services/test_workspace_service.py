"""Workspaces that could not be opened are opened again."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from holdfast.errors import StoreUnreachable
from holdfast.schema.sessions import Workspace
from holdfast.services.workspace_service import WorkspaceService
from holdfast.workspace.open_workspaces import OpenWorkspaces


class AwayEngine:
    """An engine whose database is away at first."""

    def __init__(self) -> None:
        self.is_away = True
        self.opened: list[str] = []

    async def open_workspace(self, workspace_id: str) -> None:
        if self.is_away:
            raise StoreUnreachable("the database does not answer")
        self.opened.append(workspace_id)


@pytest.mark.promise("W6", "R5")
async def test_a_workspace_whose_queue_could_not_be_read_is_opened_by_the_next_request(tmp_path: Path) -> None:
    workspace = Workspace(id="wsp_1", path=str(tmp_path), created_at="2026-01-01T00:00:00.000Z")

    async def find(workspace_id: str) -> Workspace:
        return workspace

    shared: Any = SimpleNamespace(store=SimpleNamespace(workspace=find), env={})
    engine: Any = AwayEngine()
    nothing: Any = None
    service = WorkspaceService(OpenWorkspaces(shared), engine, presence=nothing, state=nothing, paths=nothing)
    for _ in range(2):
        with pytest.raises(StoreUnreachable):
            await service.configured(workspace.id)
    engine.is_away = False
    for _ in range(2):
        assert (await service.configured(workspace.id)).workspace == workspace
    assert engine.opened == [workspace.id]
