"""What the commit that started a run says about it. Pure."""

from __future__ import annotations

from msgspec import UNSET
from msgspec.structs import replace

from holdfast.agent.protocol import StartRecord
from holdfast.schema.runs import Run
from holdfast.store import Batch, Committed
from holdfast.store.writes import InsertRun, PutMessage, PutSession


def start_record(run: Run, batch: Batch, committed: Committed) -> StartRecord:
    """Nothing is known of a run that was accepted before, or that works in the environment of its parent."""
    inserted = next((write for write in batch.writes if isinstance(write, InsertRun) and write.run.id == run.id), None)
    if inserted is None:
        return StartRecord()
    begins_session = any(isinstance(write, PutSession) for write in batch.writes)
    is_known = run.parent_run_id is None and (begins_session or inserted.environment is not None)
    messages = (write.message for write in batch.writes if isinstance(write, PutMessage))
    return StartRecord(
        variables=inserted.environment if is_known else UNSET,
        messages=tuple(replace(one, seq=committed.seqs[one.id]) for one in messages) if begins_session else None,
    )
