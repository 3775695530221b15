"""Workspaces over HTTP."""

from pathlib import Path

import pytest

from tests.support.running_server import run_server


@pytest.mark.promise("W1")
async def test_one_directory_is_one_workspace_under_any_path(home: Path) -> None:
    async with run_server(home) as server:
        link = home / "link"
        link.symlink_to(server.work)
        for path in (server.work, link, server.work / ".." / "work", Path(f"{server.work}/")):
            joined = (await server.http.post("/v1/workspaces", {"path": str(path)})).ok(200)
            assert (joined["id"], joined["path"]) == (server.workspace_id, str(server.work.resolve()))
        other = home / "other"
        other.mkdir()
        assert (await server.http.post("/v1/workspaces", {"path": str(other)})).ok(201)["open"]
        (home / "file").write_text("")
        for path, code in (("absent", "directory_not_found"), ("file", "not_a_directory")):
            refused = await server.http.post("/v1/workspaces", {"path": str(home / path)})
            assert (refused.status, refused.code) == (400, code)
        for wrong in ("relative", "", "/nul\0"):
            assert (await server.http.post("/v1/workspaces", {"path": wrong})).status == 400


@pytest.mark.promise("W1", "R14")
async def test_opening_a_known_directory_writes_nothing(home: Path) -> None:
    async with run_server(home) as server:
        store = server.app.store
        for _ in range(2):
            opened = await server.http.post("/v1/workspaces", {"path": str(server.work)}, Idempotency_Key="k1")
            assert opened.ok(200)["id"] == server.workspace_id
        assert await store.stored_response("k1") is None


@pytest.mark.promise("W1")
async def test_opening_runs_nothing_of_the_directory_and_trust_is_given_and_taken_back(home: Path) -> None:
    async with run_server(home) as server:
        project = server.work / ".holdfast"
        project.mkdir()
        (project / "config.toml").write_text('[limits]\nmax_steps = 7\n[mcp.evil]\ncommand = ["touch", "/tmp/evil"]\n')
        config = f"/v1/workspaces/{server.workspace_id}/config"
        before = (await server.http.get(config)).ok()
        assert (before["values"]["limits"]["max_steps"], before["untrusted"]) == (200, [str(project / "config.toml")])
        trusted = (await server.http.post(f"/v1/workspaces/{server.workspace_id}/trust")).ok()
        assert trusted["trusted"]
        after = (await server.http.get(config)).ok()
        assert (after["values"]["limits"]["max_steps"], after["untrusted"]) == (7, [])
        assert after["origins"]["limits.max_steps"].startswith("project")
        (await server.http.post(f"/v1/workspaces/{server.workspace_id}/trust", {"trusted": False})).ok()
        assert (await server.http.get(config)).ok()["values"]["limits"]["max_steps"] == 200
