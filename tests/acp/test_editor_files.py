"""Files with changes that are not saved, and edits through the editor."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from holdfast.acp.editor_offers import EditorPaths, editor_offers
from tests.acp.acp_peer import EditorPeer, call_as_told, editor_in_process, editor_server, recorded
from tests.support.running_server import RunningServer
from tests.support.snapshots import check_snapshot

GOLDEN = Path(__file__).with_name("golden")
FILES = {"readTextFile": True, "writeTextFile": True}


@asynccontextmanager
async def running(home: Path, config: str = "") -> AsyncIterator[RunningServer]:
    async with editor_server(home, config=config) as server:
        server.provider._respond = call_as_told
        yield server


@asynccontextmanager
async def opened(
    server: RunningServer, directory: Path | None = None, *, mode: str = "auto", fs: dict[str, bool] = FILES, **can: Any
) -> AsyncIterator[tuple[EditorPeer, str]]:
    """An editor with a session whose tools are attached."""
    async with editor_in_process(server) as peer:
        await peer.initialize(fs=fs, **can)
        session = await peer.new(directory or server.work)
        await peer.connection.set_session_mode(session_id=session, mode_id=mode)
        await until_attached(server, session, editors=1)
        yield peer, session


async def until_attached(server: RunningServer, session: str, *, editors: int) -> None:
    tools = f"/v1/sessions/{session}/tools"
    while len((await server.http.get(tools)).ok()["items"]) < editors:  # noqa: ASYNC110 - no event tells it
        await asyncio.sleep(0.01)


async def told(peer: EditorPeer, session: str, name: str, **arguments: Any) -> str:
    """What the model is told about a call."""
    before = len(peer.text())
    await peer.prompt(session, f"{name} {json.dumps(arguments)}")
    return peer.text()[before:]


async def test_an_edit_never_replaces_what_is_not_saved(home: Path) -> None:
    async with running(home) as server, opened(server) as (peer, session):
        file = server.work / "notes.txt"
        file.write_text("saved\n")
        peer.buffers[str(file)] = "saved\nnot saved\n"
        shown = await told(peer, session, "view", path="notes.txt")
        assert "not saved" in shown
        assert "ask the user to save it" in shown
        patch = "*** Begin Patch\n*** Update File: notes.txt\n@@\n-saved\n+changed\n*** End Patch"
        for name, arguments in {
            "edit": {"path": "notes.txt", "old_text": "saved\n", "new_text": "changed\n"},
            "write": {"path": "notes.txt", "content": "changed\n"},
            "apply_patch": {"patch": patch},
        }.items():
            refused = await told(peer, session, name, **arguments)
            assert "has changes in the user's editor that are not saved" in refused, name
            assert "Nothing was changed" in refused, name
        assert file.read_text() == "saved\n"
        assert peer.written == {}
        new = server.work / "new.txt"  # never saved
        peer.buffers[str(new)] = "a draft\n"
        assert "not saved" in await told(peer, session, "write", path="new.txt", content="other\n")
        assert not new.exists()


async def test_an_editor_that_has_not_loaded_our_change_has_no_unsaved_changes(home: Path) -> None:
    async with running(home) as server, opened(server) as (peer, session):
        file = server.work / "notes.txt"
        file.write_text("one\n")
        peer.buffers[str(file)] = "one\n"  # stays as it is
        await told(peer, session, "view", path="notes.txt")
        for old, new in (("one", "two"), ("two", "three")):
            await told(peer, session, "edit", path="notes.txt", old_text=old, new_text=new)
        assert file.read_text() == "three\n"
        assert "three" in await told(peer, session, "view", path="notes.txt")
        peer.buffers[str(file)] = "one more\n"  # now the user types
        assert "not saved" in await told(peer, session, "edit", path="notes.txt", old_text="three", new_text="four")
        assert file.read_text() == "three\n"


async def test_every_editor_is_asked_for_unsaved_changes(home: Path) -> None:
    async with (
        running(home, "[acp]\nwrite_files = true\n") as server,
        opened(server) as (first, session),
        editor_in_process(server) as second,
    ):
        await second.initialize(fs=FILES)
        await second.connection.resume_session(cwd=str(server.work), session_id=session)
        await until_attached(server, session, editors=2)
        file = server.work / "notes.txt"
        file.write_text("saved\n")
        first.buffers[str(file)] = "not saved\n"
        await told(second, session, "view", path="notes.txt")
        edit = {"path": "notes.txt", "old_text": "saved\n", "new_text": "changed\n"}
        assert "not saved" in await told(second, session, "edit", **edit)
        assert file.read_text() == "saved\n"


async def test_files_are_edited_through_the_editor_and_can_be_undone(home: Path) -> None:
    async with running(home, "[acp]\nwrite_files = true\n") as server, opened(server, mode="ask") as (peer, session):
        file = server.work / "notes.txt"
        file.write_text("saved\n")
        peer.buffers[str(file)] = "saved\nnot saved\n"
        assert "ask the user to save" not in await told(peer, session, "view", path="notes.txt")
        edited = await told(peer, session, "edit", path="notes.txt", old_text="saved\nnot", new_text="changed\nnot")
        assert "notes.txt: changed" in edited
        assert len(peer.permissions) == 1
        assert peer.permissions[0][0]["content"][0]["oldText"] == "saved\nnot saved\n"
        assert peer.written == {str(file): "changed\nnot saved\n"}
        assert file.read_text() == "changed\nnot saved\n"
        assert (await peer.prompt(session, "/undo")).stop_reason == "end_turn"
        assert file.read_text() == "saved\nnot saved\n"
        made = await told(peer, session, "write", path="deep/made.txt", content="made\n")  # the editor cannot
        assert "made.txt: created" in made
        assert (server.work / "deep" / "made.txt").read_text() == "made\n"
        check_snapshot(GOLDEN / "write_files.txt", recorded(peer, directory=server.work))


async def test_paths_are_named_as_the_editor_names_them(home: Path) -> None:
    async with running(home) as server:
        link = home / "link"
        link.symlink_to(server.work)
        (server.work / "notes.txt").write_text("saved\n")
        async with opened(server, link) as (peer, session):
            peer.buffers[str(link / "notes.txt")] = "not saved\n"
            assert "not saved" in await told(peer, session, "view", path="notes.txt")
            assert peer.call_view()[0]["locations"] == [{"path": str(link / "notes.txt")}]


@pytest.mark.parametrize(
    ("path", "found"),
    [("/real/a/b.txt", "/link/a/b.txt"), ("/real", "/link"), ("/really/b", "/really/b"), ("/etc/hosts", "/etc/hosts")],
)
def test_paths_of_the_directory_are_translated(path: str, found: str) -> None:
    assert EditorPaths("/real", "/link").to_editor(path) == found
    assert EditorPaths("/", "/").to_editor("/x") == "/x"


@pytest.mark.parametrize(
    ("capabilities", "settings", "tools"),
    [
        ({}, {"write_files": True, "terminals": True}, []),
        ({"fs": FILES, "terminal": True}, {}, ["editor_read_file"]),
        ({"fs": FILES, "terminal": True}, {"files": False, "write_files": True}, []),
        ({"fs": FILES}, {"write_files": True, "terminals": True}, ["editor_read_file", "editor_write_file"]),
        ({"fs": {"writeTextFile": True}}, {"write_files": True}, []),
        ({"terminal": True}, {"terminals": True}, ["editor_run", "editor_stop"]),
    ],
)
def test_only_what_the_editor_offers_and_the_settings_allow_is_used(
    capabilities: dict[str, Any], settings: dict[str, bool], tools: list[str]
) -> None:
    assert [tool.name for tool in editor_offers(capabilities, {"acp": settings}).tools] == tools
