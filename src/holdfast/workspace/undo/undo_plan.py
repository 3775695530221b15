"""Undo and redo as decisions over records: which file goes back to what, and which is not touched, and why. Pure.

A record says: the agent changed this file from one content to another. Going back, newest first, a record can be undone
only if the file is exactly what that change left; then the file is what the change found, and the next older record
comes. Where the chain breaks, a person or another session wrote in between: there it stops. So nobody's bytes are lost,
however changes of people and agents follow each other.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import takewhile
from typing import Literal, TypeAlias, assert_never

from holdfast.schema.base import Value
from holdfast.store.records import FileSnapshot

Why = Literal["changed", "later", "unreadable", "moved", "not_kept", "raced"]
"""Why a file was not touched: changed since; changed by a later run of the session too; no readable file is there; the
path leads elsewhere; the content to put there is not kept; somebody wrote in the very moment."""

NOT_COVERED = "What shell commands wrote is not covered by undo."


class Restore(Value, frozen=True):
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


class Settled(Value, frozen=True):
    """A file that is already as it should be; only the records change."""

    path: str
    records: tuple[str, ...]


class Kept(Value, frozen=True):
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
    return tuple(chain.path for chain in _chains(records, runs, undo=undo))


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


class Took(Value, frozen=True):
    """One run of a session's past that has to do with files."""

    seq: int
    run_id: str
    kind: Literal["wrote", "undo", "redo"]
    since: int | None = None
    """Of an undo: everything from this number on; ``None``: the last run that wrote."""


def redo_stack(past: Iterable[Took]) -> list[tuple[str, ...]]:
    """What undos took back and a redo can bring again, the last undo last. A run that writes ends it."""
    applied: list[Took] = []
    undone: list[tuple[Took, ...]] = []
    for took in sorted(past, key=lambda took: took.seq):
        match took.kind:
            case "wrote":
                applied.append(took)
                undone.clear()
            case "undo":
                taken = [run for run in applied if took.since is not None and run.seq >= took.since]
                taken = taken if took.since is not None else applied[-1:]
                applied = [run for run in applied if run not in taken]
                if taken:
                    undone.append(tuple(taken))
            case "redo":
                if undone:
                    applied.extend(undone.pop())
            case _:
                assert_never(took.kind)
    return [tuple(run.run_id for run in runs) for runs in undone]


class _Chain(Value, frozen=True):
    """The records of one file to go through, in the order of going."""

    path: str
    records: tuple[FileSnapshot, ...]
    blocked: bool
    """Some that were asked for lie behind one that was not."""


def _chains(records: Iterable[FileSnapshot], runs: Collection[str], *, undo: bool) -> list[_Chain]:
    """Changes of a file are taken back from the last one, and brought back from the first that was taken back.

    What was undone before a later change is history: bringing it back would pass over that change.
    """
    by_path: dict[str, list[FileSnapshot]] = {}
    for record in effective(records):
        by_path.setdefault(record.path, []).append(record)
    state = "applied" if undo else "undone"
    chains = []
    for path, changes in by_path.items():
        wanted = sum(record.run_id in runs and record.state == state for record in changes)
        within = tuple(takewhile(lambda record: record.run_id in runs, _line(changes, undo=undo)))
        if wanted:
            chains.append(_Chain(path, within, blocked=len(within) < wanted))
    return chains


def _line(changes: Sequence[FileSnapshot], *, undo: bool) -> Iterable[FileSnapshot]:
    """What can be taken back, newest first; or what can be brought back, oldest first."""
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
        left, found = (record.after, record.before) if undo else (record.before, record.after)
        if content == left:
            content = found
        elif content != found:  # equal: a crash cut this change off, or somebody took it back already
            break
        passed.append(record)
    broken = len(passed) < len(chain.records)
    stopped = _somebody(chain.path, undo=undo) if broken else _later(chain.path, undo=undo) if chain.blocked else ""
    ids = tuple(record.id for record in passed)
    if not passed:
        return Kept(chain.path, "changed" if broken else "later", stopped)
    if content == now:
        return Settled(chain.path, ids)
    return Restore(chain.path, now, content, ids, passed[-1].mode, stopped)


def _somebody(path: str, *, undo: bool) -> str:
    what = "the agent left it so" if undo else "the undo left it so"
    return f"{path!r} was changed by somebody since {what}; that change was kept"


def _later(path: str, *, undo: bool) -> str:
    if undo:
        return f"{path!r} was changed by a later run as well; undo that one first"
    return f"{path!r} was changed by the agent again since; what was undone before that stays undone"
