"""What all workspaces of one server share."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING

from holdfast.approvals.pending_approvals import PendingApprovals
from holdfast.config import Keyring, PolicyFile, TrustStore
from holdfast.events import Hub
from holdfast.extend.client_calls import ClientCalls
from holdfast.ids import Clock, Ids, rfc3339
from holdfast.locations import Locations
from holdfast.store import Store
from holdfast.tasks import CallThreads

if TYPE_CHECKING:
    from holdfast.models.model_factory import ModelFactory
    from holdfast.tools.process.command_process import CommandLauncher
    from holdfast.workspace.undo.blob_store import BlobStore


_FILE_THREADS = 8
"""So many turns may wait for directories that do not answer before others wait with them."""


class SharedParts:
    """What only runs need is made at its first use, and its code is imported then: a prompt is accepted without it.

    `prepare` makes it in a thread, before something on the event loop uses it.
    """

    def __init__(
        self,
        *,
        store: Store,
        hub: Hub,
        approvals: PendingApprovals,
        client_calls: ClientCalls,
        keyring: Keyring,
        trust: TrustStore,
        policy_file: PolicyFile,
        locations: Locations,
        env: Mapping[str, str],
        ids: Ids,
        clock: Clock,
        make_models: Callable[[], ModelFactory],
    ) -> None:
        self.store = store
        self.hub = hub
        self.approvals = approvals
        self.client_calls = client_calls
        self.keyring = keyring
        self.trust = trust
        self.policy_file = policy_file
        self.locations = locations
        self.env = env
        self.ids = ids
        self.clock = clock
        self._make_models = make_models
        self.file_threads = CallThreads(_FILE_THREADS, name="files")
        """They read the files of directories when turns begin."""

    @cached_property
    def models(self) -> ModelFactory:
        return self._make_models()

    @cached_property
    def blobs(self) -> BlobStore:
        from holdfast.workspace.undo.blob_store import BlobStore

        return BlobStore(self.locations.snapshots_dir)

    @cached_property
    def launcher(self) -> CommandLauncher:
        """Starts the agent's commands."""
        from holdfast.tools.process.command_process import CommandLauncher

        return CommandLauncher()

    @cached_property
    def person_launcher(self) -> CommandLauncher:
        """Starts a person's own commands, which may use the server."""
        from holdfast.tools.process.command_process import CommandLauncher

        return CommandLauncher()

    @property
    def may_have_started_commands(self) -> bool:
        return "launcher" in self.__dict__

    def prepare(self) -> None:
        """Make everything. Blocks, because it imports modules."""
        _ = self.models, self.blobs, self.launcher, self.person_launcher

    async def close(self) -> None:
        """Close what was made."""
        self.file_threads.end()
        made = self.__dict__
        for name in ("person_launcher", "launcher"):
            if name in made:
                await made[name].close()
        if "blobs" in made:
            await asyncio.to_thread(self.blobs.close)
        if "models" in made:
            await self.models.aclose()

    def now(self) -> str:
        return rfc3339(self.clock())

    def redact(self, text: str) -> str:
        """Remove every secret that is known so far."""
        return self.keyring.redactor.redact(text)
