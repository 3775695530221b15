"""Which file a program's name stands for, and whether the agent could have put it there."""

from __future__ import annotations

import os
import stat
from typing import Final

from holdfast.approvals.rule_patterns import relative_to

DEFAULT_PATH: Final = "/usr/local/bin:/usr/bin:/bin"
_TEMPORARY: Final = ("/tmp", "/var/tmp", "/dev/shm", "/private/tmp", "/private/var/tmp")


def why_untrusted(program: str, *, search_path: str, workspace: str) -> str | None:
    """Why a program may not be the one that its name says; ``None`` if it is, or if there is none of that name.

    The agent can write in the workspace, and everyone can in directories for temporary files. A relative directory in
    the search path means a directory of the workspace.
    """
    if "/" in program:
        return _why_writable(program, workspace)
    for directory in (search_path or DEFAULT_PATH).split(":"):
        if not directory.startswith("/"):
            return f"the search path has the relative directory {directory or '.'!r}"
        path = f"{directory.rstrip('/')}/{program}"
        if os.access(path, os.X_OK) and os.path.isfile(path):
            return _why_writable(path, workspace)
    return None


def _why_writable(path: str, workspace: str) -> str | None:
    for name in (path, os.path.realpath(path)):
        if relative_to(name, workspace) is not None:
            return f"{path} is in the workspace"
        if any(relative_to(name, root) is not None for root in _TEMPORARY):
            return f"{path} is in a directory for temporary files"
        for checked in (name, os.path.dirname(name)):
            try:
                mode = os.stat(checked).st_mode
            except OSError:
                return None
            if mode & stat.S_IWOTH and not mode & stat.S_ISVTX:
                return f"everyone can write {checked}"
    return None
