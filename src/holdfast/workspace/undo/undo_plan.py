"""Decides how to undo and redo file changes: which file gets which content, and which is skipped and why. Pure.

A record says that the agent changed a file from one content to another. Undo goes through the records of a file, newest
first. It undoes a record only if the file has the content that this change left; the file then has the content before
the change, and the next older record follows. If the content differs, the user or another session changed the file
meanwhile, and undo stops there.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import takewhile
from typing import Literal, TypeAlias, assert_never

from holdfast.schema.base import Value
from holdfast.store.records import FileSnapshot

SkipReason = Literal["changed", "later", "unreadable", "moved", "not_kept", "raced"]
"""Why a file is not touched. ``changed``: it was changed since. ``later``: a later run of the session changed it too.
``unreadable``: it is not a readable file. ``moved``: the path resolves to another one. ``not_kept``: the content to
restore is not stored. ``raced``: it was changed during the restore."""

NOT_COVERED = "Undo does not cover files written by shell commands."


class Restore(Value, frozen=True):
    """Give a file a content that it had before."""

    path: str
    now: str | None
    """The hash of the content it must still have; None if there must be no file."""
    to: str | None
    """The hash of the content to restore; None to remove the file."""
    records: tuple[str, ...]
    mode: int | None = None
    """Permission bits, if the file must be created."""
    stopped: str = ""
    """Why only some of the changes are undone; empty if all are."""


class Settled(Value, frozen=True):
    """The file already has the wanted content. Only the records change."""

    path: str
    records: tuple[str, ...]


class Skipped(Value, frozen=True):
    """The file is not touched."""

    path: str
    why: SkipReason
    message: str


Step: TypeAlias = Restore | Settled | Skipped


def plan_undo(
    records: Iterable[FileSnapshot], runs: Collection[str], now: Mapping[str, str | None]
) -> tuple[Step, ...]:
    """Plan to undo the changes of these runs. ``now`` has the hash of the present content of each file."""
    return _plan(records, runs, now, undo=True)


def plan_redo(
    records: Iterable[FileSnapshot], runs: Collection[str], now: Mapping[str, str | None]
) -> tuple[Step, ...]:
    """Plan to apply the undone changes of these runs again."""
    return _plan(records, runs, now, undo=False)


def affected_paths(records: Iterable[FileSnapshot], runs: Collection[str], *, undo: bool) -> tuple[str, ...]:
    """Return the files whose present content `plan_undo` or `plan_redo` needs."""
    return tuple(chain.path for chain in _chains(records, runs, undo=undo))


def effective_snapshots(records: Iterable[FileSnapshot]) -> list[FileSnapshot]:
    """Return the records in order, without announced writes that did not happen.

    The call of such a write has a second record that reverses the first. The contents alone do not show this: another
    program may have written the announced content.
    """
    ordered = sorted(records, key=lambda record: record.seq)
    ends: dict[tuple[str, str], tuple[str | None, str | None]] = {}
    for record in ordered:
        first = ends.get((record.call_id, record.path), (record.before, None))[0]
        ends[record.call_id, record.path] = first, record.after
    return [record for record in ordered if not record.call_id or len(set(ends[record.call_id, record.path])) == 2]


class PastRun(Value, frozen=True):
    """A run of the session that wrote files, or undid or redid changes."""

    seq: int
    run_id: str
    kind: Literal["wrote", "undo", "redo"]
    since: int | None = None
    """The first `seq` that an undo covers. None: it covers the last run that wrote."""


def redo_stack(past: Iterable[PastRun]) -> list[tuple[str, ...]]:
    """Return the runs of each undo that can be redone, the last undo last. A run that writes clears the stack."""
    applied: list[PastRun] = []
    undone: list[tuple[PastRun, ...]] = []
    for run in sorted(past, key=lambda run: run.seq):
        match run.kind:
            case "wrote":
                applied.append(run)
                undone.clear()
            case "undo":
                if run.since is None:
                    covered = applied[-1:]
                else:
                    covered = [writer for writer in applied if writer.seq >= run.since]
                applied = [writer for writer in applied if writer not in covered]
                if covered:
                    undone.append(tuple(covered))
            case "redo":
                if undone:
                    applied.extend(undone.pop())
            case _:
                assert_never(run.kind)
    return [tuple(run.run_id for run in runs) for runs in undone]


class _Chain(Value, frozen=True):
    """The records of one file to undo or redo, in the order of doing so."""

    path: str
    records: tuple[FileSnapshot, ...]
    blocked: bool
    """Some of the wanted records come after a record that is not wanted."""


def _chains(records: Iterable[FileSnapshot], runs: Collection[str], *, undo: bool) -> list[_Chain]:
    """Group the wanted records by file.

    Changes are undone from the last one, and redone from the first undone one. A change that was undone before a later
    change is not redone, because this would overwrite the later change.
    """
    by_path: dict[str, list[FileSnapshot]] = {}
    for record in effective_snapshots(records):
        by_path.setdefault(record.path, []).append(record)
    state = "applied" if undo else "undone"
    chains = []
    for path, changes in by_path.items():
        wanted = sum(record.run_id in runs and record.state == state for record in changes)
        within = tuple(takewhile(lambda record: record.run_id in runs, _candidates(changes, undo=undo)))
        if wanted:
            chains.append(_Chain(path, within, blocked=len(within) < wanted))
    return chains


def _candidates(changes: Sequence[FileSnapshot], *, undo: bool) -> Iterable[FileSnapshot]:
    """Return the records that can be undone, newest first, or redone, oldest first."""
    if undo:
        return (record for record in reversed(changes) if record.state == "applied")
    tail = list(takewhile(lambda record: record.state == "undone", reversed(changes)))
    return reversed(tail)


def _plan(
    records: Iterable[FileSnapshot], runs: Collection[str], now: Mapping[str, str | None], *, undo: bool
) -> tuple[Step, ...]:
    return tuple(_plan_file(chain, now[chain.path], undo=undo) for chain in _chains(records, runs, undo=undo))


def _plan_file(chain: _Chain, now: str | None, *, undo: bool) -> Step:
    content = now
    passed: list[FileSnapshot] = []
    for record in chain.records:
        source, target = (record.after, record.before) if undo else (record.before, record.after)
        if content == source:
            content = target
        elif content != target:  # equal: a crash prevented this change, or it is already reversed
            break
        passed.append(record)
    broken = len(passed) < len(chain.records)
    stopped = ""
    if broken:
        stopped = _changed_message(chain.path, undo=undo)
    elif chain.blocked:
        stopped = _later_message(chain.path, undo=undo)
    ids = tuple(record.id for record in passed)
    if not passed:
        return Skipped(chain.path, "changed" if broken else "later", stopped)
    if content == now:
        return Settled(chain.path, ids)
    return Restore(chain.path, now, content, ids, passed[-1].mode, stopped)


def _changed_message(path: str, *, undo: bool) -> str:
    return f"{path!r} was changed after the {'agent wrote it' if undo else 'undo'}; that change was kept"


def _later_message(path: str, *, undo: bool) -> str:
    if undo:
        return f"{path!r} was changed by a later run as well; undo that one first"
    return f"{path!r} was changed by the agent after the undo; the undone change stays undone"
