"""What undo does not cover in the runs of a session: background jobs, and commands without a whole snapshot."""

from __future__ import annotations

import asyncio

from holdfast.workspace.shared_parts import SharedParts
from holdfast.workspace.undo.undo_runs import UndoRuns


async def coverage_notes(shared: SharedParts, session_id: str) -> dict[str, tuple[str, ...]]:
    """Return notes by run of the session. Those of sub-agents belong to the run that started them."""
    runs = UndoRuns(shared.store, session_id)
    sessions = (session_id, *await shared.store.descendants(session_id))
    workspace_id = (await shared.store.session(session_id)).workspace_id
    notes: dict[str, dict[str, None]] = {}
    for member in sessions:
        for run_id, gaps in (await asyncio.to_thread(shared.blobs.shadow.gaps, member)).items():
            notes.setdefault(await runs.run_here(run_id), {}).update(
                dict.fromkeys(f"Not covered: {gap}." for gap in gaps)
            )
    for job in (await shared.store.jobs(workspace_id=workspace_id)).items:
        if job.session_id in sessions:
            note = f"Not covered: what the background job {job.id} ({job.command}) changed after it was put there."
            notes.setdefault(await runs.run_here(job.run_id), {})[note] = None
    return {run_id: tuple(found) for run_id, found in notes.items()}
