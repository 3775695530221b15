"""Values and batches for tests of the store and of the packages above it."""

from holdfast.schema.approvals import Approval
from holdfast.schema.events import MessageUpdated, RunAccepted, RunFinished, SessionCreated
from holdfast.schema.messages import Message, Part, Role, Text
from holdfast.schema.runs import Outcome, Run, UnfinishedState
from holdfast.schema.sessions import Session, Workspace
from holdfast.store import Batch, Store, apply_run_write
from holdfast.store.writes import EndRun, InsertRun, PutMessage, PutSession, PutWorkspace

AT = "2026-01-01T00:00:00.000Z"
DONE = Outcome(state="completed", reason="end_turn", text="done")


def new_workspace(workspace_id: str = "wsp_1") -> Batch:
    return Batch((PutWorkspace(Workspace(id=workspace_id, path=f"/at/{workspace_id}", created_at=AT)),))


def new_session(
    session_id: str = "ses_1",
    *,
    workspace_id: str = "wsp_1",
    parent_id: str | None = None,
    title: str = "",
    at: str = AT,
) -> Batch:
    session = Session(
        id=session_id, workspace_id=workspace_id, parent_id=parent_id, title=title, created_at=at, updated_at=at
    )
    return Batch((PutSession(session),), (SessionCreated(at=at, session_id=session_id, session=session),))


def a_run(
    run_id: str = "run_1",
    *,
    session_id: str = "ses_1",
    seq: int = 1,
    state: UnfinishedState = "queued",
    prompt: str = "go",
) -> Run:
    return Run(id=run_id, session_id=session_id, seq=seq, rank=seq, state=state, prompt=prompt, created_at=AT)


def accept(run: Run, *, body_hash: str = "hash", at: str = AT) -> Batch:
    return Batch(
        (InsertRun(run=run, body_hash=body_hash, decision="queued", position=1),),
        (RunAccepted(at=at, session_id=run.session_id, run=run),),
    )


def end(run: Run, outcome: Outcome = DONE, *, at: str = AT) -> Batch:
    write = EndRun(run_id=run.id, outcome=outcome, finished_at=at)
    return Batch((write,), (RunFinished(at=at, session_id=run.session_id, run=apply_run_write(run, write)),))


def a_message(
    message_id: str = "msg_1",
    *parts: Part,
    session_id: str = "ses_1",
    run_id: str = "run_1",
    role: Role = "assistant",
    seq: int = 0,
) -> Message:
    return Message(id=message_id, session_id=session_id, run_id=run_id, role=role, seq=seq, created_at=AT, parts=parts)


def says(message_id: str, text: str, *, session_id: str = "ses_1", role: Role = "user") -> Batch:
    """A message with one text, and its event."""
    message = a_message(message_id, Text(text), session_id=session_id, role=role)
    return Batch((PutMessage(message),), (MessageUpdated(at=AT, session_id=session_id, message=message),))


def an_approval(approval_id: str, *, session_id: str = "ses_1") -> Approval:
    return Approval(
        id=approval_id,
        workspace_id="wsp_1",
        session_id=session_id,
        root_session_id="ses_1",
        run_id="run_1",
        call_id="call_1",
        tool="bash",
        title="rm -r build",
    )


async def event_numbers(store: Store, **filters: str) -> list[int]:
    """The numbers of all events in the log that match the filters."""
    page = await store.events_after(0, upto=store.last_number, limit=1000, **filters)
    return [event.number for event in page.events]
