"""Records what the agent's commands change, so that it can be undone.

Before a command starts, the tree is looked at, and the content of every file that changed since the last look is
stored. After it, the tree is looked at again, and each difference is recorded. A file that changed in between may have
been changed by the command or by a person, so undo asks before it restores such a file.

The mark of the command is stored before it starts. If the server dies, the next use of the workspace looks at the tree
again and records what changed since.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Collection, Iterable
from pathlib import Path
from typing import Literal, Protocol

from msgspec.structs import replace

from holdfast.errors import HoldfastError
from holdfast.ids import Prefix
from holdfast.schema.events import FileChanged
from holdfast.store.records import FileSnapshot
from holdfast.store.writes import Batch, Committed, PutSnapshot
from holdfast.tools.files.file_access import display_path
from holdfast.tools.files.file_changes import diff_contents
from holdfast.workspace.undo.blob_store import BlobStore
from holdfast.workspace.undo.file_state import FileState, is_unstored, link_target
from holdfast.workspace.undo.shadow_store import CommandMark
from holdfast.workspace.undo.state_reader import KnownFiles, read_state
from holdfast.workspace.undo.tree_scan import TreeChange, TreeLimits, TreeScanner, TreeTooLarge, compose_changes

_MAX_KNOWN = 500
"""How many files outside of the tree are covered for one command."""
_MAX_DIFFS = 50
_MAX_DIFF_BYTES = 256 * 1024
_TOO_LARGE_SECONDS = 60.0
"""How long a tree that is too large is not counted again."""

_log = logging.getLogger(__name__)


class ChangeStore(Protocol):
    """The part of `Store` that this module uses."""

    async def commit(self, batch: Batch) -> Committed: ...

    async def read_hashes(self, session_id: str) -> tuple[tuple[str, str], ...]: ...

    async def snapshots(self, session_id: str, *, path: str | None = None) -> tuple[FileSnapshot, ...]: ...


class _RunningCommand:
    """A command between its two looks at the tree."""

    def __init__(self, mark: CommandMark, directories: frozenset[str]) -> None:
        self.mark = mark
        self.directories = directories
        self.written: dict[str, set[str | None]] = {}
        """What Holdfast's own tools wrote meanwhile: contents by path."""


