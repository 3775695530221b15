"""Reads the present state of single files. Blocking: call it in a thread."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from holdfast.errors import ToolError
from holdfast.tools.files.file_access import MAX_FILE_BYTES, content_hash, link_hash, read_file
from holdfast.workspace.undo.file_state import NO_FILE, UNREADABLE, FileState, unstored_content


def read_state(path: Path) -> tuple[FileState, bytes | None]:
    """Return the state of a file, and its content if it is a regular file of at most `MAX_FILE_BYTES`.

    The directory is resolved, the file itself is not: a symlink is a state of its own.
    """
    path = Path(os.path.realpath(path.parent)) / path.name
    try:
        status = os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return NO_FILE, None
    except OSError:
        return FileState(UNREADABLE), None
    if stat.S_ISLNK(status.st_mode):
        return FileState(link_hash(os.readlink(path))), None
    mode = stat.S_IMODE(status.st_mode)
    if stat.S_ISREG(status.st_mode) and status.st_size > MAX_FILE_BYTES:
        return FileState(unstored_content(size=status.st_size, modified_ns=status.st_mtime_ns), mode), None
    try:
        data = read_file(path)
    except ToolError:
        return FileState(UNREADABLE), None
    return (NO_FILE, None) if data is None else (FileState(content_hash(data), mode), data)
