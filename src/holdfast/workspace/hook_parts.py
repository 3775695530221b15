"""The hooks of an open workspace as its other parts use them. Nothing is imported or read while none is configured."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.config import Config
from holdfast.config.claude_files import claude_settings_files
from holdfast.ids import Prefix
from holdfast.locations import Locations
from holdfast.schema.extensions import ExtensionStatus
from holdfast.schema.runs import Mode, Run
from holdfast.store import Store
from holdfast.tools.process.command_process import CommandLauncher, command_environment
from holdfast.tools.search.shipped_programs import with_shipped_programs

if TYPE_CHECKING:
    from holdfast.extend.hooks.workspace_hooks import WorkspaceHooks
    from holdfast.workspace.run_hooks import EndHooks, RunHooks


class HookParts:
    """Makes the hooks of a workspace when the first one is configured, and those of each run."""

    def __init__(
        self,
        directory: Path,
        *,
        store: Store,
        launcher: CommandLauncher,
        locations: Locations,
        home: str | None,
        redact: Callable[[str], str],
        announce: Callable[[ExtensionStatus], Awaitable[None]],
        new_id: Callable[[Prefix], str],
        now: Callable[[], str],
    ) -> None:
        self._new_id = new_id
        self._now = now
        self._directory = directory
        self._store = store
        self._launcher = launcher
        self._locations = locations
        self._home = Path(home) if home else None
        self._redact = redact
        self._announce = announce
        self._hooks: WorkspaceHooks | None = None
        self._end_hooks: EndHooks | None = None

    @property
    def claude_files(self) -> tuple[Path, ...]:
        """The settings files of Claude Code that may have hooks."""
        return claude_settings_files(self._directory, self._home)

    @property
    def programs(self) -> tuple[str, ...]:
        """Files of the workspace that hooks run."""
        return self._hooks.programs if self._hooks is not None else ()

    @property
    def is_busy(self) -> bool:
        return self._end_hooks is not None and self._end_hooks.is_busy

    async def refresh(self, config: Config, *, trusted: bool, has_claude_files: bool) -> WorkspaceHooks | None:
        """Follow the configuration. None as long as no hook was ever configured."""
        if self._hooks is None:
            if not config.settings.hooks and not has_claude_files:
                return None
            from holdfast.extend.hooks.workspace_hooks import WorkspaceHooks
            from holdfast.workspace.run_hooks import EndHooks

            self._hooks = WorkspaceHooks(
                self._directory, home=self._home, launcher=self._launcher, announce=self._announce
            )
            self._end_hooks = EndHooks(self._store, new_id=self._new_id, now=self._now)
        await self._hooks.refresh(config, trusted=trusted)
        return self._hooks

    async def of_run(
        self,
        run: Run,
        config: Config,
        *,
        trusted: bool,
        has_claude_files: bool,
        mode: Mode,
        environment: Mapping[str, str],
        root_session_id: str,
    ) -> RunHooks | None:
        """Return the hooks of a run; None if there are none. ``environment``: of its commands, with keys."""
        hooks = await self.refresh(config, trusted=trusted, has_claude_files=has_claude_files)
        if hooks is None or not hooks.has_any:
            return None
        from holdfast.extend.hooks.workspace_hooks import HookSurroundings
        from holdfast.workspace.run_hooks import RunHooks

        locations, settings = self._locations, config.settings
        surroundings = HookSurroundings(
            settings=settings,
            environment=with_shipped_programs(command_environment(environment, settings), locations.programs_dir),
            temporary=locations.session_temporary(root_session_id),
            hidden=locations.own_directories,
            visible=(locations.skills_dir, locations.programs_dir, locations.session_outputs(root_session_id)),
        )
        found = RunHooks(hooks, surroundings, run, mode=mode, workspace=self._directory, redact=self._redact)
        if self._end_hooks is not None and run.parent_run_id is None and run.kind == "prompt":
            self._end_hooks.expect(found)
        return found

    def statuses(self) -> list[ExtensionStatus]:
        return self._hooks.statuses() if self._hooks is not None else []

    async def close(self) -> None:
        if self._end_hooks is not None:
            await self._end_hooks.close()