class CommandSnapshots:
    """The commands of one workspace. Commands of several sessions may run at the same time."""

    def __init__(
        self,
        root: Path,
        store: ChangeStore,
        blobs: BlobStore,
        *,
        workspace_id: str,
        new_id: Callable[[Prefix], str],
        now: Callable[[], str],
        redact: Callable[[str], str],
        excluded: tuple[Path, ...] = (),
    ) -> None:
        """``excluded`` are directories that are not covered."""
        self._excluded = excluded
        self._known = KnownFiles(blobs.shadow.put_contents)
        self._root = root
        self._store = store
        self._blobs = blobs
        self._shadow = blobs.shadow
        self._workspace_id = workspace_id
        self._new_id = new_id
        self._now = now
        self._redact = redact
        self._looking = asyncio.Lock()
        self._tree: TreeScanner | None = None
        self._limits: TreeLimits | None = None
        self._running: dict[str, _RunningCommand] = {}
        self._too_large_since: float | None = None
        self._recovered = False

    async def begin(self, *, session_id: str, run_id: str, call_id: str, limits: TreeLimits) -> None:
        """Store the tree as it is before a command."""
        mark = CommandMark(call_id=call_id, session_id=session_id, run_id=run_id, started_at=self._now())
        async with self._looking:
            await self._recover(limits)
            paths = [path for path, _ in await self._store.read_hashes(session_id)]
            try:
                running = await asyncio.to_thread(self._begin, mark, paths, limits)
            except (HoldfastError, OSError) as error:
                _log.warning("no snapshot before call %s: %s", call_id, error)
                reason = error.message if isinstance(error, HoldfastError) else str(error.strerror)
                running = _RunningCommand(replace(mark, note=f"no snapshot could be stored: {reason}"), frozenset())
            self._running[call_id] = running

    async def end(self, call_id: str) -> tuple[str, ...]:
        """Record what changed since `begin`. Returns the changed files, relative to the workspace if inside."""
        async with self._looking:
            running = self._running[call_id]
            try:
                changes = await asyncio.to_thread(self._look_again, running)
                if changes:
                    await self._record(running, changes)
                    await asyncio.to_thread(self._forget_mark, running.mark)
            except BaseException:
                self._recovered = False  # its mark is stored; the next use tries again
                raise
            finally:
                del self._running[call_id]
            return tuple(display_path(Path(path), self._root) for path in changes)

    async def close(self) -> None:
        """Stop watching the directory."""
        async with self._looking:
            if self._tree is not None:
                await asyncio.to_thread(self._tree.close)
                self._tree = None

    async def recover(self, limits: TreeLimits) -> None:
        """Record the changes of commands that ran when a server died."""
        if not self._recovered:
            async with self._looking:
                await self._recover(limits)

    def note_write(self, path: Path, content: str | None) -> None:
        """One of Holdfast's tools wrote a file, so it is not a change of a command that runs meanwhile."""
        for running in self._running.values():
            running.written.setdefault(str(path), set()).add(content)

    async def _recover(self, limits: TreeLimits) -> None:
        if self._recovered:
            return
        self._limits = self._limits or limits
        marks = await asyncio.to_thread(self._left_marks)
        for mark in marks:
            if mark.call_id in self._running:
                continue
            running = _RunningCommand(mark, frozenset())
            self._running[mark.call_id] = running
            try:
                changes = await asyncio.to_thread(self._look_again, running)
                recorded = {record.path for record in await self._records_of(mark)}
                await self._record(running, {path: change for path, change in changes.items() if path not in recorded})
                await asyncio.to_thread(self._forget_mark, running.mark)
            finally:
                del self._running[mark.call_id]
        self._recovered = True

    def _left_marks(self) -> tuple[CommandMark, ...]:
        try:
            return self._shadow.read_marks(self._workspace_id)
        except HoldfastError as error:
            _log.warning("commands of a previous server are unknown: %s", error)
            return ()

    async def _records_of(self, mark: CommandMark) -> list[FileSnapshot]:
        records = await self._store.snapshots(mark.session_id)
        return [record for record in records if record.call_id == mark.call_id]

    def _begin(self, mark: CommandMark, paths: Collection[str], limits: TreeLimits) -> _RunningCommand:
        tree = self._scan(limits)
        uncovered = [path for path in paths if tree is None or not tree.covers(display_path(Path(path), self._root))]
        states = self._known.read(uncovered[:_MAX_KNOWN])
        known = {path: (state.content, state.mode) for path, state in states.items()}
        note = ""
        if tree is None:
            note = (
                f"the directory has more than {limits.names:,} files (undo.max_files), so only the files that the "
                "session had read or written are covered for commands"
            )
        mark = replace(mark, known=known, note=note)
        last = self._shadow.save(self._workspace_id, {}, mark=mark)
        return _RunningCommand(replace(mark, version=last), tree.directories if tree else frozenset())

    def _scan(self, limits: TreeLimits) -> TreeScanner | None:
        """Look at the tree and store what is new. None: it is too large."""
        if self._too_large_since is not None:
            if time.monotonic() - self._too_large_since < _TOO_LARGE_SECONDS:
                return None
            self._too_large_since = None
        tree = self._tree
        if tree is None or limits != self._limits:
            tree = TreeScanner(self._root, limits, store=self._shadow.put_contents, excluded=self._excluded)
            tree.load(self._shadow.read_tree(self._workspace_id)[0])
        self._tree, self._limits = None, limits  # the tree is incomplete if this raises
        try:
            changes, files = tree.scan()
        except TreeTooLarge:
            self._too_large_since = time.monotonic()
            self._shadow.forget_tree(self._workspace_id)
            return None
        if files:
            self._shadow.save(self._workspace_id, files, changes=changes if self._running else ())
        self._tree = tree
        return tree

    def _look_again(self, running: _RunningCommand) -> dict[str, TreeChange]:
        """Return what changed while a command ran, by absolute path."""
        mark = running.mark
        changes: dict[str, TreeChange] = {}
        try:
            if self._too_large_since is None:
                assert self._limits is not None
                self._scan(self._limits)
            found = self._shadow.read_changes(self._workspace_id, after=mark.version)
            changes = {str(self._root / path): change for path, change in compose_changes(found).items()}
            for path, after in self._known.read(mark.known).items():
                before = FileState(*mark.known[path])
                if before != after:
                    changes[path] = TreeChange(path, before, after)
        except (HoldfastError, OSError) as error:
            _log.warning("no snapshot after call %s: %s", mark.call_id, error)
            running.mark = replace(mark, note=f"the files could not be compared after the command: {error}")
        changes = {
            path: change
            for path, change in changes.items()
            if change.after.content not in running.written.get(path, ())
        }
        if not changes:
            self._forget_mark(running.mark)
        return changes

    def _forget_mark(self, mark: CommandMark) -> None:
        try:
            self._shadow.remove_mark(self._workspace_id, mark)
        except HoldfastError as error:
            _log.warning("the end of call %s could not be stored: %s", mark.call_id, error)

    async def _record(self, running: _RunningCommand, changes: dict[str, TreeChange]) -> None:
        if not changes:
            return
        now = self._now()
        details = await asyncio.to_thread(self._details, running, changes)
        records, events = [], []
        for path, change in changes.items():
            made, removed, diff = details[path]
            records.append(
                FileSnapshot(
                    id=self._new_id("snp"),
                    session_id=running.mark.session_id,
                    run_id=running.mark.run_id,
                    path=path,
                    before=change.before.content,
                    after=change.after.content,
                    call_id=running.mark.call_id,
                    mode=change.before.mode,
                    created_at=now,
                    by="command",
                    mode_after=change.after.mode,
                    parents_made=made,
                    parents_removed=removed,
                )
            )
            events.append(FileChanged(now, running.mark.session_id, running.mark.run_id, path, _kind(change), diff))
        await self._store.commit(Batch(tuple(PutSnapshot(record) for record in records), tuple(events)))

    def _parent_counts(
        self, path: str, change: TreeChange, before: frozenset[str], after: frozenset[str]
    ) -> tuple[int, int]:
        """Return how many directories above a file were made and removed with it."""
        relative = display_path(Path(path), self._root)
        if not before or not after or relative == path:
            return 0, 0
        made = _missing_parents(relative, before) if change.before.content is None else 0
        removed = _missing_parents(relative, after) if change.after.content is None else 0
        return made, removed

    def _details(self, running: _RunningCommand, changes: dict[str, TreeChange]) -> dict[str, tuple[int, int, str]]:
        """Return for each file how many directories were made and removed with it, and its diff."""
        directories = self._tree.directories if self._tree else frozenset()
        found = {}
        for number, (path, change) in enumerate(changes.items()):
            counts = self._parent_counts(path, change, running.directories, directories)
            found[path] = (*counts, self._diff(path, change) if number < _MAX_DIFFS else "")
        return found

    def _diff(self, path: str, change: TreeChange) -> str:
        try:
            text = diff_states(self._blobs, display_path(Path(path), self._root), change.before, change.after)
        except HoldfastError:
            return ""
        return self._redact(text)


