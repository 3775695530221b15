"""`write` makes whole files, and replaces only what the session has read."""

from pathlib import Path

import pytest

from holdfast.errors import ToolError
from holdfast.tools.write import WriteTool
from tests.support.filebox import Filebox


@pytest.fixture
def box(tmp_path: Path) -> Filebox:
    return Filebox(tmp_path)


async def test_a_new_file_is_made_with_its_directories(box: Filebox) -> None:
    assert await box.session().write("x/y/new.txt", "content\n") == "x/y/new.txt: created (+1 −0 lines)"
    assert box.tree() == {"x/y/new.txt": b"content\n"}


async def test_directories_are_made_only_when_it_is_carried_out(box: Filebox) -> None:
    await box.session().plan(WriteTool(), path="x/y/new.txt", content="content\n")
    assert list(box.workspace.iterdir()) == []


async def test_an_existing_file_must_have_been_read(box: Filebox) -> None:
    box.put("a", "theirs\n")
    session = box.session()
    with pytest.raises(ToolError, match="'a' exists, but this session has not read it; view it"):
        await session.write("a", "mine\n")
    await session.view("a")
    await session.write("a", "mine\n")
    assert box.text("a") == "mine\n"


async def test_encoding_and_line_endings_of_the_old_content_are_kept(box: Filebox) -> None:
    path = box.put("a", b"\xef\xbb\xbfone\r\ntwo\r\n")
    session = box.session()
    await session.view("a")
    said = await session.write("a", "1\n2\n3\n")
    assert path.read_bytes() == b"\xef\xbb\xbf1\r\n2\r\n3\r\n"
    assert "CRLF line endings were kept" in said


async def test_a_text_that_the_old_encoding_cannot_hold_makes_the_file_utf_8(box: Filebox) -> None:
    path = box.put("a", b"gr\xfcn\n")
    session = box.session()
    await session.view("a")
    assert "it is UTF-8 now" in await session.write("a", "5 €\n")
    assert path.read_bytes() == "5 €\n".encode()


async def test_the_same_content_is_not_written_again(box: Filebox) -> None:
    path = box.put("a", "same\n")
    session = box.session()
    await session.view("a")
    inode = path.stat().st_ino
    assert "has this content already" in await session.write("a", "same\n")
    assert path.stat().st_ino == inode


async def test_too_much_content_and_a_directory_are_refused(box: Filebox) -> None:
    (box.workspace / "dir").mkdir()
    with pytest.raises(ToolError, match="at most 16,777,216 can be written"):
        await box.session().write("a", "x" * (16 * 1024 * 1024 + 1))
    with pytest.raises(ToolError, match="is a directory"):
        await box.session().write("dir", "x")


async def test_text_that_cannot_be_encoded_is_refused(box: Filebox) -> None:
    with pytest.raises(ToolError, match="cannot hold"):
        await box.session().write("a", "lone \ud800")
    assert box.tree() == {}
