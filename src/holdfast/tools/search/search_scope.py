"""Shared by `ls`, `glob` and `grep`: the directory to search, and threads that stop when the call is cancelled."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterable
from pathlib import Path
from threading import Event
from typing import TypeVar

import msgspec

from holdfast.errors import ToolError
from holdfast.schema.approvals import Subject
from holdfast.tools.files.file_access import missing_file_error, resolve_path
from holdfast.tools.files.file_changes import clean_text
from holdfast.tools.protocol import ToolContext, ToolPlan

T = TypeVar("T")


class SearchScope(msgspec.Struct, frozen=True):
    """The file or directory to search."""

    root: Path
    """Ignore rules apply from here: the workspace, or a directory outside."""
    start: str
    """The searched path relative to the root, with ``/``; empty for the root."""
    is_dir: bool

    @property
    def path(self) -> Path:
        return self.root / self.start

    def name(self, relative: str, workspace: Path) -> str:
        """Return a found path for display."""
        return relative if self.root == workspace else str(self.root / relative)


async def search_plan(tool: str, path: str, context: ToolContext, *, title: str) -> ToolPlan:
    resolved = await asyncio.to_thread(resolve_path, path, context.workspace)
    return ToolPlan(
        Subject(tool, "reads", clean_text(context, title), cwd=str(context.workspace), paths=(str(resolved),))
    )


def resolve_scope(text: str, context: ToolContext, plan: ToolPlan) -> SearchScope:
    """Resolve the path. Raises `ToolError` if it is missing or not the planned one. Blocking."""
    path = resolve_path(text, context.workspace)
    if plan.subject.paths != (str(path),):
        raise ToolError(f"{text!r} now leads to another path than in the plan; try again")
    if not os.path.lexists(path):
        raise missing_file_error(path, context.workspace)
    is_dir = path.is_dir()
    if path.is_relative_to(context.workspace):
        relative = path.relative_to(context.workspace).as_posix()
        return SearchScope(context.workspace, "" if relative == "." else relative, is_dir)
    return SearchScope(path, "", is_dir=True) if is_dir else SearchScope(path.parent, path.name, is_dir=False)


async def run_in_thread(work: Callable[[Callable[[], bool]], T]) -> T:
    """Run blocking work in a thread. It gets a function that returns whether the caller was cancelled."""
    stop = Event()
    try:
        return await asyncio.to_thread(work, stop.is_set)
    finally:
        stop.set()


def newest_first(root: Path, relatives: Iterable[str]) -> list[str]:
    """Sort by modification time, then by name. Missing files come last. Blocking."""

    def age(relative: str) -> tuple[int, str]:
        try:
            return -os.lstat(root / relative).st_mtime_ns, relative
        except OSError:
            return 0, relative

    return sorted(relatives, key=age)
