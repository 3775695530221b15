"""Decides how to undo and redo file changes: which file gets which content, and which is skipped and why. Pure.

A record says that the agent changed a file from one content to another. Undo goes through the records of a file, newest
first. It undoes a record only if the file has the content that this change left; the file then has the content before
the change, and the next older record follows. If the content differs, the user or another session changed the file
meanwhile, and undo stops there. It also stops at a change that was found after a command, unless that is confirmed: the
change may be the user's.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import takewhile
from types import MappingProxyType
from typing import Literal, TypeAlias, assert_never

from holdfast.schema.base import Value
from holdfast.store.records import FileSnapshot
from holdfast.workspace.undo.file_state import is_unstored

SkipReason = Literal["changed", "later", "unreadable", "moved", "not_kept", "raced", "unconfirmed"]
"""Why a file is not touched. ``changed``: it was changed since. ``later``: a later run of the session changed it too.
``unreadable``: it is not a readable file. ``moved``: the path resolves to another one. ``not_kept``: the content to
restore is not stored. ``raced``: it was changed during the restore. ``unconfirmed``: it changed while a command ran,
and that it may be restored is not confirmed."""

NOT_COVERED = "Undo does not cover ignored files, files outside the workspace that commands wrote, and background jobs."


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
    set_mode: bool = False
    """Whether an existing file gets the permission bits too."""
    parents: int = 0
    """How many directories above a removed file are removed with it, if they are empty."""
    needs_confirmation: bool = False
    """Whether more would be undone after a confirmation."""


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


_NO_MODES: Mapping[str, int | None] = MappingProxyType({})


def plan_undo(
    records: Iterable[FileSnapshot],
    runs: Collection[str],
    now: Mapping[str, str | None],
    *,
    modes: Mapping[str, int | None] = _NO_MODES,
    confirmed: Collection[str] = (),
) -> tuple[Step, ...]:
    """Plan to undo the changes of these runs. ``now`` has the present content of each file, ``modes`` its permission
    bits. ``confirmed`` are the runs whose commands' changes may be undone.
    """
    return _plan(records, runs, now, modes, undo=True, confirmed=confirmed)


def plan_redo(
    records: Iterable[FileSnapshot],
    runs: Collection[str],
    now: Mapping[str, str | None],
    *,
    modes: Mapping[str, int | None] = _NO_MODES,
) -> tuple[Step, ...]:
    """Plan to apply the undone changes of these runs again."""
    return _plan(records, runs, now, modes, undo=False, confirmed=runs)


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
    return [
        record
        for record in ordered
        if not record.call_id or record.by == "command" or len(set(ends[record.call_id, record.path])) == 2
    ]


class PastRun(Value, frozen=True):
    """A run of the session that wrote files, or undid or redid changes."""

    seq: int
    run_id: str
    kind: Literal["wrote", "undo", "redo"]
    since: int | None = None
    """The first `seq` that an undo covers. None: it covers the last run that wrote."""
    covers: tuple[str, ...] | None = None
    """The runs that an undo covered, if it recorded them."""


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
                if run.covers is not None:
                    covered = [writer for writer in applied if writer.run_id in run.covers]
                elif run.since is None:
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
    records: Iterable[FileSnapshot],
    runs: Collection[str],
    now: Mapping[str, str | None],
    modes: Mapping[str, int | None],
    *,
    undo: bool,
    confirmed: Collection[str],
) -> tuple[Step, ...]:
    return tuple(
        _plan_file(chain, now[chain.path], modes.get(chain.path), undo=undo, confirmed=confirmed)
        for chain in _chains(records, runs, undo=undo)
    )


class _Side(Value, frozen=True):
    """The state of a file before or after a change. A mode of None matches every mode."""

    content: str | None
    mode: int | None = None

    def matches(self, content: str | None, mode: int | None) -> bool:
        return self.content == content and (None in (self.mode, mode) or self.mode == mode)


def _sides(record: FileSnapshot, *, undo: bool) -> tuple[_Side, _Side]:
    """Return the state from which a record is undone or redone, and the one to which."""
    is_commands = record.by == "command"
    before = _Side(record.before, record.mode if is_commands else None)
    after = _Side(record.after, record.mode_after if is_commands else None)
    return (after, before) if undo else (before, after)


def _plan_file(chain: _Chain, now: str | None, mode_now: int | None, *, undo: bool, confirmed: Collection[str]) -> Step:
    content, mode = now, mode_now
    passed: list[FileSnapshot] = []
    why: SkipReason | None = None
    for record in chain.records:
        source, target = _sides(record, undo=undo)
        if source.matches(content, mode):
            if record.by == "command" and record.run_id not in confirmed:
                why = "unconfirmed"
                break
            if target != source and is_unstored(target.content) | is_unstored(source.content):
                why = "not_kept"
                break
            content, mode = target.content, mode if target.mode is None else target.mode
        elif not target.matches(content, mode):  # matches: a crash prevented this change, or it is already reversed
            why = "changed"
            break
        passed.append(record)
    if why is None and chain.blocked:
        why = "later"
    stopped = "" if why is None else _message(why, chain.path, undo=undo)
    ids = tuple(record.id for record in passed)
    if not passed:
        return Skipped(chain.path, why or "later", stopped)
    set_mode = None not in (now, content, mode, mode_now) and mode != mode_now
    if content == now and not set_mode:
        return Settled(chain.path, ids) if why != "unconfirmed" else Skipped(chain.path, why, stopped)
    last = passed[-1]
    return Restore(
        chain.path,
        now,
        content,
        ids,
        last.mode_after if last.by == "command" and not undo else last.mode,
        stopped,
        set_mode=set_mode,
        parents=0 if content is not None else max(_removed_parents(record, undo=undo) for record in passed),
        needs_confirmation=why == "unconfirmed",
    )


def _removed_parents(record: FileSnapshot, *, undo: bool) -> int:
    return record.parents_made if undo else record.parents_removed


def _message(why: SkipReason, path: str, *, undo: bool) -> str:
    match why:
        case "unconfirmed":
            return (
                f"{path!r} changed while a command ran, and may have been changed by you; undo it with a confirmation"
            )
        case "not_kept":
            return (
                f"{path!r} was changed by a command, but its content was not stored: it is too large, or the first "
                "look at the directory took too long"
            )
        case "later" if undo:
            return f"{path!r} was changed by a later run as well; undo that one first"
        case "later":
            return f"{path!r} was changed by the agent after the undo; the undone change stays undone"
        case _:
            return f"{path!r} was changed after the {'agent wrote it' if undo else 'undo'}; that change was kept"
