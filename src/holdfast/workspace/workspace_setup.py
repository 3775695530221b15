"""The setup of an open workspace: its configuration, its models and its secrets. It is all that accepts a prompt."""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from msgspec.structs import replace

from holdfast.config import (
    Catalogue,
    Config,
    Redactor,
    ResolvedModel,
    Secret,
    Settings,
    load_config,
    project_files,
)
from holdfast.config.claude_files import claude_settings_files
from holdfast.config.env_files import (
    find_deep_env_files,
    find_env_files,
    is_env_file,
    may_show_env_files,
    read_env_secrets,
)
from holdfast.config.settings import AgentSettings
from holdfast.errors import BadRequest, Conflict, HoldfastError, NoModel, PolicyDenied
from holdfast.schema.approvals import Subject
from holdfast.schema.client_variables import OWN_VARIABLES, SHELL_VARIABLES
from holdfast.schema.sessions import Workspace
from holdfast.workspace.shared_parts import SharedParts

if TYPE_CHECKING:
    from holdfast.extend.agent_files import AgentFile

_ENV_SEARCH_SECONDS = 10.0
"""How long the list of a workspace's ``.env`` files is used. The files themselves are checked with the setup."""
_MAX_NAMED_ENV_FILES = 512
_SETUP_MAX_AGE = 1.0
"""Seconds for which a setup is used without looking at its files."""


class Setup(msgspec.Struct, frozen=True, kw_only=True):
    """The configuration of a workspace, its models, and whether it is trusted."""

    config: Config
    catalogue: Catalogue
    trusted: bool
    has_claude_files: bool = False
    """Whether there are settings files of Claude Code, which may have hooks."""

    @property
    def settings(self) -> Settings:
        return self.config.settings

    def model(self, name: str | None) -> ResolvedModel:
        """Return the model with this name, or the configured one. Raises `NoModel`."""
        return self.catalogue.resolve(name) if name else self.catalogue.large()

    def with_agents(self, files: Iterable[AgentFile]) -> Setup:
        """The setup with the agents in files besides the configured ones, which come first."""
        found = {file.name: self._usable(file.settings) for file in files}
        if not found:
            return self
        settings = replace(self.settings, agents=found | self.settings.agents)
        return replace(self, config=replace(self.config, settings=settings))

    def _usable(self, agent: AgentSettings) -> AgentSettings:
        """Files of other agents name models that may not be there; the model of the run is used then."""
        return agent if agent.model is None or self.has_model(agent.model) else replace(agent, model=None)

    def has_model(self, name: str) -> bool:
        """Whether a model can be used, so that a file of another agent may name one that is not there."""
        try:
            self.catalogue.resolve(name)
        except (NoModel, PolicyDenied):
            return False
        return True

    @property
    def variables(self) -> tuple[str, ...]:
        """The variables that runs take from the shell of their client."""
        return (*OWN_VARIABLES, *SHELL_VARIABLES, *self.settings.tools.variables)

    def of_shell(self, variables: Mapping[str, str] | None) -> Setup:
        """The setup for a run that was sent from a shell with these variables."""
        own = {name: value.strip() for name, value in (variables or {}).items() if name in OWN_VARIABLES}
        large, small = own.get("HOLDFAST_MODEL"), own.get("HOLDFAST_SMALL_MODEL")
        if not large and not small:
            return self
        models = self.settings.models
        models = replace(models, large=large or models.large, small=small or models.small)
        config = replace(self.config, settings=replace(self.settings, models=models))
        return replace(self, config=config, catalogue=self.catalogue.with_settings(config.settings))


class _CachedSetup(msgspec.Struct, frozen=True):
    setup: Setup
    file_stamps: tuple[object, ...]
    checked_at: float


class _CachedMasks(msgspec.Struct, frozen=True):
    known: Redactor
    """The redactor of the keyring from which this one was made."""
    secrets: frozenset[Secret]
    redactor: Redactor


