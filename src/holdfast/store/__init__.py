"""The ledger: every change of state is a row, and the event that tells it is written in the same transaction.

`Store` is the role; `open_store` gives the SQLite one. Writing is one call with data, `Store.commit(Batch(…))`: it
returns when the batch is on the disk, or raises and nothing of it happened. Batches that wait are committed together,
yet one that conflicts does not hurt the others. Event numbers are given in commit order inside the transaction, and
listeners are told on the loop in that order, exactly once, before the commit's caller goes on.

All SQL lives here. The ledger knows states, not rules: which change is allowed when is the lane's to decide; here a
condition only closes races (`StoreConflict`).
"""

from __future__ import annotations

from holdfast.store.protocol import CommitListener, LogPage, Store
from holdfast.store.records import CallOutput, FileSnapshot, LaneRecord, LaneRow, Page, RunRecord, StoredResponse
from holdfast.store.sqlite import SqliteStore, open_store
from holdfast.store.writes import Batch, Committed, LoggedEvent, apply_run_write

__all__ = [
    "Batch",
    "CallOutput",
    "CommitListener",
    "Committed",
    "FileSnapshot",
    "LaneRecord",
    "LaneRow",
    "LogPage",
    "LoggedEvent",
    "Page",
    "RunRecord",
    "SqliteStore",
    "Store",
    "StoredResponse",
    "apply_run_write",
    "open_store",
]
