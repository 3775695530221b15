"""Undo and redo as decisions over records: which file goes back to what, and which is not touched, and why. Pure.

A record says: the agent changed this file from one content to another. Going back, newest first, a record can be undone
only if the file is exactly what that change left; then the file is what the change found, and the next older record
comes. Where the chain breaks, a person or another session wrote in between: there it stops. So nobody's bytes are lost,
however changes of people and agents follow each other.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Literal, TypeAlias

from holdfast.schema.base import Word
from holdfast.store.records import FileSnapshot

Why = Literal["changed", "unreadable", "moved", "not_kept", "raced"]
"""Why a file was not touched: changed since; no readable file is there; the path leads elsewhere; the content to put
there is not kept; somebody wrote in the very moment."""

NOT_COVERED = "What shell commands wrote is not covered by undo."


class Restore(Word, frozen=True):
    """Give a file back a content it had; None means: no file."""

    path: str
    now: str | None
    """The content it must have until then."""
    to: str | None
    records: tuple[str, ...]
    mode: int | None = None
    """Permission bits, if the file has to be made anew."""
    stopped: str = ""
    """Why it does not go all the way; empty if it does."""


class Settled(Word, frozen=True):
    """A file that is already as it should be; only the records change."""

    path: str
    records: tuple[str, ...]


class Kept(Word, frozen=True):
    """A file that is not touched."""

    path: str
    why: Why
    message: str


Step: TypeAlias = Restore | Settled | Kept


def plan_undo(
    records: Iterable[FileSnapshot], runs: Collection[str], now: Mapping[str, str | None]
) -> tuple[Step, ...]:
    """What to do so that the changes of these runs are undone, given each file's present content."""
    return _plan(records, runs, now, undo=True)


def plan_redo(
    records: Iterable[FileSnapshot], runs: Collection[str], now: Mapping[str, str | None]
) -> tuple[Step, ...]:
    """The same forwards: what these runs changed, and what was undone, is done again."""
    return _plan(records, runs, now, undo=False)


def paths_of(records: Iterable[FileSnapshot], runs: Collection[str], *, undo: bool) -> tuple[str, ...]:
    """The files whose present content `plan_undo` or `plan_redo` needs to know."""
    return tuple(_by_path(records, runs, undo=undo))


def effective(records: Iterable[FileSnapshot]) -> list[FileSnapshot]:
    """In order, without announced writes that did not happen: their call has a second record that goes straight back.

    Looking at contents alone would not do: somebody else may have written the very content that was announced.
    """
    ordered = sorted(records, key=lambda record: record.seq)
    ends: dict[tuple[str, str], tuple[str | None, str | None]] = {}
    for record in ordered:
        first = ends.get((record.call_id, record.path), (record.before, None))[0]
        ends[record.call_id, record.path] = first, record.after
    return [record for record in ordered if not record.call_id or len(set(ends[record.call_id, record.path])) == 2]


def last_undoable(records: Sequence[FileSnapshot]) -> str | None:
    """The run whose changes an undo without a target takes back."""
    applied = [record for record in effective(records) if record.state == "applied"]
    return applied[-1].run_id if applied else None


def first_redoable(records: Sequence[FileSnapshot]) -> str | None:
    """The run that a redo without a target brings back: the oldest undone one, unless a run wrote after the undo."""
    written = effective(records)
    order = list(dict.fromkeys(record.run_id for record in written))
    undone = {record.run_id for record in written if record.state == "undone"}
    candidate = None
    for run_id in reversed(order):
        if run_id not in undone:
            break
        candidate = run_id
    return candidate


def _by_path(records: Iterable[FileSnapshot], runs: Collection[str], *, undo: bool) -> dict[str, list[FileSnapshot]]:
    """The records to go through, in the order of going, by file."""
    state = "applied" if undo else "undone"
    chosen = [record for record in effective(records) if record.run_id in runs and record.state == state]
    paths: dict[str, list[FileSnapshot]] = {}
    for record in reversed(chosen) if undo else chosen:
        paths.setdefault(record.path, []).append(record)
    return paths


def _plan(
    records: Iterable[FileSnapshot], runs: Collection[str], now: Mapping[str, str | None], *, undo: bool
) -> tuple[Step, ...]:
    return tuple(
        _plan_file(path, chain, now[path], undo=undo)
        for path, chain in _by_path(records, runs, undo=undo).items()
        if path in now
    )


def _plan_file(path: str, chain: Sequence[FileSnapshot], now: str | None, *, undo: bool) -> Step:
    content = now
    passed: list[FileSnapshot] = []
    for record in chain:
        left, found = (record.after, record.before) if undo else (record.before, record.after)
        if content == left:
            content = found
        elif content != found:  # equal: a crash cut this change off, or somebody took it back already
            break
        passed.append(record)
    stopped = _stopped(chain[len(passed)], undo=undo) if len(passed) < len(chain) else ""
    ids = tuple(record.id for record in passed)
    if not passed:
        return Kept(path, "changed", stopped)
    if content == now:
        return Settled(path, ids)
    return Restore(path, now, content, ids, passed[-1].mode, stopped)


def _stopped(record: FileSnapshot, *, undo: bool) -> str:
    what = "the agent left it so" if undo else "the undo left it so"
    return f"{record.path!r} was changed by somebody since {what}; that change was kept"
