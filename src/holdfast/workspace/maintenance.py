"""What a server does at its start and now and then, for all workspaces: lost jobs are named, old leftovers go."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection
from pathlib import Path

from msgspec.structs import replace

from holdfast.errors import HoldfastError
from holdfast.schema.events import JobFinished
from holdfast.store import Batch
from holdfast.store.writes import PutJob
from holdfast.workspace.shared_parts import Shared

EVERY_SECONDS = 3600.0
CONTENTS_SECONDS = 86_400.0
"""How long a file's old content is kept at least, whether a snapshot needs it or not."""
OUTPUTS_SECONDS = 30 * 86_400.0
"""How long the whole output of a call is kept; its beginning and end stay in the session."""
_ANSWER_SECONDS = 10.0

_log = logging.getLogger(__name__)


async def name_lost_jobs(shared: Shared) -> None:
    """Jobs of a server that is gone ended with it; say so, so that nobody waits for them."""
    lost = (await shared.store.jobs(running=True)).items
    now = shared.now()
    for job in lost:
        ended = replace(job, state="lost", finished_at=now)
        await shared.store.commit(Batch((PutJob(ended),), (JobFinished(now, job.session_id, ended),)))
    if lost:
        _log.info("%d background jobs were lost with the server before", len(lost))


async def sweep_leftovers(shared: Shared, *, sleep: Callable[[float], Awaitable[object]] = asyncio.sleep) -> None:
    """Now and then, for ever; its owner cancels it. What cannot be removed now is tried again later."""
    while True:
        try:
            contents = await _sweep_contents(shared)
            outputs = await asyncio.to_thread(_sweep_outputs, shared)
        except (HoldfastError, OSError, TimeoutError) as error:
            _log.warning("old leftovers could not be removed: %s", error)
        else:
            if contents or outputs:
                _log.info("removed %d file contents and %d outputs that were old enough", contents, outputs)
        await sleep(EVERY_SECONDS)


async def _sweep_contents(shared: Shared) -> int:
    """Those that no snapshot needs any more. The thread asks the ledger through the loop."""
    loop = asyncio.get_running_loop()

    def needed(names: Collection[str]) -> Collection[str]:
        asked = asyncio.run_coroutine_threadsafe(shared.store.known_contents(names), loop)
        return asked.result(_ANSWER_SECONDS)

    return await asyncio.to_thread(shared.blobs.sweep, needed, before=shared.clock() - CONTENTS_SECONDS)


def _sweep_outputs(shared: Shared) -> int:
    before = shared.clock() - OUTPUTS_SECONDS
    old = [path for path in _files(shared.locations.outputs_dir) if path.stat().st_mtime < before]
    for path in old:
        path.unlink(missing_ok=True)
    return len(old)


def _files(directory: Path) -> list[Path]:
    return [path for path in directory.iterdir() if path.is_file()] if directory.is_dir() else []
