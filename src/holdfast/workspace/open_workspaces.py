"""The open workspaces of one server.

Opening a workspace runs no code of its directory, and closing one never affects another (`W1`, `W3`). A workspace that
was opened accepts prompts. What its runs use is made when the first one starts, or soon after the start of the server:
most modules of the server are imported then, in a thread, and not on the way to the first answer.
"""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import TYPE_CHECKING

from holdfast.errors import NotFound
from holdfast.schema.sessions import Workspace
from holdfast.workspace.shared_parts import SharedParts
from holdfast.workspace.workspace_setup import ConfiguredWorkspace

if TYPE_CHECKING:
    from holdfast.workspace.open_workspace import OpenWorkspace

_LEFT_OUT = ("tokenize", "textwrap", "inspect", "locale", "ipaddress")
"""Modules of Python that `holdfast serve` starts without: a traceback shows source, also when no file can be opened."""


class OpenWorkspaces:
    """The open workspaces by id. Opening one again returns the same one (`W1`)."""

    def __init__(self, shared: SharedParts) -> None:
        self.shared = shared
        self._configured: dict[str, ConfiguredWorkspace] = {}
        self._live: dict[str, OpenWorkspace] = {}
        self._loading: asyncio.Task[None] | None = None

    def open(self, workspace: Workspace) -> ConfiguredWorkspace:
        found = self._configured.get(workspace.id)
        if found is None:
            found = self._configured[workspace.id] = ConfiguredWorkspace(workspace, self.shared)
        return found

    def require(self, workspace_id: str) -> ConfiguredWorkspace:
        """Return an open workspace. Raises `NotFound` if it is not open."""
        found = self._configured.get(workspace_id)
        if found is None:
            raise NotFound(f"workspace {workspace_id!r} is not open; open its directory first", code="workspace_closed")
        return found

    def get(self, workspace_id: str) -> ConfiguredWorkspace | None:
        return self._configured.get(workspace_id)

    def all(self) -> tuple[ConfiguredWorkspace, ...]:
        return tuple(self._configured.values())

    async def live(self, workspace_id: str) -> OpenWorkspace:
        """Return the live parts of an open workspace, and make them if needed. Raises `NotFound` if it is not open."""
        found = self._live.get(workspace_id)
        if found is not None:
            return found
        self.require(workspace_id)
        await self.load_code()
        from holdfast.tools.registry import ToolRegistry
        from holdfast.workspace.open_workspace import OpenWorkspace

        tools = await asyncio.to_thread(ToolRegistry, self.shared.launcher)
        configured = self.require(workspace_id)  # it may have been closed meanwhile
        if workspace_id not in self._live:
            self._live[workspace_id] = OpenWorkspace(configured, tools)
        return self._live[workspace_id]

    def live_now(self, workspace_id: str) -> OpenWorkspace | None:
        """The live parts of a workspace, if something has used them."""
        return self._live.get(workspace_id)

    @property
    def is_busy(self) -> bool:
        return any(live.is_busy for live in self._live.values())

    async def load_code(self) -> None:
        """Import what runs use, in a thread and once, so that neither a limit nor an upgrade breaks it later."""
        task = self._loading
        if task is None:
            task = self._loading = asyncio.create_task(asyncio.to_thread(self._import_code), name="load code")
        try:
            await asyncio.shield(task)
        except Exception:
            if self._loading is task:  # the next one tries again
                self._loading = None
            raise

    def _import_code(self) -> None:
        with _without_collections():
            for name in _LEFT_OUT:
                import_module(name)
            from holdfast.models import http_model as _models  # noqa: F401 - nearly all runs use it
            from holdfast.tools.registry import import_tools
            from holdfast.tools.search.shipped_programs import link_shipped_programs
            from holdfast.workspace import workspace_turn as _turns  # noqa: F401 - the turns import the rest

            import_tools()
        link_shipped_programs(self.shared.locations.programs_dir)
        self.shared.prepare()

    async def close(self, workspace_id: str) -> tuple[str, ...]:
        """Close one. Returns the names of processes that could not be killed."""
        self._configured.pop(workspace_id, None)
        found = self._live.pop(workspace_id, None)
        return () if found is None else await found.close()

    async def close_all(self) -> None:
        if self._loading is not None:
            await asyncio.wait((self._loading,))
        self._configured.clear()
        live, self._live = self._live, {}
        await asyncio.gather(*(one.close() for one in live.values()))


@contextmanager
def _without_collections() -> Iterator[None]:
    """Leave out of all garbage collections what is made here and lives as long as the process.

    Collections would take a twelfth of the time of the imports. Only a process that did the same with what its start
    made (`gc.freeze`, as `holdfast serve` does) wants this.
    """
    if not gc.isenabled() or not gc.get_freeze_count():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()
