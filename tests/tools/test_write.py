"""`write` makes whole files, and replaces only what the session has read."""

from pathlib import Path

import pytest

from holdfast.errors import ToolError
from holdfast.tools.write import WriteTool
from tests.support.file_sessions import FileWorkspace


@pytest.fixture
def workspace(tmp_path: Path) -> FileWorkspace:
    return FileWorkspace(tmp_path)


async def test_a_new_file_is_made_with_its_directories(workspace: FileWorkspace) -> None:
    assert await workspace.session().write("x/y/new.txt", "content\n") == "x/y/new.txt: created (+1 −0 lines)"
    assert workspace.tree() == {"x/y/new.txt": b"content\n"}


async def test_directories_are_made_only_when_it_is_carried_out(workspace: FileWorkspace) -> None:
    await workspace.session().plan(WriteTool(), path="x/y/new.txt", content="content\n")
    assert list(workspace.directory.iterdir()) == []


async def test_an_existing_file_must_have_been_read(workspace: FileWorkspace) -> None:
    workspace.put("a", "theirs\n")
    session = workspace.session()
    with pytest.raises(ToolError, match="'a' exists, but you have not read it; view it"):
        await session.write("a", "mine\n")
    await session.view("a")
    await session.write("a", "mine\n")
    assert workspace.text("a") == "mine\n"


async def test_encoding_and_line_endings_of_the_old_content_are_kept(workspace: FileWorkspace) -> None:
    path = workspace.put("a", b"\xef\xbb\xbfone\r\ntwo\r\n")
    session = workspace.session()
    await session.view("a")
    said = await session.write("a", "1\n2\n3\n")
    assert path.read_bytes() == b"\xef\xbb\xbf1\r\n2\r\n3\r\n"
    assert "CRLF line endings were kept" in said


async def test_a_text_that_the_old_encoding_cannot_hold_makes_the_file_utf_8(workspace: FileWorkspace) -> None:
    path = workspace.put("a", b"gr\xfcn\n")
    session = workspace.session()
    await session.view("a")
    assert "the file is UTF-8 now" in await session.write("a", "5 €\n")
    assert path.read_bytes() == "5 €\n".encode()


async def test_the_same_content_is_not_written_again(workspace: FileWorkspace) -> None:
    path = workspace.put("a", "same\n")
    session = workspace.session()
    await session.view("a")
    inode = path.stat().st_ino
    assert "already has this content" in await session.write("a", "same\n")
    assert path.stat().st_ino == inode


async def test_too_much_content_and_a_directory_raise_errors(workspace: FileWorkspace) -> None:
    (workspace.directory / "dir").mkdir()
    with pytest.raises(ToolError, match="the limit is 16,777,216"):
        await workspace.session().write("a", "x" * (16 * 1024 * 1024 + 1))
    with pytest.raises(ToolError, match="is a directory"):
        await workspace.session().write("dir", "x")


async def test_text_that_cannot_be_encoded_raises_an_error(workspace: FileWorkspace) -> None:
    with pytest.raises(ToolError, match="cannot encode"):
        await workspace.session().write("a", "lone \ud800")
    assert workspace.tree() == {}
