"""What undo knows about one file: its content and its permission bits. Pure.

A content is the hash of a regular file. A symlink has its target instead, so nothing need be stored for it. A file
whose content was not stored has its size and time: it can be seen that it changed, but it cannot be restored.
"""

from __future__ import annotations

from typing import NamedTuple

_LINK_PREFIX = "link:"
_UNSTORED_PREFIX = "unstored:"
SETTLE_NS = 50_000_000
"""What changed so recently may change again within one tick: a file system's clock may stand for some milliseconds."""
UNREADABLE = "unreadable"
"""Used as the content of something that is not a readable file. No record has it."""


class FileState(NamedTuple):
    content: str | None
    """None: there is no file."""
    mode: int | None = None
    """Permission bits of a regular file."""


NO_FILE = FileState(None)


def unstored_content(*, size: int, modified_ns: int) -> str:
    """Return what stands for a content that is not stored."""
    return f"{_UNSTORED_PREFIX}{size}:{modified_ns}"


def is_unstored(content: str | None) -> bool:
    return content is not None and content.startswith(_UNSTORED_PREFIX)


def link_target(content: str | None) -> str | None:
    """Return the target that a content stands for, or None if it is not a symlink's."""
    return content[len(_LINK_PREFIX) :] if content is not None and content.startswith(_LINK_PREFIX) else None
