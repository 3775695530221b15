"""Files that the user's editor has open: changes that are not saved, and writes through the editor.

An edit never replaces what is not saved in the editor. If the editor writes files for us, such a file is edited as the
editor has it; otherwise the edit is refused. A write through the editor is checked on the disk before and after it. It
is weaker than our own (`file_transaction`): a change that another program makes between the check and the write of the
editor is lost, and the editor follows symlinks. So it needs a setting.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from typing import NamedTuple

from holdfast.errors import ToolError
from holdfast.tools.files.file_access import ABSENT, content_hash, read_file
from holdfast.tools.files.file_transaction import NOTHING_CHANGED, FileConflict, FileWrite, write_files
from holdfast.tools.protocol import UserEditor
from holdfast.tools.text.text_file import TextFile, encode_text

_BOM = "\ufeff"
_CHANGED_BY_EDITOR = "the user's editor changed the text when it saved it; view the file before you edit it again"


def plain_text(text: str) -> str:
    """A text without what editors change by themselves."""
    return text.removeprefix(_BOM).replace("\r\n", "\n").removesuffix("\n")


def unsaved_error(name: str) -> ToolError:
    return ToolError(
        f"{name!r} has changes in the user's editor that are not saved; ask the user to save or discard them, then view"
        " it again",
        code="unsaved",
    )


def unsaved_content(file: TextFile, texts: Sequence[str], *, name: str) -> bytes:
    """What the file would be if the editor saved it. Raises `ToolError` if that is not certain."""
    if len({plain_text(text) for text in texts}) > 1 or file.encoding != "utf-8":
        raise unsaved_error(name)
    text = texts[0].removeprefix(_BOM)
    return encode_text(text.replace("\n", "\r\n") if file.crlf and "\r" not in text else text, "utf-8")


def suits_editor(change: FileWrite) -> bool:
    """Whether an editor can make this change: a text in UTF-8, in a file that can be written. Blocking."""
    if change.new is None or change.mode is not None or change.link is not None or _BOM.encode() == change.new[:3]:
        return False
    try:
        change.new.decode()
    except UnicodeDecodeError:
        return False
    return b"\0" not in change.new and (change.expected == ABSENT or os.access(change.path, os.W_OK))


class EditorWritten(NamedTuple):
    content: bytes | None
    """What the file has now."""
    notes: tuple[str, ...]


async def write_through_editor(change: FileWrite, editor: UserEditor, *, is_unsaved: bool) -> EditorWritten:
    """Have the editor write a file. If it does not save it, the file is written as without an editor."""
    if await asyncio.to_thread(_content, change) != change.expected:
        raise FileConflict(
            f"{str(change.path)!r} was changed by another program; view it again before you change it.\n"
            f"{NOTHING_CHANGED}",
            detail={"path": str(change.path)},
        )
    new = change.new or b""
    was_written = await editor.write(change.path, new.decode())
    now = await asyncio.to_thread(read_file, change.path)
    if now == new:
        return EditorWritten(now, ())
    if content_hash(now) != change.expected:
        if was_written:
            return EditorWritten(now, (_CHANGED_BY_EDITOR,))
        raise FileConflict(
            f"{str(change.path)!r} was changed by another program, and not by the user's editor; view it again",
            detail={"path": str(change.path)},
        )
    if is_unsaved and not was_written:
        raise ToolError(f"the user's editor did not take the change of {str(change.path)!r}.\n{NOTHING_CHANGED}")
    return EditorWritten(change.new, await asyncio.to_thread(write_files, [change]))


def _content(change: FileWrite) -> str:
    return content_hash(read_file(change.path))
