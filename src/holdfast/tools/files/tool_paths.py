"""Paths as a model writes them, and as people are shown them. Blocking: call these functions in a thread."""

from __future__ import annotations

import difflib
import os
from itertools import islice
from pathlib import Path

from holdfast.errors import ToolError

_MOST_SIBLINGS = 5_000


def resolve_path(text: str, workspace: Path) -> Path:
    """The real, absolute path: relative to the workspace, ``~`` expanded, symlinks followed. It need not exist."""
    if not text.strip():
        raise ToolError("the path is empty; give a path relative to the workspace, or an absolute one")
    if "\0" in text:
        raise ToolError(f"the path {text!r} contains a NUL character")
    try:
        found = os.path.realpath(workspace / os.path.expanduser(text))
        found.encode()
    except OSError as error:
        raise ToolError(f"the path {text!r} cannot be followed: {error.strerror}") from error
    except UnicodeEncodeError as error:
        raise ToolError(f"the path {text!r} leads to a name that is not UTF-8; use bash for such files") from error
    return Path(found)


def display_path(path: Path, workspace: Path) -> str:
    """Short inside the workspace, absolute outside of it."""
    return str(path.relative_to(workspace)) if path.is_relative_to(workspace) else str(path)


def is_inside(path: Path, workspace: Path) -> bool:
    return path.is_relative_to(workspace)


def missing_file_error(path: Path, workspace: Path) -> ToolError:
    """Says that nothing is there, and what the caller may have meant."""
    near = [display_path(found, workspace) for found in similar_paths(path)]
    hint = f"; near: {', '.join(map(repr, near))}" if near else "; use glob or ls to find it"
    return ToolError(f"{display_path(path, workspace)!r} does not exist{hint}", code="file_missing")


def similar_paths(path: Path) -> tuple[Path, ...]:
    """What exists beside a missing path under a similar name; for a missing directory, beside that directory."""
    while not path.parent.is_dir():
        if path.parent == path:
            return ()
        path = path.parent
    try:
        with os.scandir(path.parent) as entries:
            names = [entry.name for entry in islice(entries, _MOST_SIBLINGS)]
    except OSError:
        return ()
    wanted = path.name.lower()
    by_key = {name.lower(): name for name in names}
    stems = {name.lower(): name for name in names if Path(name).stem.lower() == path.stem.lower()}
    close = difflib.get_close_matches(wanted, by_key, n=3, cutoff=0.6)
    found = dict.fromkeys([*stems.values(), *(by_key[key] for key in close)])
    return tuple(path.parent / name for name in list(found)[:3])
