"""The states of a workspace's extensions over HTTP, and their events."""

import asyncio
from pathlib import Path

from holdfast.config import Config
from holdfast.schema.base import to_builtins
from holdfast.schema.extensions import ExtensionState, ExtensionStatus
from tests.support.running_server import KEY, RunningServer, run_server


class _Provider:
    """One extension, with the states that a test gives it."""

    def __init__(self) -> None:
        self.status = ExtensionStatus("mcp", "docs", "disabled", source="config.toml:1")
        self.refreshed: list[bool] = []
        self.listed = asyncio.Event()
        self.closed = 0

    async def refresh(self, config: Config, *, trusted: bool) -> None:
        assert config.settings.models.large == "test/test-model"
        self.refreshed.append(trusted)

    def statuses(self) -> list[ExtensionStatus]:
        self.listed.set()
        return [self.status]

    async def close(self) -> None:
        self.closed += 1

    async def change(self, server: RunningServer, state: ExtensionState, detail: str = "") -> None:
        self.status = ExtensionStatus("mcp", "docs", state, detail, "config.toml:1")
        await (await server.app.open_workspaces.live(server.workspace_id)).announce_extension(self.status)


async def test_states_are_listed_waited_for_and_sent_as_events_without_secrets(home: Path) -> None:
    async with run_server(home) as server:
        target = f"/v1/workspaces/{server.workspace_id}/extensions"
        assert (await server.http.get(target)).ok()["items"] == []
        provider = _Provider()
        (await server.app.open_workspaces.live(server.workspace_id)).extensions.append(provider)
        listed = (await server.http.get(target)).ok()
        assert listed["items"] == [to_builtins(provider.status)]
        assert provider.refreshed == [False]
        async with server.http.stream(
            f"/v1/workspaces/{server.workspace_id}/events?after={listed['cursor']}"
        ) as events:
            await provider.change(server, "starting")
            assert (await server.http.get(target)).ok()["items"][0]["state"] == "starting"
            provider.listed.clear()
            waiting = asyncio.create_task(server.http.get(f"{target}?wait=30"))
            await provider.listed.wait()
            await provider.change(server, "failed", f"the server said {KEY}")
            assert (await waiting).ok()["items"][0]["state"] == "failed"
            assert (await events.until("extension.changed"))["extension"]["state"] == "starting"
            failed = (await events.until("extension.changed"))["extension"]
            assert failed["state"] == "failed"
            assert KEY not in failed["detail"]
        (await server.http.send("DELETE", f"/v1/workspaces/{server.workspace_id}")).ok()
        assert provider.closed == 1
