"""Maintenance for all workspaces of a server: marks lost jobs at the start, and removes old files once an hour."""

from __future__ import annotations

import asyncio
import logging
import os
from collections import deque
from collections.abc import Collection, Coroutine
from contextlib import suppress
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from holdfast.errors import CommitRefused, HoldfastError
from holdfast.schema.events import JobFinished
from holdfast.schema.sessions import Job
from holdfast.store import Batch
from holdfast.store.writes import PutJob
from holdfast.workspace.shared_parts import SharedParts

_INTERVAL_SECONDS = 3600.0
_CONTENT_SECONDS = 86_400.0
"""The minimum age of a file content that is removed because no snapshot refers to it."""
_OUTPUT_SECONDS = 30 * 86_400.0
"""How long the whole output of a call is kept. Its beginning and end stay in the session."""
_TEMPORARY_SECONDS = 7 * 86_400.0
"""How long the temporary files of a session are kept after its last command created one."""
_STORE_SECONDS = 10.0
_RETRY_SECONDS = 1.0
"""Between attempts to mark lost jobs on a full disk."""

_log = logging.getLogger(__name__)


async def mark_lost_jobs(shared: SharedParts, *, workspace_id: str | None = None) -> None:
    """Mark the jobs of a previous server as lost, in one workspace or in all: they ended with it."""
    await _mark_lost(shared, deque((await shared.store.jobs(workspace_id=workspace_id, running=True)).items))


async def mark_lost_jobs_or_retry(shared: SharedParts) -> Coroutine[Any, Any, None] | None:
    """Mark the jobs of a previous server as lost. If the disk is full, return the work that retries it."""
    lost = deque((await shared.store.jobs(running=True)).items)
    try:
        await _mark_lost(shared, lost)
    except CommitRefused as error:
        _log.warning("the background jobs of the previous server cannot be marked as lost yet: %s", error)
        return _retry_lost(shared, lost)
    return None


async def _retry_lost(shared: SharedParts, lost: deque[Job]) -> None:
    while lost:
        await asyncio.sleep(_RETRY_SECONDS)
        with suppress(CommitRefused):
            await _mark_lost(shared, lost)


async def _mark_lost(shared: SharedParts, lost: deque[Job]) -> None:
    """Mark and remove one job after the other."""
    now, count = shared.now(), len(lost)
    while lost:
        ended = replace(lost[0], state="lost", finished_at=now)
        await shared.store.commit(Batch((PutJob(ended),), (JobFinished(now, ended.session_id, ended),)))
        lost.popleft()
    if count:
        _log.info("%d background jobs were lost with the previous server", count)


async def remove_old_files(shared: SharedParts) -> None:
    """Remove old file contents and outputs once an hour until cancelled. An error is logged and tried again later."""
    while True:
        try:
            contents, outputs = await remove_old_files_now(shared)
        except (HoldfastError, OSError, TimeoutError) as error:
            _log.warning("old files could not be removed: %s", error)
        else:
            if contents or outputs:
                _log.info("removed %d old file contents and %d old outputs", contents, outputs)
        await asyncio.sleep(_INTERVAL_SECONDS)


async def remove_old_files_now(shared: SharedParts) -> tuple[int, int]:
    """Remove what has been kept long enough. Returns how many file contents and outputs."""
    return await _remove_old_contents(shared), await asyncio.to_thread(_remove_old_outputs, shared)


def size_of_files(shared: SharedParts) -> int:
    """Bytes of the stored file contents, outputs and temporary files. Blocks."""
    locations = shared.locations
    directories = (locations.snapshots_dir, locations.outputs_dir, locations.temporary_dir)
    return sum(_size(path) for directory in directories for path in _files(directory))


def _size(path: Path) -> int:
    try:
        return path.lstat().st_size
    except FileNotFoundError:
        return 0


async def _remove_old_contents(shared: SharedParts) -> int:
    """Remove contents that no snapshot refers to. The thread queries the store through the event loop."""
    loop = asyncio.get_running_loop()

    def referenced(names: Collection[str]) -> Collection[str]:
        query = asyncio.run_coroutine_threadsafe(shared.store.known_contents(names), loop)
        return query.result(_STORE_SECONDS)

    return await asyncio.to_thread(shared.blobs.sweep, referenced, before=shared.clock() - _CONTENT_SECONDS)


def _remove_old_outputs(shared: SharedParts) -> int:
    before = shared.clock() - _OUTPUT_SECONDS
    old = [path for path in _files(shared.locations.outputs_dir) if path.lstat().st_mtime < before]
    for path in old:
        path.unlink(missing_ok=True)
    for directory in _directories(shared.locations.outputs_dir):
        with suppress(OSError):  # it is not empty
            directory.rmdir()
    before = shared.clock() - _TEMPORARY_SECONDS
    for directory in _directories(shared.locations.temporary_dir):
        if directory.lstat().st_mtime < before:
            import shutil  # not above: it takes half a megabyte, and few starts need it

            shutil.rmtree(directory, ignore_errors=True)
    return len(old)


def _files(directory: Path) -> list[Path]:
    return [Path(path) / name for path, _, names in os.walk(directory) for name in names]


def _directories(directory: Path) -> list[Path]:
    return [path for path in directory.iterdir() if not path.is_symlink()] if directory.is_dir() else []
