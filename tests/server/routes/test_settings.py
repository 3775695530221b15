"""Settings, models and keys over HTTP."""

from pathlib import Path

import pytest

from tests.support.running_server import run_server


async def test_settings_are_changed_all_or_none_and_clients_get_an_event(home: Path) -> None:
    async with run_server(home) as server:
        target = f"/v1/workspaces/{server.workspace_id}/config"
        async with server.http.stream("/v1/events") as stream:
            await stream.data()
            changed = (await server.http.send("PATCH", target, {"changes": {"limits.max_steps": 9}})).ok()
            assert changed["values"]["limits"]["max_steps"] == 9
            assert (await stream.until("config.changed"))["keys"] == ["limits.max_steps"]
        for changes in ({"limits.max_steps": 3, "limits.nonsense": 1}, {"limits.max_steps": "many"}, {}):
            refused = await server.http.send("PATCH", target, {"changes": changes})
            assert refused.status == 400
        assert (await server.http.get(target)).ok()["values"]["limits"]["max_steps"] == 9
        assert (await server.http.get("/v1/config/schema")).ok()["type"] == "object"


@pytest.mark.promise("W8")
async def test_models_are_listed_and_keys_go_in_but_never_out(home: Path) -> None:
    async with run_server(home) as server:
        before = (await server.http.get("/v1/models")).ok()
        anthropic = next(provider for provider in before["providers"] if provider["id"] == "anthropic")
        assert not anthropic["active"]
        assert before["large"] == "test/test-model"
        key = "sk-ant-0123456789abcdef"
        (await server.http.send("PUT", "/v1/providers/anthropic/key", {"key": key})).ok()
        after = await server.http.get(f"/v1/models?workspace={server.workspace_id}")
        assert next(one for one in after.ok()["providers"] if one["id"] == "anthropic")["active"]
        assert key.encode() not in after.body
        (await server.http.send("PUT", "/v1/providers/anthropic/key", {"key": None})).ok()
        again = (await server.http.get("/v1/models")).ok()
        assert not next(one for one in again["providers"] if one["id"] == "anthropic")["active"]
        unknown = await server.http.send("PUT", "/v1/providers/nobody/key", {"key": key})
        assert (unknown.status, unknown.code) == (404, "provider_not_found")
        tried = (await server.http.post("/v1/providers/test/test", {"model": "test-model"})).ok()
        assert (tried["ok"], tried["model"]) == (True, "test/test-model")
