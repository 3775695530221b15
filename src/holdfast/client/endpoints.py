"""Every route of the API as a function that builds its call. Both clients send the same calls.

A call can be sent again when its answer was lost, and is done once: runs carry their id, other changes a key.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, TypeAlias

import msgspec

from holdfast.client.api_call import NO_ANSWER, ApiCall, api_call, api_path, body_reader, encode_body, with_query
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
from holdfast.schema.approvals import Approval, ApprovalDecision, Grant, Question
from holdfast.schema.messages import Message
from holdfast.schema.runs import Accepted, Queue, Receipt, Run, RunRequest
from holdfast.schema.sessions import Client, FileChange, Job, SearchHit, Session, WorkspaceView

CancelScope: TypeAlias = Literal["session", "active"]


def health() -> ApiCall[Health]:
    return api_call("GET", api_path("health"), answer=Health)


def server() -> ApiCall[ServerView]:
    return api_call("GET", api_path("server"), answer=ServerView)


def stop_server(*, if_idle: bool) -> ApiCall[None]:
    return api_call("POST", api_path("server", "stop"), {"if_idle": if_idle}, answer=NO_ANSWER)


def backup(target: str) -> ApiCall[BackupView]:
    """Copy the database to a file that does not exist yet, without stopping anything."""
    return api_call("POST", api_path("server", "backup"), {"path": target}, answer=BackupView, wait=600.0)


def open_workspace(directory: str) -> ApiCall[WorkspaceView]:
    return api_call("POST", api_path("workspaces"), {"path": directory}, answer=WorkspaceView)


def workspaces() -> ApiCall[PageView[WorkspaceView]]:
    return api_call("GET", api_path("workspaces"), answer=PageView[WorkspaceView])


def workspace(workspace_id: str) -> ApiCall[WorkspaceView]:
    return api_call("GET", api_path("workspaces", workspace_id), answer=WorkspaceView)


def create_session(workspace_id: str, *, title: str | None = None) -> ApiCall[Session]:
    body = {} if title is None else {"title": title}
    return api_call("POST", api_path("workspaces", workspace_id, "sessions"), body, answer=Session)


def sessions(
    workspace_id: str,
    *,
    limit: int | None = None,
    before: str | int | None = None,
    q: str | None = None,
    archived: bool | None = None,
    parent: str | None = None,
) -> ApiCall[PageView[Session]]:
    query = {"limit": limit, "before": before, "q": q, "archived": archived, "parent": parent}
    return api_call("GET", api_path("workspaces", workspace_id, "sessions"), answer=PageView[Session], query=query)


def session(session_id: str) -> ApiCall[SessionView]:
    return api_call("GET", api_path("sessions", session_id), answer=SessionView)


def change_session(session_id: str, *, title: str | None = None, archived: bool | None = None) -> ApiCall[Session]:
    given = {"title": title, "archived": archived}
    body = {name: value for name, value in given.items() if value is not None}
    return api_call("PATCH", api_path("sessions", session_id), body, answer=Session)


def delete_session(session_id: str) -> ApiCall[Receipt]:
    """Cancel its runs, then delete it; the receipt says how each run ended."""
    return api_call("DELETE", api_path("sessions", session_id), answer=Receipt, wait=2.0)


def messages(
    session_id: str,
    *,
    after: str | int | None = None,
    before: str | int | None = None,
    limit: int | None = None,
) -> ApiCall[PageView[Message]]:
    query = {"after": after, "before": before, "limit": limit}
    return ApiCall("GET", with_query(api_path("sessions", session_id, "messages"), query), read_messages)


def start_run(session_id: str, request: RunRequest) -> ApiCall[Accepted]:
    """Start a run. One without an id gets one here, so that repeating the call gives the same run (`R3`)."""
    return _start(api_path("sessions", session_id, "runs"), request)


def start_session(workspace_id: str, request: RunRequest, *, title: str | None = None) -> ApiCall[Accepted]:
    """Start a new session with its first run."""
    return _start(api_path("workspaces", workspace_id, "runs"), request, **({} if title is None else {"title": title}))


def runs(
    session_id: str, *, state: str | None = None, limit: int | None = None, before: str | int | None = None
) -> ApiCall[PageView[Run]]:
    query = {"state": state, "limit": limit, "before": before}
    return api_call("GET", api_path("sessions", session_id, "runs"), answer=PageView[Run], query=query)


def run(run_id: str, *, wait: float = 0.0) -> ApiCall[Run]:
    return api_call("GET", api_path("runs", run_id), answer=Run, query={"wait": f"{wait:g}"} if wait else {}, wait=wait)


def change_run(run_id: str, *, prompt: str | None = None, position: int | None = None) -> ApiCall[Run]:
    given = {"prompt": prompt, "position": position}
    body = {name: value for name, value in given.items() if value is not None}
    return api_call("PATCH", api_path("runs", run_id), body, answer=Run)


def cancel_run(run_id: str) -> ApiCall[Receipt]:
    return api_call("POST", api_path("runs", run_id, "cancel"), answer=Receipt, wait=2.0)


def cancel_session(session_id: str, *, scope: CancelScope = "session") -> ApiCall[Receipt]:
    return api_call("POST", api_path("sessions", session_id, "cancel"), {"scope": scope}, answer=Receipt, wait=2.0)


def pause(session_id: str) -> ApiCall[Queue]:
    return api_call("POST", api_path("sessions", session_id, "pause"), answer=Queue)


def resume(session_id: str) -> ApiCall[Queue]:
    return api_call("POST", api_path("sessions", session_id, "resume"), answer=Queue)


def shell(session_id: str, command: str) -> ApiCall[Accepted]:
    return _lane_call("shell", session_id, command=command)


def compact(session_id: str) -> ApiCall[Accepted]:
    return _lane_call("compact", session_id)


def undo(session_id: str, *, to_message_id: str | None = None) -> ApiCall[Accepted]:
    return _lane_call("undo", session_id, to_message_id=to_message_id)


def redo(session_id: str, *, to_message_id: str | None = None) -> ApiCall[Accepted]:
    return _lane_call("redo", session_id, to_message_id=to_message_id)


def fork(session_id: str, *, message_id: str | None = None) -> ApiCall[Session]:
    body = {} if message_id is None else {"message_id": message_id}
    return api_call("POST", api_path("sessions", session_id, "fork"), body, answer=Session)


def changes(session_id: str) -> ApiCall[PageView[FileChange]]:
    return api_call("GET", api_path("sessions", session_id, "changes"), answer=PageView[FileChange])


def approvals(workspace_id: str) -> ApiCall[PageView[Approval]]:
    return api_call("GET", api_path("workspaces", workspace_id, "approvals"), answer=PageView[Approval])


def answer_approval(
    approval_id: str, decision: ApprovalDecision, *, pattern: Sequence[str] = (), feedback: str = ""
) -> ApiCall[Approval]:
    body: dict[str, Any] = {"decision": decision}
    if pattern:
        body["pattern"] = list(pattern)
    if feedback:
        body["feedback"] = feedback
    return api_call("POST", api_path("approvals", approval_id), body, answer=Approval)


def approval(approval_id: str) -> ApiCall[Approval]:
    return api_call("GET", api_path("approvals", approval_id), answer=Approval)


def question(question_id: str) -> ApiCall[Question]:
    return api_call("GET", api_path("questions", question_id), answer=Question)


def questions(workspace_id: str) -> ApiCall[PageView[Question]]:
    return api_call("GET", api_path("workspaces", workspace_id, "questions"), answer=PageView[Question])


def answer_question(question_id: str, answers: Sequence[Sequence[str]] | None) -> ApiCall[Question]:
    """Answer a question; ``None`` dismisses it."""
    body: dict[str, Any] = {"dismiss": True} if answers is None else {"answers": answers}
    return api_call("POST", api_path("questions", question_id), body, answer=Question)


def jobs(workspace_id: str, *, running: bool | None = None) -> ApiCall[PageView[Job]]:
    return api_call(
        "GET", api_path("workspaces", workspace_id, "jobs"), answer=PageView[Job], query={"running": running}
    )


def job(job_id: str) -> ApiCall[Job]:
    return api_call("GET", api_path("jobs", job_id), answer=Job)


def kill_job(job_id: str) -> ApiCall[Job]:
    return api_call("POST", api_path("jobs", job_id, "kill"), answer=Job)


def trust(workspace_id: str, *, trusted: bool = True) -> ApiCall[WorkspaceView]:
    return api_call("POST", api_path("workspaces", workspace_id, "trust"), {"trusted": trusted}, answer=WorkspaceView)


def close_workspace(workspace_id: str) -> ApiCall[WorkspaceView]:
    return api_call("DELETE", api_path("workspaces", workspace_id), answer=WorkspaceView, wait=10.0)


def clients(workspace_id: str) -> ApiCall[PageView[Client]]:
    """The clients that are attached."""
    return api_call("GET", api_path("workspaces", workspace_id, "clients"), answer=PageView[Client])


def grants(workspace_id: str, *, session_id: str | None = None) -> ApiCall[PageView[Grant]]:
    """The grants of the workspace, and of one of its sessions."""
    target = api_path("workspaces", workspace_id, "grants")
    return api_call("GET", target, answer=PageView[Grant], query={"session": session_id})


def remove_grants(
    workspace_id: str, *, session_id: str | None = None, grant_id: str | None = None
) -> ApiCall[PageView[Grant]]:
    """Remove one grant, or all; answers those that remain."""
    target = api_path("workspaces", workspace_id, "grants")
    return api_call("DELETE", target, answer=PageView[Grant], query={"session": session_id, "id": grant_id})


def files(workspace_id: str, q: str, *, limit: int | None = None) -> ApiCall[FilesView]:
    query = {"q": q, "limit": limit}
    return api_call("GET", api_path("workspaces", workspace_id, "files"), answer=FilesView, query=query)


def config(workspace_id: str) -> ApiCall[ConfigView]:
    return api_call("GET", api_path("workspaces", workspace_id, "config"), answer=ConfigView)


def change_config(workspace_id: str, changes: dict[str, Any]) -> ApiCall[ConfigView]:
    """Change values by dotted key; ``None`` removes one."""
    return api_call("PATCH", api_path("workspaces", workspace_id, "config"), {"changes": changes}, answer=ConfigView)


def config_schema() -> ApiCall[dict[str, Any]]:
    """JSON Schema of the configuration, for editors."""
    return api_call("GET", api_path("config", "schema"), answer=dict[str, Any])


def models(*, workspace_id: str | None = None) -> ApiCall[ModelsView]:
    return api_call("GET", api_path("models"), answer=ModelsView, query={"workspace": workspace_id})


def set_key(provider: str, key: str | None) -> ApiCall[KeyView]:
    """Store a provider's key; ``None`` removes it."""
    return api_call("PUT", api_path("providers", provider, "key"), {"key": key}, answer=KeyView)


