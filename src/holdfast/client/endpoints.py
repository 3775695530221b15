"""Every route that a client of ours uses, once: a call is a value, and both clients send the same ones.

Each call can be sent again when its answer was lost, and is done once: runs carry their id, other changes a key.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, TypeAlias

import msgspec

from holdfast.client.api_call import NOTHING, Call, call, encoded, path, reader, with_query
from holdfast.client.response_decoding import read_messages
from holdfast.ids import Ids
from holdfast.schema.api.response_bodies import (
    BackupView,
    ConfigView,
    FilesView,
    Health,
    KeyView,
    ModelsView,
    PageView,
    ProviderTestView,
    ServerView,
    SessionExport,
    SessionView,
    StatsView,
)
from holdfast.schema.approvals import Approval, Decision, Grant, Question
from holdfast.schema.messages import Message
from holdfast.schema.runs import Accepted, Queue, Receipt, Run, RunRequest
from holdfast.schema.sessions import Client, FileChange, Job, SearchHit, Session, WorkspaceView

CancelScope: TypeAlias = Literal["session", "active"]


def health() -> Call[Health]:
    return call("GET", path("health"), answer=Health)


def server() -> Call[ServerView]:
    return call("GET", path("server"), answer=ServerView)


def stop_server(*, if_idle: bool) -> Call[None]:
    return call("POST", path("server", "stop"), {"if_idle": if_idle}, answer=NOTHING)


def backup(target: str) -> Call[BackupView]:
    """Copies the database to a file that does not exist yet, while everything goes on."""
    return call("POST", path("server", "backup"), {"path": target}, answer=BackupView, wait=600.0)


def open_workspace(directory: str) -> Call[WorkspaceView]:
    return call("POST", path("workspaces"), {"path": directory}, answer=WorkspaceView)


def workspaces() -> Call[PageView[WorkspaceView]]:
    return call("GET", path("workspaces"), answer=PageView[WorkspaceView])


def workspace(workspace_id: str) -> Call[WorkspaceView]:
    return call("GET", path("workspaces", workspace_id), answer=WorkspaceView)


def create_session(workspace_id: str, *, title: str | None = None) -> Call[Session]:
    body = {} if title is None else {"title": title}
    return call("POST", path("workspaces", workspace_id, "sessions"), body, answer=Session)


def sessions(
    workspace_id: str,
    *,
    limit: int | None = None,
    before: str | int | None = None,
    q: str | None = None,
    archived: bool | None = None,
    parent: str | None = None,
) -> Call[PageView[Session]]:
    query = {"limit": limit, "before": before, "q": q, "archived": archived, "parent": parent}
    return call("GET", path("workspaces", workspace_id, "sessions"), answer=PageView[Session], query=query)


def session(session_id: str) -> Call[SessionView]:
    return call("GET", path("sessions", session_id), answer=SessionView)


def change_session(session_id: str, *, title: str | None = None, archived: bool | None = None) -> Call[Session]:
    given = {"title": title, "archived": archived}
    body = {name: value for name, value in given.items() if value is not None}
    return call("PATCH", path("sessions", session_id), body, answer=Session)


def delete_session(session_id: str) -> Call[Receipt]:
    """Its runs are cancelled first; the receipt says how each ended."""
    return call("DELETE", path("sessions", session_id), answer=Receipt, wait=2.0)


def messages(
    session_id: str,
    *,
    after: str | int | None = None,
    before: str | int | None = None,
    limit: int | None = None,
) -> Call[PageView[Message]]:
    query = {"after": after, "before": before, "limit": limit}
    return Call("GET", with_query(path("sessions", session_id, "messages"), query), read_messages)


def start_run(session_id: str, request: RunRequest) -> Call[Accepted]:
    """A run without an id gets one here: whoever repeats the call gets the same run (`R3`)."""
    return _start(path("sessions", session_id, "runs"), request)


def start_session(workspace_id: str, request: RunRequest, *, title: str | None = None) -> Call[Accepted]:
    """A new session with its first run."""
    return _start(path("workspaces", workspace_id, "runs"), request, **({} if title is None else {"title": title}))


def runs(
    session_id: str, *, state: str | None = None, limit: int | None = None, before: str | int | None = None
) -> Call[PageView[Run]]:
    query = {"state": state, "limit": limit, "before": before}
    return call("GET", path("sessions", session_id, "runs"), answer=PageView[Run], query=query)


def run(run_id: str, *, wait: float = 0.0) -> Call[Run]:
    return call("GET", path("runs", run_id), answer=Run, query={"wait": f"{wait:g}"} if wait else {}, wait=wait)


def change_run(run_id: str, *, prompt: str | None = None, position: int | None = None) -> Call[Run]:
    given = {"prompt": prompt, "position": position}
    body = {name: value for name, value in given.items() if value is not None}
    return call("PATCH", path("runs", run_id), body, answer=Run)


def cancel_run(run_id: str) -> Call[Receipt]:
    return call("POST", path("runs", run_id, "cancel"), answer=Receipt, wait=2.0)


def cancel_session(session_id: str, *, scope: CancelScope = "session") -> Call[Receipt]:
    return call("POST", path("sessions", session_id, "cancel"), {"scope": scope}, answer=Receipt, wait=2.0)


def pause(session_id: str) -> Call[Queue]:
    return call("POST", path("sessions", session_id, "pause"), answer=Queue)


def resume(session_id: str) -> Call[Queue]:
    return call("POST", path("sessions", session_id, "resume"), answer=Queue)


def shell(session_id: str, command: str) -> Call[Accepted]:
    return _lane("shell", session_id, command=command)


def compact(session_id: str) -> Call[Accepted]:
    return _lane("compact", session_id)


def undo(session_id: str, *, to_message_id: str | None = None) -> Call[Accepted]:
    return _lane("undo", session_id, to_message_id=to_message_id)


def redo(session_id: str, *, to_message_id: str | None = None) -> Call[Accepted]:
    return _lane("redo", session_id, to_message_id=to_message_id)


def fork(session_id: str, *, message_id: str | None = None) -> Call[Session]:
    body = {} if message_id is None else {"message_id": message_id}
    return call("POST", path("sessions", session_id, "fork"), body, answer=Session)


def changes(session_id: str) -> Call[PageView[FileChange]]:
    return call("GET", path("sessions", session_id, "changes"), answer=PageView[FileChange])


def approvals(workspace_id: str) -> Call[PageView[Approval]]:
    return call("GET", path("workspaces", workspace_id, "approvals"), answer=PageView[Approval])


def answer_approval(
    approval_id: str, decision: Decision, *, pattern: Sequence[str] = (), feedback: str = ""
) -> Call[Approval]:
    body: dict[str, Any] = {"decision": decision}
    if pattern:
        body["pattern"] = list(pattern)
    if feedback:
        body["feedback"] = feedback
    return call("POST", path("approvals", approval_id), body, answer=Approval)


def approval(approval_id: str) -> Call[Approval]:
    return call("GET", path("approvals", approval_id), answer=Approval)


def question(question_id: str) -> Call[Question]:
    return call("GET", path("questions", question_id), answer=Question)


def questions(workspace_id: str) -> Call[PageView[Question]]:
    return call("GET", path("workspaces", workspace_id, "questions"), answer=PageView[Question])


def answer_question(question_id: str, answers: Sequence[Sequence[str]] | None) -> Call[Question]:
    """``None`` dismisses it."""
    body: dict[str, Any] = {"dismiss": True} if answers is None else {"answers": answers}
    return call("POST", path("questions", question_id), body, answer=Question)


def jobs(workspace_id: str, *, running: bool | None = None) -> Call[PageView[Job]]:
    return call("GET", path("workspaces", workspace_id, "jobs"), answer=PageView[Job], query={"running": running})


def job(job_id: str) -> Call[Job]:
    return call("GET", path("jobs", job_id), answer=Job)


def kill_job(job_id: str) -> Call[Job]:
    return call("POST", path("jobs", job_id, "kill"), answer=Job)


def trust(workspace_id: str, *, trusted: bool = True) -> Call[WorkspaceView]:
    return call("POST", path("workspaces", workspace_id, "trust"), {"trusted": trusted}, answer=WorkspaceView)


def close_workspace(workspace_id: str) -> Call[WorkspaceView]:
    return call("DELETE", path("workspaces", workspace_id), answer=WorkspaceView, wait=10.0)


def clients(workspace_id: str) -> Call[PageView[Client]]:
    """Who is attached."""
    return call("GET", path("workspaces", workspace_id, "clients"), answer=PageView[Client])


def grants(workspace_id: str, *, session_id: str | None = None) -> Call[PageView[Grant]]:
    """Those of the workspace, and of a session in it."""
    target = path("workspaces", workspace_id, "grants")
    return call("GET", target, answer=PageView[Grant], query={"session": session_id})


def remove_grants(
    workspace_id: str, *, session_id: str | None = None, grant_id: str | None = None
) -> Call[PageView[Grant]]:
    """One of them, or all; answers those that are left."""
    target = path("workspaces", workspace_id, "grants")
    return call("DELETE", target, answer=PageView[Grant], query={"session": session_id, "id": grant_id})


def files(workspace_id: str, q: str, *, limit: int | None = None) -> Call[FilesView]:
    query = {"q": q, "limit": limit}
    return call("GET", path("workspaces", workspace_id, "files"), answer=FilesView, query=query)


def config(workspace_id: str) -> Call[ConfigView]:
    return call("GET", path("workspaces", workspace_id, "config"), answer=ConfigView)


def change_config(workspace_id: str, changes: dict[str, Any]) -> Call[ConfigView]:
    """Values by dotted key; ``None`` removes one."""
    return call("PATCH", path("workspaces", workspace_id, "config"), {"changes": changes}, answer=ConfigView)


def config_schema() -> Call[dict[str, Any]]:
    """JSON Schema of the configuration, for editors."""
    return call("GET", path("config", "schema"), answer=dict[str, Any])


def models(*, workspace_id: str | None = None) -> Call[ModelsView]:
    return call("GET", path("models"), answer=ModelsView, query={"workspace": workspace_id})


def set_key(provider: str, key: str | None) -> Call[KeyView]:
    """``None`` forgets it."""
    return call("PUT", path("providers", provider, "key"), {"key": key}, answer=KeyView)


def try_provider(provider: str, *, model: str | None = None) -> Call[ProviderTestView]:
    body = {} if model is None else {"model": model}
    return call("POST", path("providers", provider, "test"), body, answer=ProviderTestView, wait=60.0)


def stats(*, since: str | None = None, until: str | None = None) -> Call[StatsView]:
    return call("GET", path("stats"), answer=StatsView, query={"since": since, "until": until})


def search(q: str, *, workspace_id: str | None = None, limit: int | None = None) -> Call[PageView[SearchHit]]:
    query = {"q": q, "workspace": workspace_id, "limit": limit}
    return call("GET", path("search"), answer=PageView[SearchHit], query=query)


def export(session_id: str) -> Call[SessionExport]:
    return call("GET", path("sessions", session_id, "export"), answer=SessionExport, query={"format": "json"})


def export_markdown(session_id: str) -> Call[str]:
    return Call("GET", with_query(path("sessions", session_id, "export"), {"format": "markdown"}), _text)


def call_output(call_id: str) -> Call[str]:
    """The whole output of a tool call."""
    return Call("GET", path("calls", call_id, "output"), _text)


def events_target(*, workspace_id: str | None = None, session_id: str | None = None, viewing: str | None = None) -> str:
    """The stream of a workspace, or of all; the cursor goes into a header."""
    base = path("events") if workspace_id is None else path("workspaces", workspace_id, "events")
    return with_query(base, {"session": session_id, "viewing": viewing})


def _start(target: str, request: RunRequest, **more: str) -> Call[Accepted]:
    return _run(target, msgspec.to_builtins(request) | more)


def _lane(what: str, session_id: str, **arguments: str | None) -> Call[Accepted]:
    given = {name: value for name, value in arguments.items() if value is not None}
    return _run(path("sessions", session_id, what), given)


def _run(target: str, body: dict[str, Any]) -> Call[Accepted]:
    return Call("POST", target, reader(Accepted), encoded({"run_id": Ids().new("run"), **body}))


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "replace")