class CallCommands:
    """The `CommandWatch` of one tool call."""

    def __init__(
        self, snapshots: CommandSnapshots, *, session_id: str, run_id: str, call_id: str, limits: TreeLimits
    ) -> None:
        self._snapshots = snapshots
        self._session_id = session_id
        self._run_id = run_id
        self._call_id = call_id
        self._limits = limits

    async def begin(self) -> None:
        await self._snapshots.begin(
            session_id=self._session_id, run_id=self._run_id, call_id=self._call_id, limits=self._limits
        )

    async def end(self) -> tuple[str, ...]:
        return await self._snapshots.end(self._call_id)


def diff_states(blobs: BlobStore, name: str, before: FileState, after: FileState, *, path: Path | None = None) -> str:
    """Return the difference of two states as a diff; empty if a content is not stored. Blocking.

    If the content of ``path`` is one of the two, it need not be stored.
    """
    lines = ""
    if before.mode != after.mode and None not in (before.mode, after.mode):
        lines = f"mode {before.mode:04o} → {after.mode:04o}\n"
    if before.content == after.content:
        return f"--- {name}\n+++ {name}\n{lines}"
    if is_unstored(before.content) or is_unstored(after.content):
        return f"--- {name}\n+++ {name}\n{lines}the content is too large to be stored\n"
    try:
        old, new = (_text_of(blobs, state.content, path) for state in (before, after))
    except _NotStored:
        return ""
    if max(len(old or b""), len(new or b"")) > _MAX_DIFF_BYTES:
        return f"--- {name}\n+++ {name}\n{lines}the content is too large for a diff\n"
    return diff_contents(name, old, new).text + lines


class _NotStored(Exception):
    """A content is not stored."""


def _text_of(blobs: BlobStore, content: str | None, path: Path | None) -> bytes | None:
    if content is None:
        return None
    target = link_target(content)
    if target is not None:
        return f"symlink to {target}\n".encode()
    data = blobs.get(content)
    if data is None and path is not None:
        state, present = read_state(path)
        data = present if state.content == content else None
    if data is None:
        raise _NotStored
    return data


def _missing_parents(relative: str, directories: Collection[str]) -> int:
    return sum(parent not in directories for parent in _parents(relative))


def _parents(relative: str) -> Iterable[str]:
    while "/" in relative:
        relative = relative.rpartition("/")[0]
        yield relative


def _kind(change: TreeChange) -> Literal["created", "modified", "deleted"]:
    if change.before.content is None:
        return "created"
    return "deleted" if change.after.content is None else "modified"
