"""What all workspaces of one server share."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from holdfast.approvals.pending import Approvals
from holdfast.config import Keyring, TrustStore
from holdfast.events import Hub
from holdfast.ids import Clock, Ids, rfc3339
from holdfast.locations import Locations
from holdfast.models.model_factory import ModelFactory
from holdfast.store import Store
from holdfast.workspace.undo.blob_store import Blobs


class Shared(msgspec.Struct, frozen=True, kw_only=True):
    store: Store
    hub: Hub
    approvals: Approvals
    keyring: Keyring
    models: ModelFactory
    trust: TrustStore
    blobs: Blobs
    locations: Locations
    env: Mapping[str, str]
    ids: Ids
    clock: Clock

    def now(self) -> str:
        return rfc3339(self.clock())

    def redact(self, text: str) -> str:
        """Without any secret that is known by now."""
        return self.keyring.redactor.redact(text)
