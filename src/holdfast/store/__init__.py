"""The store: every change of state is a row, and its event is written in the same transaction.

`Store` is the interface; `open_store` opens the SQLite implementation. `Store.commit` takes a `Batch` of writes and
events and returns when it is durable, or raises and changes nothing. Batches that wait are committed together, but a
conflict in one does not affect the others. Only the text of open messages is written without a commit
(`Store.append_draft`). Events get their numbers in commit order inside the transaction, and
listeners are called on the event loop in that order, once, before `commit` returns. All SQL is in this package. It does
not know which change is allowed when: the lane decides that, and conditions here only close races (`StoreConflict`).
"""

from __future__ import annotations

from holdfast.store.pending_work import OutcomeLookUp
from holdfast.store.protocol import CommitListener, Store
from holdfast.store.records import (
    AuditFilter,
    CallOutput,
    CommittedEvent,
    FileSnapshot,
    LaneRecord,
    LaneRow,
    LoggedEvent,
    LogPage,
    OwnedKind,
    Page,
    RunRecord,
    StoredResponse,
    TokenRecord,
)
from holdfast.store.sqlite import SqliteStore, open_store
from holdfast.store.writes import Batch, Committed, apply_run_write

__all__ = [
    "AuditFilter",
    "Batch",
    "CallOutput",
    "CommitListener",
    "Committed",
    "CommittedEvent",
    "FileSnapshot",
    "LaneRecord",
    "LaneRow",
    "LogPage",
    "LoggedEvent",
    "OutcomeLookUp",
    "OwnedKind",
    "Page",
    "RunRecord",
    "SqliteStore",
    "Store",
    "StoredResponse",
    "TokenRecord",
    "apply_run_write",
    "open_store",
]