class _EnvFiles:
    """The secrets in the ``.env`` files of a workspace. Files are read again if they changed.

    Threads wait for each other: what one is looking for, the other may be about to show.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._lock = threading.Lock()
        self._files: tuple[Path, ...] = ()
        self._searched_at = -_ENV_SEARCH_SECONDS
        self._stamps: tuple[object, ...] | None = None
        self._secrets: frozenset[Secret] = frozenset()
        self._named: dict[Path, None] = {}
        self._searched_deep_at = -_ENV_SEARCH_SECONDS

    def add(self, files: tuple[Path, ...], *, deep: bool) -> frozenset[Secret]:
        """Count these files as well, and with ``deep`` those at any depth; return all secrets. Blocking."""
        with self._lock:
            now = time.monotonic()
            if deep and now - self._searched_deep_at >= _ENV_SEARCH_SECONDS:
                files = (*files, *find_deep_env_files(self._directory))
                self._searched_deep_at = now
            self._named |= dict.fromkeys(files)
            for file in list(self._named)[:-_MAX_NAMED_ENV_FILES]:
                del self._named[file]
            return self._read()

    def read(self) -> frozenset[Secret]:
        """Return the same object as long as nothing changed. Blocking."""
        with self._lock:
            return self._read()

    def _read(self) -> frozenset[Secret]:
        now = time.monotonic()
        if now - self._searched_at >= _ENV_SEARCH_SECONDS:
            self._files, self._searched_at = find_env_files(self._directory), now
        files = tuple(dict.fromkeys((*self._files, *self._named)))
        stamps = tuple((file, _file_stamp(file)) for file in files)
        if stamps != self._stamps:
            self._secrets, self._stamps = read_env_secrets(files), stamps
        return self._secrets


class ConfiguredWorkspace:
    """An open workspace whose directory and configuration can be read. Its other parts are those of `OpenWorkspace`."""

    def __init__(self, workspace: Workspace, shared: SharedParts) -> None:
        self.workspace = workspace
        self.path = Path(workspace.path)
        self.shared = shared
        home = shared.env.get("HOME")
        self._claude_files = claude_settings_files(self.path, Path(home) if home else None)
        self._cached: _CachedSetup | None = None
        self._checking = asyncio.Lock()
        self._masks: _CachedMasks | None = None
        self._env_files = _EnvFiles(self.path)

    @property
    def redactor(self) -> Redactor:
        """Removes what tools must not show: every known secret, and by default keys and secrets of other owners."""
        known = self.shared.keyring.redactor
        masks = self._masks
        if masks is None:
            return known
        if masks.known is not known:
            masks = self._masks = _CachedMasks(known, masks.secrets, self.shared.keyring.with_masks(masks.secrets))
        return masks.redactor

    def redact(self, text: str) -> str:
        return self.redactor.redact(text)

    async def setup(self) -> Setup:
        """Return the setup as it was on disk at most a second ago. It is read again only if a file changed."""
        if (recent := self._recent_setup()) is not None:
            return recent
        async with self._checking:  # of many callers at once, one looks at the files
            if (recent := self._recent_setup()) is not None:
                return recent
            setup = await self._check_setup(time.monotonic())
            await self._read_masks(setup.settings)
            return setup

    def _recent_setup(self) -> Setup | None:
        cached = self._cached
        if cached is None or time.monotonic() - cached.checked_at >= _SETUP_MAX_AGE:
            return None
        return cached.setup

    async def _check_setup(self, now: float) -> Setup:
        cached = self._cached
        stamps = await asyncio.to_thread(self._file_stamps)
        setup = cached.setup if cached is not None and cached.file_stamps == stamps else await self._read_setup()
        if self._cached is cached:  # `forget_setup` was not called meanwhile
            self._cached = _CachedSetup(setup, stamps, now)
        return setup

    async def client_variables(self) -> tuple[str, ...]:
        """The variables that clients send with prompts; the usual ones while the configuration is invalid."""
        try:
            # A prompt that follows looks at the files itself, and masks what is secret then.
            return (await self._check_setup(-_SETUP_MAX_AGE)).variables
        except HoldfastError:
            return (*OWN_VARIABLES, *SHELL_VARIABLES)

    def refuse_other_config(self, variables: Mapping[str, str] | None) -> None:
        """Raise `Conflict` if the shell of a client names another configuration than the server was started with."""
        named, ours = (variables or {}).get("HOLDFAST_CONFIG"), self.shared.env.get("HOLDFAST_CONFIG")
        if named and (not ours or Path(named) != Path(ours)):
            started = f"with HOLDFAST_CONFIG={ours}" if ours else "without it"
            raise Conflict(
                f"HOLDFAST_CONFIG is {named!r} in this shell, but the server was started {started}; "
                "stop the server, then send the prompt again",
                code="other_config",
                detail={"server": ours, "client": named},
            )

    async def _read_masks(self, settings: Settings) -> None:
        if not settings.tools.mask_secrets:
            self._masks = None
            return
        self._use_masks(await asyncio.to_thread(self._env_files.read))

    async def mask_files_of(self, subject: Subject) -> None:
        """Mask the secrets in ``.env`` files that a call may show, also if they are deep in the workspace."""
        if self._masks is None:
            return
        named = tuple(Path(path) for path in subject.paths if is_env_file(os.path.basename(path)))
        searches = subject.tool == "grep" or (subject.command is not None and may_show_env_files(subject.command))
        if named or searches:
            self._use_masks(await asyncio.to_thread(self._env_files.add, named, deep=searches))

    def _use_masks(self, secrets: frozenset[Secret]) -> None:
        if self._masks is None or self._masks.secrets is not secrets:
            keyring = self.shared.keyring
            self._masks = _CachedMasks(keyring.redactor, secrets, keyring.with_masks(secrets))

    def forget_setup(self) -> None:
        """Read the setup again when it is next needed: the configuration, a key or the trust changed."""
        self._cached = _CachedSetup(self._cached.setup, (), -_SETUP_MAX_AGE) if self._cached else None

    def _file_stamps(self) -> tuple[object, ...]:
        """Identify the state of every file that the setup is read from."""
        locations, env = self.shared.locations, self.shared.env
        named = [Path(env["HOLDFAST_CONFIG"])] if env.get("HOLDFAST_CONFIG") else []
        own = (locations.config_file, locations.secrets_file, locations.trust_file, self.shared.policy_file.path)
        files = (*own, *named, *project_files(self.path), *self._claude_files)
        return (self.path.is_dir(), *(_file_stamp(file) for file in files))

    async def _read_setup(self) -> Setup:
        config, trusted, has_claude_files = await asyncio.to_thread(self._load_config)
        stored = await self.shared.keyring.learn(config.settings)
        catalogue = Catalogue(config.settings, env=self.shared.env, stored=stored, policy=config.policy)
        return Setup(config=config, catalogue=catalogue, trusted=trusted, has_claude_files=has_claude_files)

    def _load_config(self) -> tuple[Config, bool, bool]:
        if not self.path.is_dir():
            raise BadRequest(f"the directory {str(self.path)!r} does not exist", code="directory_not_found")
        trust = self.shared.trust.is_trusted
        policy = self.shared.policy_file.read()
        config = load_config(
            self.shared.locations, env=self.shared.env, workspace=self.path, trusted=trust, policy=policy
        )
        if (rules := config.settings.approvals).deny or rules.allow:
            from holdfast.approvals.rules import parse_rules

            parse_rules(deny=rules.deny, allow=rules.allow)  # report an invalid rule now, not at the first call
        return config, trust(self.path), any(os.path.lexists(file) for file in self._claude_files)


def _file_stamp(file: Path) -> tuple[str, int, int, int] | None:
    try:
        found = file.stat()
    except OSError:
        return None
    return str(file), found.st_ino, found.st_mtime_ns, found.st_size
