"""Events as they are logged: without data that clients must not see. The same for every implementation."""

from __future__ import annotations

from collections.abc import Mapping, Set

from msgspec.structs import replace

from holdfast.schema import events as e
from holdfast.schema.messages import public_parts
from holdfast.schema.runs import Run

MESSAGE_EVENTS = (e.MessageCreated, e.MessageUpdated, e.MessageFinished)


def public_event(event: e.KnownDurable, *, seqs: Mapping[str, int], deleted: Set[str]) -> e.KnownDurable:
    """Return the event with the ``seq`` its message got, and without opaque provider data.

    Events of sessions that the same commit deletes lose their text.
    """
    if deleted and getattr(event, "session_id", None) in deleted:
        event = _without_text(event)
    if not isinstance(event, MESSAGE_EVENTS):
        return event
    message = event.message
    seq = seqs.get(message.id, message.seq)
    parts = public_parts(message.parts)
    if seq == message.seq and parts == message.parts:
        return event
    return replace(event, message=replace(message, seq=seq, parts=parts))


def run_without_text(run: Run) -> Run:
    """Return what is kept of a run when its session is deleted: its id, position and end."""
    return Run(
        id=run.id,
        session_id=run.session_id,
        seq=run.seq,
        kind=run.kind,
        state=run.state,
        reason=run.reason,
        created_at=run.created_at,
        finished_at=run.finished_at,
    )


def _without_text(event: e.KnownDurable) -> e.KnownDurable:
    match event:
        case e.RunAccepted() | e.RunStarted() | e.RunJoined() | e.RunStopping() | e.RunUpdated() | e.RunFinished():
            return replace(event, run=run_without_text(event.run))
        case e.MessageCreated() | e.MessageUpdated() | e.MessageFinished():
            return replace(event, message=replace(event.message, parts=()))
        case e.ApprovalRequested() | e.ApprovalResolved():
            return replace(event, approval=replace(event.approval, title="", why="", display={}, feedback=""))
        case e.QuestionAsked() | e.QuestionResolved():
            return replace(event, question=replace(event.question, items=(), answers=None))
        case e.JobStarted() | e.JobFinished():
            return replace(event, job=replace(event.job, command=""))
        case e.SessionCreated() | e.SessionUpdated():
            return replace(event, session=replace(event.session, title=""))
        case e.FileChanged():
            return replace(event, diff="")
        case e.TodoChanged():
            return replace(event, todos=())
        case e.RunRetrying():
            return replace(event, message="")
        case _:
            return event
