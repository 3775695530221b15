"""The hooks of one open workspace: which are active, running them side by side, and how they did last.

Hooks of a project, hooks of Claude Code and hooks that name a file of the directory are active only in a trusted
directory. Hooks of a project and those that name its files run confined like the agent's commands, because the agent
may have written what they run. In a directory that is not trusted, the user's own hooks run in the home directory,
where they find no program and no setting of the project.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import os
import time
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from holdfast.config import Config, Settings
from holdfast.config.claude_files import claude_settings_files
from holdfast.errors import HoldfastError, ToolError
from holdfast.extend.hooks.claude_dialect import claude_inputs, claude_names, read_claude_answer
from holdfast.extend.hooks.claude_settings import ClaudeHooks, UnmappedHook, read_claude_hooks
from holdfast.extend.hooks.hook_answers import AnsweredHook, HookAnswer, combine, read_answer
from holdfast.extend.hooks.hook_definitions import (
    Hook,
    HookSubject,
    concerns,
    configured_hooks,
    describe,
    matched_names,
    variables_of,
)
from holdfast.extend.hooks.hook_process import run_hook_command
from holdfast.files import read_limited
from holdfast.schema.base import encode
from holdfast.schema.extensions import ExtensionStatus
from holdfast.schema.hooks import NO_VERDICT, HookEvent, HookRecord, HookVerdict, describe_hook
from holdfast.tools.process.command_process import CommandLauncher, CommandSpec
from holdfast.tools.process.sandbox import ConfinedCommand
from holdfast.tools.process.sandbox_limits import (
    SandboxLimits,
    cache_directories,
    extra_directories,
    sandbox_limits,
)

_MAX_SETTINGS = 1 << 20
_MAX_PARALLEL = 8
_NOT_TRUSTED = "not used: this directory is not trusted; 'holdfast trust' changes that"

_log = logging.getLogger(__name__)


class HookSurroundings(msgspec.Struct, frozen=True, kw_only=True):
    """With what the hooks of one run are started."""

    settings: Settings
    environment: Mapping[str, str]
    """The environment of commands, without provider keys."""
    temporary: Path
    hidden: tuple[Path, ...] = ()
    visible: tuple[Path, ...] = ()


class _ActiveHook(NamedTuple):
    hook: Hook
    is_confined: bool
    directory: Path


class WorkspaceHooks:
    """Implements `ExtensionProvider`. One per open workspace that has hooks."""

    def __init__(
        self,
        directory: Path,
        *,
        home: Path | None,
        launcher: CommandLauncher,
        announce: Callable[[ExtensionStatus], Awaitable[None]],
    ) -> None:
        """``home``: where the user's settings of Claude Code are. ``announce`` tells clients a changed state."""
        self._directory = directory
        self._home = home
        self._launcher = launcher
        self._announce = announce
        self._active: tuple[_ActiveHook, ...] = ()
        self._inactive: tuple[ExtensionStatus, ...] = ()
        self._last: dict[str, HookRecord] = {}
        self._known: tuple[Mapping[Any, Any], bool] | None = None
        self._numbers = itertools.count(1)
        self._slots = asyncio.Semaphore(_MAX_PARALLEL)
        self._refreshing = asyncio.Lock()
        self._started_sessions: set[str] = set()
        self.programs: tuple[str, ...] = ()
        """Files of the directory that hooks run. Writing one always needs approval."""

    async def refresh(self, config: Config, *, trusted: bool) -> None:
        """A run that begins meanwhile waits: it must not begin without the hooks that are being read."""
        async with self._refreshing:
            known = self._known
            if known is None or known[0] is not config.origins or known[1] != trusted:  # the files were read again
                await asyncio.to_thread(self._load, config, trusted=trusted)
                self._known = (config.origins, trusted)

    def statuses(self) -> list[ExtensionStatus]:
        return [*(self._status(one.hook) for one in self._active), *self._inactive]

    async def close(self) -> None:
        """Hooks belong to runs and end with them."""

    @property
    def has_any(self) -> bool:
        return bool(self._active)

    def listens(self, event: HookEvent) -> bool:
        return any(event in one.hook.events for one in self._active)

    def has_started(self, session_id: str) -> bool:
        """Whether the hooks of the session's start have run in this server."""
        return session_id in self._started_sessions

    def mark_started(self, session_id: str) -> None:
        self._started_sessions.add(session_id)

    async def run(
        self,
        event: HookEvent,
        fields: Mapping[str, Any],
        surroundings: HookSurroundings,
        *,
        is_subagent: bool,
        records: list[HookRecord] | None = None,
    ) -> HookVerdict:
        """Run the hooks that an event concerns, in parallel, and join their answers.

        ``records`` gets each hook that ends, also if the others are cancelled, and those that are.
        """
        subject = HookSubject(
            event=event,
            tool=str(fields.get("tool", "")),
            names=claude_names(event, fields),
            is_subagent=is_subagent,
            failed=fields.get("status", "ok") != "ok",
        )
        chosen = [one for one in self._active if concerns(one.hook, subject)]
        if not chosen:
            return NO_VERDICT
        async with asyncio.TaskGroup() as group:
            tasks = [
                group.create_task(
                    self._run_hook(one, event, fields, subject, surroundings, records), name=f"hook:{one.hook.name}"
                )
                for one in chosen
            ]
        verdict = combine(event, [answered for task in tasks for answered in task.result()])
        for record in verdict.records:
            await self._remember(record)
        return verdict

    async def _run_hook(
        self,
        active: _ActiveHook,
        event: HookEvent,
        fields: Mapping[str, Any],
        subject: HookSubject,
        surroundings: HookSurroundings,
        records: list[HookRecord] | None,
    ) -> list[AnsweredHook]:
        hook, workspace = active.hook, str(self._directory)
        if hook.dialect == "claude":
            name = next(iter(matched_names(hook, subject)), "")
            inputs = claude_inputs(hook, fields, name=name, workspace=workspace)
        else:
            inputs = [{"hook": hook.name, **fields}]
        answered: list[AnsweredHook] = []
        began = time.monotonic()
        try:
            for given in inputs:
                async with self._slots:
                    answered.append(await self._execute(active, event, given, fields, surroundings))
                if answered[-1].answer.decision == "deny":
                    break
        except asyncio.CancelledError:
            if records is not None:
                records.append(HookRecord(hook.name, event, "ok", time.monotonic() - began, "ended with the wait"))
            raise
        if records is not None:
            records.extend(combine(event, answered).records)
        return answered

    async def _execute(
        self,
        active: _ActiveHook,
        event: HookEvent,
        given: Mapping[str, Any],
        fields: Mapping[str, Any],
        surroundings: HookSurroundings,
    ) -> AnsweredHook:
        hook = active.hook
        try:
            confined = await self._confine(active, surroundings)
            temporary = {} if confined is None else {"TMPDIR": str(surroundings.temporary)}
            variables = variables_of(hook, fields, workspace=str(self._directory))
            found = confined or ConfinedCommand(hook.argv)
            command = CommandSpec(
                found.argv,
                active.directory,
                {**surroundings.environment, **temporary, **variables},
                mark=f"hook-{fields.get('run_id', '')}-{next(self._numbers)}",
                confinement=found.confinement,
                piped=True,
            )
            result = await run_hook_command(self._launcher, command, given=encode(given), seconds=hook.timeout)
            if hook.dialect == "claude":
                answer = read_claude_answer(event, result, tool=str(fields.get("tool", "")))
            else:
                answer = read_answer(event, result)
        except ToolError as error:
            return AnsweredHook(hook, HookAnswer(failure=error.message), 0.0)
        except Exception as error:  # noqa: BLE001 - a bug here must not end the run
            _log.exception("hook %s failed", hook.name)
            return AnsweredHook(hook, HookAnswer(failure=f"an unexpected {type(error).__name__}"), 0.0)
        if answer.failure:
            _log.warning("hook %s (%s) failed: %s", hook.name, event, answer.failure)
        return AnsweredHook(hook, answer, result.seconds)

    async def _confine(self, active: _ActiveHook, surroundings: HookSurroundings) -> ConfinedCommand | None:
        """Return how to run a hook confined; ``None`` if nothing confines it."""
        if not active.is_confined:
            return None
        sandbox = self._launcher.sandbox
        backend = await sandbox.backend(surroundings.settings.server.sandbox)
        if backend is None:
            return None
        limits = await asyncio.to_thread(self._limits, surroundings)
        return await asyncio.to_thread(
            sandbox.confine, active.hook.argv, limits, backend=backend, directory=self._directory
        )

    def _limits(self, surroundings: HookSurroundings) -> SandboxLimits:
        server = surroundings.settings.server
        surroundings.temporary.mkdir(mode=0o700, parents=True, exist_ok=True)
        caches = cache_directories(surroundings.environment) if server.sandbox_caches else ()
        return sandbox_limits(
            self._directory,
            writes_workspace=server.sandbox != "read-only",
            temporary=surroundings.temporary,
            hidden=surroundings.hidden,
            visible=surroundings.visible,
            extra=(*extra_directories(server.sandbox_writable), *caches),
            network=server.sandbox_network == "allow",
        )

    def _load(self, config: Config, *, trusted: bool) -> None:
        """Find the hooks. Blocking."""
        active: list[_ActiveHook] = []
        inactive: list[ExtensionStatus] = []
        programs: dict[str, None] = {}
        mapped = self._read_claude() if config.settings.tools.claude_hooks else ClaudeHooks()
        for hook in (*configured_hooks(config, home=str(self._home or "")), *mapped.hooks):
            own_files = _files_in(self._directory, hook)
            if not trusted and (own_files or hook.dialect == "claude" or hook.origin == "project"):
                inactive.append(_status(hook, "disabled", _NOT_TRUSTED))
                continue
            programs |= dict.fromkeys(path for path in own_files if os.path.isfile(path))
            is_confined = hook.origin == "project" or (bool(own_files) and hook.origin != "policy")
            directory = self._directory if trusted else self._home or Path("/")
            active.append(_ActiveHook(hook, is_confined, directory))
        for name, hook_settings in config.settings.hooks.items():
            if not hook_settings.enabled:
                inactive.append(ExtensionStatus("hook", name, "disabled", "turned off in the configuration"))
        inactive += [_unmapped(one) for one in mapped.unmapped]
        self._active, self._inactive, self.programs = tuple(active), tuple(inactive), tuple(programs)
        self._last = {name: record for name, record in self._last.items() if name in {one.hook.name for one in active}}

    def _read_claude(self) -> ClaudeHooks:
        hooks: list[Hook] = []
        unmapped: list[UnmappedHook] = []
        for path in claude_settings_files(self._directory, self._home):
            is_user = self._home is not None and path == self._home / ".claude" / "settings.json"
            try:
                data = read_limited(path, limit=_MAX_SETTINGS)
            except FileNotFoundError:
                continue
            except OSError as error:
                unmapped.append(UnmappedHook(f"claude {path}", f"the file cannot be read: {error.strerror or error}"))
                continue
            found = read_claude_hooks(data, path=path, origin="user" if is_user else "project")
            hooks += found.hooks
            unmapped += found.unmapped
        return ClaudeHooks(tuple(hooks), tuple(unmapped))

    def _status(self, hook: Hook) -> ExtensionStatus:
        last = self._last.get(hook.name)
        if last is None:
            return _status(hook, "ready", describe(hook))
        state = "failed" if last.outcome == "failed" else "ready"
        return _status(hook, state, f"{describe(hook)}; last: {describe_hook(last)}")

    async def _remember(self, record: HookRecord) -> None:
        """Keep the last result. Clients are told when a hook begins or ceases to fail."""
        before = self._last.get(record.name)
        self._last[record.name] = record
        if (before is not None and before.outcome == "failed") != (record.outcome == "failed"):
            for one in self._active:
                if one.hook.name == record.name:
                    await self._tell(self._status(one.hook))

    async def _tell(self, status: ExtensionStatus) -> None:
        """A state that cannot be told, for example because the disk is full, does not disturb the run."""
        try:
            await self._announce(status)
        except HoldfastError as error:
            _log.warning("the state of hook %s could not be told: %s", status.name, error)


def _status(hook: Hook, state: Any, detail: str) -> ExtensionStatus:
    return ExtensionStatus("hook", hook.name, state, detail, hook.source)


def _unmapped(one: UnmappedHook) -> ExtensionStatus:
    return ExtensionStatus("hook", one.name, "disabled", f"not used: {one.why}", "Claude Code's settings")


def _files_in(directory: Path, hook: Hook) -> tuple[str, ...]:
    """The files and directories of the workspace that a hook's command names."""
    root = os.path.realpath(directory)
    found = []
    for word in hook.words():
        word = word.replace("${CLAUDE_PROJECT_DIR}", root).replace("$CLAUDE_PROJECT_DIR", root)
        if not word or word.startswith("-") or "\0" in word:
            continue
        path = os.path.realpath(os.path.join(root, os.path.expanduser(word)))
        if path.startswith(f"{root}{os.sep}") and os.path.exists(path):
            found.append(path)
    return tuple(found)
