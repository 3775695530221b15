"""Sessions that an editor leaves before it has prompted: choices are kept, and unused ones go after a day."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from holdfast.acp import acp_agent
from holdfast.acp.choice_files import ChoiceFiles, SavedChoices, known_choices
from holdfast.acp.session_settings import EditorChoices
from holdfast.schema.runs import Run
from tests.acp.acp_peer import editor_in_process, editor_server
from tests.support.running_server import RunningServer


@pytest.fixture
async def server(home: Path) -> AsyncIterator[RunningServer]:
    async with editor_server(home) as server:
        yield server


async def test_a_session_that_another_process_made_can_be_loaded_with_its_choices(server: RunningServer) -> None:
    """As command-line clients do it: one process makes the session, one sets the mode, one prompts."""
    async with editor_in_process(server) as peer:
        await peer.initialize()
        session = await peer.new(server.work)
    listed = f"/v1/workspaces/{server.workspace_id}/sessions"
    assert (await server.http.get(listed)).ok()["items"] == []  # it was not used, so it is not listed
    async with editor_in_process(server) as peer:
        await peer.initialize()
        await peer.connection.load_session(cwd=str(server.work), session_id=session, mcp_servers=[])
        await peer.connection.set_session_mode(session_id=session, mode_id="auto")
    async with editor_in_process(server) as peer:
        await peer.initialize()
        loaded = await peer.connection.load_session(cwd=str(server.work), session_id=session, mcp_servers=[])
        assert loaded.modes.current_mode_id == "auto"
        await peer.prompt(session, "!write made.txt")
        assert peer.permissions == []
        await peer.connection.set_session_mode(session_id=session, mode_id="plan")
    assert [one["id"] for one in (await server.http.get(listed)).ok()["items"]] == [session]
    async with editor_in_process(server) as peer:
        await peer.initialize()
        loaded = await peer.connection.load_session(cwd=str(server.work), session_id=session, mcp_servers=[])
        assert loaded.modes.current_mode_id == "plan"


async def test_sessions_left_unused_are_deleted_later(server: RunningServer, monkeypatch: pytest.MonkeyPatch) -> None:
    every = f"/v1/workspaces/{server.workspace_id}/sessions?archived=true"
    async with editor_in_process(server) as peer:
        await peer.initialize()
        left, used = await peer.new(server.work), await peer.new(server.work)
        await peer.prompt(used, "!say hello")
    assert {one["id"] for one in (await server.http.get(every)).ok()["items"]} == {left, used}
    monkeypatch.setattr(acp_agent, "_UNUSED_SECONDS", -3600.0)
    async with editor_in_process(server) as peer:
        await peer.initialize()
        new = await peer.new(server.work)
        await peer.prompt(new, "!say hello")
        while (await server.http.get(f"/v1/sessions/{left}")).status == 200:  # noqa: ASYNC110 - no event tells it
            await asyncio.sleep(0.01)
    assert {one["id"] for one in (await server.http.get(every)).ok()["items"]} == {used, new}


def test_a_choice_counts_until_the_next_run() -> None:
    run = Run(id="run_1", session_id="ses_1", seq=1, mode="ask", model="a/b")
    plan = EditorChoices(mode="plan", delivery="steer")
    assert known_choices(None, None) == EditorChoices()
    assert known_choices(None, SavedChoices(plan)) == plan
    assert known_choices(run, SavedChoices(plan, "run_1")) == plan
    assert known_choices(run, SavedChoices(plan)) == EditorChoices(mode="ask", model="a/b", delivery="steer")
    assert known_choices(run, None) == EditorChoices(mode="ask", model="a/b")


def test_files_that_cannot_be_used_are_ignored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files, saved = ChoiceFiles(tmp_path / "acp"), SavedChoices(EditorChoices(mode="plan"))
    assert files.read("ses_1") is None
    files.write("ses_1", saved)
    assert files.read("ses_1") == saved
    (tmp_path / "acp" / "ses_1.json").write_text('{"chosen": {"mode": "fast"}}')
    assert files.read("ses_1") is None
    monkeypatch.setattr("holdfast.acp.choice_files._MOST_FILES", 3)
    for number in range(2, 9):
        files.write(f"ses_{number}", saved)
    assert len(list((tmp_path / "acp").iterdir())) == 3
    (tmp_path / "file").write_text("")
    ChoiceFiles(tmp_path / "file").write("ses_1", saved)