def try_provider(provider: str, *, model: str | None = None) -> ApiCall[ProviderTestView]:
    body = {} if model is None else {"model": model}
    return api_call("POST", api_path("providers", provider, "test"), body, answer=ProviderTestView, wait=60.0)


def stats(*, since: str | None = None, until: str | None = None) -> ApiCall[StatsView]:
    return api_call("GET", api_path("stats"), answer=StatsView, query={"since": since, "until": until})


def search(q: str, *, workspace_id: str | None = None, limit: int | None = None) -> ApiCall[PageView[SearchHit]]:
    query = {"q": q, "workspace": workspace_id, "limit": limit}
    return api_call("GET", api_path("search"), answer=PageView[SearchHit], query=query)


def export(session_id: str) -> ApiCall[SessionExport]:
    return api_call("GET", api_path("sessions", session_id, "export"), answer=SessionExport, query={"format": "json"})


def export_markdown(session_id: str) -> ApiCall[str]:
    return ApiCall("GET", with_query(api_path("sessions", session_id, "export"), {"format": "markdown"}), _text)


def call_output(call_id: str) -> ApiCall[str]:
    """The whole output of a tool call."""
    return ApiCall("GET", api_path("calls", call_id, "output"), _text)


def events_target(*, workspace_id: str | None = None, session_id: str | None = None, viewing: str | None = None) -> str:
    """The stream of a workspace, or of all; the cursor is sent as a header."""
    base = api_path("events") if workspace_id is None else api_path("workspaces", workspace_id, "events")
    return with_query(base, {"session": session_id, "viewing": viewing})


def _start(target: str, request: RunRequest, **more: str) -> ApiCall[Accepted]:
    return _run(target, msgspec.to_builtins(request) | more)


def _lane_call(action: str, session_id: str, **arguments: str | None) -> ApiCall[Accepted]:
    given = {name: value for name, value in arguments.items() if value is not None}
    return _run(api_path("sessions", session_id, action), given)


def _run(target: str, body: dict[str, Any]) -> ApiCall[Accepted]:
    return ApiCall("POST", target, body_reader(Accepted), encode_body({"run_id": Ids().new("run"), **body}))


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "replace")
