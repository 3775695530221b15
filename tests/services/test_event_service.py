"""Event streams through the service: limits, and who is attached."""

from pathlib import Path

import pytest

from holdfast.errors import NotFound, ServerStopping, TooMany
from holdfast.services.presence import Caller
from tests.support.app_harness import open_app_harness


@pytest.mark.promise("W7")
async def test_a_client_is_attached_while_its_stream_is_open(tmp_path: Path) -> None:
    async with open_app_harness(tmp_path) as harness:
        services = harness.app.services
        session = await services.sessions.create(harness.workspace_id)
        caller = Caller("web/1", "cli_a")
        streams = [
            await services.events.open_stream(caller, after=None, workspace_id=harness.workspace_id, viewing=session.id)
            for _ in range(2)
        ]
        assert [client.id for client in (await services.sessions.view(session.id)).attached] == ["cli_a"]
        assert services.presence.streams == 2
        for stream in streams:
            stream.close()
        assert (await services.sessions.view(session.id)).attached == ()


async def test_a_stream_is_refused_for_a_foreign_session_at_the_limit_and_while_stopping(tmp_path: Path) -> None:
    config = "[server]\nmax_streams = 1\n"
    async with open_app_harness(tmp_path, config=config) as harness:
        services = harness.app.services
        (tmp_path / "other").mkdir()
        other, _ = await services.workspaces.open(str(tmp_path / "other"))
        session = await services.sessions.create(harness.workspace_id)
        with pytest.raises(NotFound):
            await services.events.open_stream(Caller(), after=None, workspace_id=other.id, session_id=session.id)
        stream = await services.events.open_stream(Caller(), after=None)
        with pytest.raises(TooMany):
            await services.events.open_stream(Caller(), after=None)
        stream.close()
        services.state.request_stop()
        with pytest.raises(ServerStopping):
            await services.events.open_stream(Caller(), after=None)
