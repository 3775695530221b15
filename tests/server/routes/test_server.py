"""The server itself over HTTP."""

from pathlib import Path

import pytest

from holdfast.errors import StoreDamaged
from tests.support.running_server import run_server


@pytest.mark.promise("W10")
async def test_a_backup_is_made_while_everything_goes_on_and_never_over_a_file(home: Path) -> None:
    async with run_server(home) as server:
        session_id = await server.session()
        path = home / "copy.db"
        made = (await server.http.post("/v1/server/backup", {"path": str(path)})).ok()
        assert made["size"] == path.stat().st_size > 0
        for wrong in (str(path), "/", str(home / "absent" / "copy.db"), "relative"):
            assert (await server.http.post("/v1/server/backup", {"path": wrong})).status == 400
        assert (await server.http.get(f"/v1/sessions/{session_id}")).status == 200


@pytest.mark.promise("W10")
async def test_a_server_whose_database_became_damaged_is_found_and_can_be_stopped(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def damaged(*arguments: object) -> None:
        raise StoreDamaged("the database cannot be read")

    async with run_server(home) as server:
        await server.session()
        for read in ("workspaces", "stored_response"):
            monkeypatch.setattr(server.app.store, read, damaged)
        assert (await server.http.get("/v1/workspaces")).status == 500
        assert (await server.http.get("/v1/server")).ok()["workspaces"] == 1
        stop = await server.http.post("/v1/server/stop", {}, idempotency_key="key_of_a_stop")
        assert stop.status == 202, stop.body
