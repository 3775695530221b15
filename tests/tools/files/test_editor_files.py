"""Writes through the user's editor: what is on the disk counts."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from holdfast.errors import ToolError
from holdfast.tools.edit import EditTool
from holdfast.tools.files.editor_files import suits_editor, unsaved_content
from holdfast.tools.files.file_access import ABSENT, content_hash
from holdfast.tools.files.file_transaction import FileConflict, FileWrite
from holdfast.tools.text.text_file import TextFile
from tests.support.file_sessions import FileSession, FileWorkspace
from tests.tools.test_editor_command import FixedEditor

EDIT = {"path": "notes.txt", "old_text": "one", "new_text": "two"}


class WritingEditor(FixedEditor):
    """An editor that writes as the test says. Returns whether it says that it did."""

    can_write = True

    def __init__(self, write: Callable[[Path, str], bool], *, unsaved: str | None = None) -> None:
        super().__init__(None)
        self._write = write
        self._unsaved = unsaved
        self.given: list[str] = []

    async def unsaved(self, path: Path, saved: str) -> tuple[str, ...]:
        return () if self._unsaved is None else (self._unsaved,)

    async def write(self, path: Path, text: str) -> bool:
        self.given.append(text)
        return await asyncio.to_thread(self._write, path, text)


def _save(path: Path, text: str) -> bool:
    path.write_text(text)
    return True


def _format(path: Path, text: str) -> bool:
    return _save(path, text.upper())


def _keep_unsaved(path: Path, text: str) -> bool:
    return True


def _fail(path: Path, text: str) -> bool:
    return False


def _fail_while_another_program_writes(path: Path, text: str) -> bool:
    path.write_text("of another program")
    return False


def _session(tmp_path: Path, editor: WritingEditor) -> tuple[FileSession, Path]:
    workspace = FileWorkspace(tmp_path)
    file = workspace.directory / "notes.txt"
    file.write_text("one\n")
    return workspace.session(editor=editor), file


@pytest.mark.parametrize(
    ("write", "unsaved", "content", "told"),
    [
        (_save, None, "two\n", "replaced at line 1"),
        (_save, "one, not saved\n", "two, not saved\n", "replaced at line 1"),
        (_format, None, "TWO\n", "changed the text when it saved it; view the file"),
        (_keep_unsaved, None, "two\n", "replaced at line 1"),
        (_keep_unsaved, "one, not saved\n", "two, not saved\n", "replaced at line 1"),
        (_fail, None, "two\n", "replaced at line 1"),
    ],
)
async def test_the_file_has_the_change_however_the_editor_writes(
    tmp_path: Path, write: Callable[[Path, str], bool], unsaved: str | None, content: str, told: str
) -> None:
    editor = WritingEditor(write, unsaved=unsaved)
    session, file = _session(tmp_path, editor)
    await session.view("notes.txt")
    output = await session.call(EditTool(), **EDIT)
    assert told in output.text
    assert file.read_text() == content
    editor._unsaved = None
    await session.undo()
    assert file.read_text() == (unsaved or "one\n")


@pytest.mark.parametrize(
    ("write", "unsaved", "content", "error"),
    [
        (_fail, "one, not saved\n", "one\n", "did not take the change"),
        (_fail_while_another_program_writes, None, "of another program", "by another program, and not by"),
    ],
)
async def test_a_change_that_the_editor_does_not_take_is_an_error(
    tmp_path: Path, write: Callable[[Path, str], bool], unsaved: str | None, content: str, error: str
) -> None:
    session, file = _session(tmp_path, WritingEditor(write, unsaved=unsaved))
    await session.view("notes.txt")
    with pytest.raises(ToolError, match=error):
        await session.call(EditTool(), **EDIT)
    assert file.read_text() == content


async def test_a_file_that_another_program_changed_is_not_given_to_the_editor(tmp_path: Path) -> None:
    editor = WritingEditor(_save, unsaved="one, not saved\n")
    session, file = _session(tmp_path, editor)
    await session.view("notes.txt")
    original, calls = editor.unsaved, list[str]()

    async def changed_after(path: Path, saved: str) -> tuple[str, ...]:
        found = await original(path, saved)
        if calls:
            await asyncio.to_thread(file.write_text, "of another program")
        return found

    editor.unsaved = changed_after  # type: ignore[method-assign]
    with pytest.raises(FileConflict, match="another program"):
        await session.call(EditTool(), **EDIT, between=lambda: calls.append("approved"))
    assert editor.given == []
    assert file.read_text() == "of another program"


@pytest.mark.parametrize(
    ("change", "suits"),
    [
        (FileWrite(Path("/new"), ABSENT, b"text"), True),
        (FileWrite(Path("/new"), ABSENT, "\N{SNOWMAN}".encode()), True),
        (FileWrite(Path("/new"), ABSENT, b"\xff"), False),
        (FileWrite(Path("/new"), ABSENT, b"\xef\xbb\xbftext"), False),
        (FileWrite(Path("/new"), ABSENT, b"a\0b"), False),
        (FileWrite(Path("/new"), ABSENT, b"#!/bin/sh", 0o755), False),
        (FileWrite(Path("/no/such/file"), content_hash(b"x"), None), False),
        (FileWrite(Path("/no/such/file"), content_hash(b"x"), b"y"), False),
    ],
)
def test_an_editor_writes_only_plain_text(change: FileWrite, suits: bool) -> None:
    assert suits_editor(change) is suits


def test_line_ends_of_the_file_are_kept() -> None:
    assert unsaved_content(TextFile("a\r\n"), ["b\nc\n"], name="x") == b"b\r\nc\r\n"
    assert unsaved_content(TextFile("a\n"), ["b\n", "b\r\n"], name="x") == b"b\n"
    for file, texts in ((TextFile("a", "latin-1"), ["b"]), (TextFile("a"), ["b", "c"])):
        with pytest.raises(ToolError, match="not saved"):
            unsaved_content(file, texts, name="x")
