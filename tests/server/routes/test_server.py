"""The server itself over HTTP."""

from pathlib import Path

import pytest

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
