"""One open directory: its configuration, tools, jobs and titles. Nothing of the directory runs before it is trusted."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import NamedTuple

import msgspec

from holdfast.approvals.approver import Approver
from holdfast.approvals.path_location import Places
from holdfast.approvals.rules import read_rules
from holdfast.config import Catalogue, Config, ResolvedModel, Settings, load_config, project_files
from holdfast.errors import BadRequest
from holdfast.models.protocol import Model
from holdfast.models.stall_timeout import Deadlines
from holdfast.schema.events import JobFinished, JobStarted
from holdfast.schema.sessions import Job, Workspace
from holdfast.store import Batch
from holdfast.store.writes import PutJob
from holdfast.tools.jobs import JobTable
from holdfast.tools.registry import ToolRegistry
from holdfast.workspace.context_gatherer import DirectoryContextGatherer
from holdfast.workspace.file_search import FileNames
from holdfast.workspace.session_titles import Titles
from holdfast.workspace.shared_parts import Shared

_FRESH_SECONDS = 1.0


class Setup(msgspec.Struct, frozen=True, kw_only=True):
    """What a run is made with."""

    config: Config
    catalogue: Catalogue
    trusted: bool

    @property
    def settings(self) -> Settings:
        return self.config.settings

    def model(self, name: str | None) -> ResolvedModel:
        """The model of this name, else the configured one. `NoModel` says what to do."""
        return self.catalogue.resolve(name) if name else self.catalogue.large()


class _Known(NamedTuple):
    setup: Setup
    marks: tuple[object, ...]
    looked_at: float


class OpenWorkspace:
    """Live parts of one workspace; closing one never touches another (`W3`)."""

    def __init__(self, workspace: Workspace, shared: Shared, tools: ToolRegistry) -> None:
        self.workspace = workspace
        self.path = Path(workspace.path)
        self.shared = shared
        self.tools = tools
        self.jobs = JobTable(on_change=self._job_changed, now=shared.now)
        self.file_names = FileNames(self.path)
        self.approver = Approver(self._places())
        self._known: _Known | None = None
        self.titles = Titles(shared.store, now=shared.now)

    async def setup(self) -> Setup:
        """The configuration and the models, as they were on disk at most a second ago; read again when changed."""
        known, now = self._known, time.monotonic()
        if known is not None and now - known.looked_at < _FRESH_SECONDS:
            return known.setup
        marks = await asyncio.to_thread(self._marks)
        setup = known.setup if known is not None and known.marks == marks else await self._read_setup()
        if self._known is known:  # nobody said meanwhile that it changed
            self._known = _Known(setup, marks, now)
        return setup

    def forget_setup(self) -> None:
        """The configuration, a key or the trust was changed: the next one to ask reads it anew."""
        self._known = _Known(self._known.setup, (), -_FRESH_SECONDS) if self._known else None

    def _marks(self) -> tuple[object, ...]:
        """What changes when a file does that the setup is made from."""
        locations, env = self.shared.locations, self.shared.env
        named = [Path(env["HOLDFAST_CONFIG"])] if env.get("HOLDFAST_CONFIG") else []
        files = (locations.config_file, locations.secrets_file, locations.trust_file, *named, *project_files(self.path))
        return (self.path.is_dir(), *(_mark(file) for file in files))

    async def _read_setup(self) -> Setup:
        config, trusted = await asyncio.to_thread(self._load)
        stored = await self.shared.keyring.learn(config.settings)
        read_rules(deny=config.settings.approvals.deny, allow=config.settings.approvals.allow)  # say what is wrong now
        catalogue = Catalogue(config.settings, env=self.shared.env, stored=stored)
        return Setup(config=config, catalogue=catalogue, trusted=trusted)

    def _load(self) -> tuple[Config, bool]:
        if not self.path.is_dir():
            raise BadRequest(f"the directory {str(self.path)!r} is gone", code="directory_not_found")
        trust = self.shared.trust.is_trusted
        config = load_config(self.shared.locations, env=self.shared.env, workspace=self.path, trusted=trust)
        return config, trust(self.path)

    def open_model(self, setup: Setup, resolved: ResolvedModel) -> Model:
        limits = setup.settings.limits
        return self.shared.models.open(resolved, deadlines=Deadlines(limits.first_token, limits.between_tokens))

    def surveyor(self, setup: Setup) -> DirectoryContextGatherer:
        return DirectoryContextGatherer(
            self.path, self.shared.locations, trusted=setup.trusted, clock=self.shared.clock
        )

    @property
    def is_busy(self) -> bool:
        """Whether background jobs, or a title that is being looked for, keep it loaded (`W2`)."""
        return bool(self.jobs.running) or self.titles.is_busy

    async def close(self) -> tuple[str, ...]:
        """End its jobs and background work; the names of what would not die."""
        await self.titles.close()
        left = await self.jobs.close()
        await self.tools.close()
        return left

    def _places(self) -> Places:
        locations = self.shared.locations
        own = tuple(str(path) for path in (locations.config_dir, locations.data_dir, locations.state_dir))
        readable = (str(locations.outputs_dir), str(locations.skills_dir))
        return Places(workspace=str(self.path), home=self.shared.env.get("HOME", "/"), own=own, readable=readable)

    async def _job_changed(self, job: Job) -> None:
        kind = JobStarted if job.state == "running" else JobFinished
        event = kind(at=self.shared.now(), session_id=job.session_id, job=job)
        await self.shared.store.commit(Batch((PutJob(job),), (event,)))


def _mark(file: Path) -> tuple[str, int, int, int] | None:
    try:
        found = file.stat()
    except OSError:
        return None
    return str(file), found.st_ino, found.st_mtime_ns, found.st_size
