"""Sessions: their messages, changes and exports."""

from __future__ import annotations

from holdfast.client.api_call import ApiCall, api_call, api_path, read_text, with_query, without_none
from holdfast.client.session_decoding import read_messages
from holdfast.schema.api.response_bodies import ChangesView, PageView, SessionExport, SessionView
from holdfast.schema.messages import Message
from holdfast.schema.runs import Receipt, Run
from holdfast.schema.sessions import Session, UndoPreview


def create_session(workspace_id: str, *, title: str | None = None, agent: str | None = None) -> ApiCall[Session]:
    body = without_none(title=title, agent=agent)
    return api_call("POST", api_path("workspaces", workspace_id, "sessions"), body, returns=Session)


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
    return api_call("GET", api_path("workspaces", workspace_id, "sessions"), returns=PageView[Session], query=query)


def session(session_id: str) -> ApiCall[SessionView]:
    return api_call("GET", api_path("sessions", session_id), returns=SessionView)


def change_session(
    session_id: str, *, title: str | None = None, archived: bool | None = None, agent: str | None = None
) -> ApiCall[Session]:
    """``agent``: that of the next prompts; ``main``: none any more."""
    body = without_none(title=title, archived=archived, agent=agent)
    return api_call("PATCH", api_path("sessions", session_id), body, returns=Session)


def delete_session(session_id: str) -> ApiCall[Receipt]:
    """Cancel the session's runs, then delete it. The receipt says how each run ended."""
    return api_call("DELETE", api_path("sessions", session_id), returns=Receipt, wait=2.0)


def messages(
    session_id: str,
    *,
    after: str | int | None = None,
    before: str | int | None = None,
    limit: int | None = None,
) -> ApiCall[PageView[Message]]:
    query = {"after": after, "before": before, "limit": limit}
    return ApiCall("GET", with_query(api_path("sessions", session_id, "messages"), query), read_messages)


def fork(session_id: str, *, message_id: str | None = None) -> ApiCall[Session]:
    body = without_none(message_id=message_id)
    return api_call("POST", api_path("sessions", session_id, "fork"), body, returns=Session)


def changes(session_id: str) -> ApiCall[ChangesView]:
    return api_call("GET", api_path("sessions", session_id, "changes"), returns=ChangesView)


def preview_undo(session_id: str, *, to_message_id: str | None = None) -> ApiCall[UndoPreview]:
    query = {"to_message_id": to_message_id}
    return api_call("GET", api_path("sessions", session_id, "undo"), returns=UndoPreview, query=query)


def export(session_id: str) -> ApiCall[SessionExport]:
    return api_call("GET", api_path("sessions", session_id, "export"), returns=SessionExport, query={"format": "json"})


def export_markdown(session_id: str) -> ApiCall[str]:
    return ApiCall("GET", with_query(api_path("sessions", session_id, "export"), {"format": "markdown"}), read_text)


def call_output(call_id: str) -> ApiCall[str]:
    """The whole output of a tool call."""
    return ApiCall("GET", api_path("calls", call_id, "output"), read_text)


def runs(
    session_id: str, *, state: str | None = None, limit: int | None = None, before: str | int | None = None
) -> ApiCall[PageView[Run]]:
    query = {"state": state, "limit": limit, "before": before}
    return api_call("GET", api_path("sessions", session_id, "runs"), returns=PageView[Run], query=query)
