"""Every route of the API as a function that builds its call. Both clients send the same calls.

A call may be sent again when its response is lost, and has its effect once: runs carry their id, other changes carry an
idempotency key. Pure, except that ids and keys are generated.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic, Literal, TypeAlias, TypeVar

import msgspec

from holdfast.client.response_decoding import read_as, read_messages
from holdfast.errors import BadRequest
from holdfast.ids import Ids
from holdfast.schema.api.response_bodies import (
    BackupView,
    ChangesView,
    CleanupView,
    ConfigView,
    ContextView,
    DiffView,
    FilesView,
    Health,
    KeyView,
    LogView,
    MemoryView,
    MentionsView,
    ModelsView,
    PageView,
    PairingCodeView,
    PairingView,
    ProviderTestView,
    RepositoryView,
    SandboxView,
    ServerView,
    SessionExport,
    SessionView,
    StatsView,
    WebListenerView,
    WebView,
)
from holdfast.schema.approvals import Approval, ApprovalDecision, Grant, Question, RuleScope
from holdfast.schema.base import Value, encode
from holdfast.schema.client_tools import ClientCall, ClientResult, ClientTool, ClientTools
from holdfast.schema.commands import PromptCommand
from holdfast.schema.devices import AccessScope, Device
from holdfast.schema.extensions import AgentView, ExtensionStatus, McpLoginView, McpServerView, SessionMcpServer
from holdfast.schema.messages import Message
from holdfast.schema.runs import Accepted, CancelScope, Mode, Queue, Receipt, Run, RunRequest
from holdfast.schema.sessions import (
    Client,
    IdKind,
    IdMatch,
    Job,
    SearchHit,
    Session,
    UndoPreview,
    WorkspaceView,
)

T = TypeVar("T")

Method: TypeAlias = Literal["GET", "POST", "PUT", "PATCH", "DELETE"]
QueryValue: TypeAlias = str | int | float | bool | None

_UNRESERVED = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")


class ApiCall(Value, Generic[T], frozen=True):
    """A request, and how its response is decoded."""

    method: Method
    target: str
    """Path and query."""
    read: Callable[[bytes], T]
    body: bytes | None = None
    wait: float = 0.0
    """Seconds that the server may take in addition to the client's usual time-out."""
    key: str | None = None
    """Sent as ``Idempotency-Key``: a call that is sent twice has its effect once."""

    @property
    def headers(self) -> dict[str, str]:
        return {} if self.key is None else {"Idempotency-Key": self.key}


def api_call(
    method: Method,
    target: str,
    body: object = None,
    *,
    returns: type[T],
    query: Mapping[str, QueryValue] | None = None,
    wait: float = 0.0,
) -> ApiCall[T]:
    """A call of any route. ``returns`` is the type of the response body; ``NoneType`` ignores the body."""
    content = None if body is None else _encode_body(body)
    key = None if method == "GET" else Ids().new("key")
    return ApiCall(method, with_query(target, query or {}), _body_reader(returns), content, wait, key)


def api_path(*steps: str) -> str:
    """``/v1/…`` with each step percent-encoded."""
    return "/v1/" + "/".join(_quote(step) for step in steps)


def with_query(target: str, query: Mapping[str, QueryValue]) -> str:
    """Parameters that are ``None`` are left out."""
    pairs = [f"{name}={_quote(_query_text(value))}" for name, value in query.items() if value is not None]
    return f"{target}?{'&'.join(pairs)}" if pairs else target


def _encode_body(body: object) -> bytes:
    try:
        return encode(body)
    except UnicodeEncodeError:
        raise _invalid_text() from None


def _body_reader(returns: type[T]) -> Callable[[bytes], T]:
    def read(raw: bytes) -> T:
        return read_as(b"null" if returns is type(None) else raw, returns)

    return read


def _quote(text: str) -> str:
    try:
        return "".join(chr(byte) if byte in _UNRESERVED else f"%{byte:02X}" for byte in text.encode())
    except UnicodeEncodeError:
        raise _invalid_text() from None


def _query_text(value: QueryValue) -> str:
    return str(value).lower() if isinstance(value, bool) else f"{value}"


def _invalid_text() -> BadRequest:
    """Arguments and file names of a process may contain bytes that are not UTF-8."""
    return BadRequest("the request contains text that is not valid UTF-8; it cannot be sent")


def health() -> ApiCall[Health]:
    return api_call("GET", api_path("health"), returns=Health)


def server() -> ApiCall[ServerView]:
    return api_call("GET", api_path("server"), returns=ServerView)


def sandbox() -> ApiCall[SandboxView]:
    return api_call("GET", api_path("server", "sandbox"), returns=SandboxView)


def stop_server(*, if_idle: bool) -> ApiCall[None]:
    return api_call("POST", api_path("server", "stop"), {"if_idle": if_idle}, returns=type(None))


def backup(target: str) -> ApiCall[BackupView]:
    """Copy the database to a file that does not exist yet. The server keeps running."""
    return api_call("POST", api_path("server", "backup"), {"path": target}, returns=BackupView, wait=600.0)


def clean_up() -> ApiCall[CleanupView]:
    """Remove what has been kept long enough, and give free space back to the disk."""
    return api_call("POST", api_path("server", "clean-up"), returns=CleanupView, wait=600.0)


def open_workspace(directory: str) -> ApiCall[WorkspaceView]:
    return api_call("POST", api_path("workspaces"), {"path": directory}, returns=WorkspaceView)


def workspaces() -> ApiCall[PageView[WorkspaceView]]:
    return api_call("GET", api_path("workspaces"), returns=PageView[WorkspaceView])


def workspace(workspace_id: str) -> ApiCall[WorkspaceView]:
    return api_call("GET", api_path("workspaces", workspace_id), returns=WorkspaceView)


def repository(workspace_id: str) -> ApiCall[RepositoryView]:
    """The branch, and how many files are changed."""
    return api_call("GET", api_path("workspaces", workspace_id, "repository"), returns=RepositoryView, wait=30.0)


def diff(
    workspace_id: str, *, commit: str | None = None, branch: bool = False, base: str | None = None
) -> ApiCall[DiffView]:
    """The changes of the work tree, of a commit, or of the current branch since its base."""
    query = {"commit": commit, "branch": branch or None, "base": base}
    return api_call("GET", api_path("workspaces", workspace_id, "diff"), returns=DiffView, query=query, wait=60.0)


def context(workspace_id: str) -> ApiCall[ContextView]:
    return api_call("GET", api_path("workspaces", workspace_id, "context"), returns=ContextView)


def agents(workspace_id: str) -> ApiCall[PageView[AgentView]]:
    return api_call("GET", api_path("workspaces", workspace_id, "agents"), returns=PageView[AgentView])


def commands(workspace_id: str) -> ApiCall[PageView[PromptCommand]]:
    return api_call("GET", api_path("workspaces", workspace_id, "commands"), returns=PageView[PromptCommand])


def memory(workspace_id: str) -> ApiCall[MemoryView]:
    return api_call("GET", api_path("workspaces", workspace_id, "memory"), returns=MemoryView)


def remember(workspace_id: str, text: str, *, scope: str | None = None) -> ApiCall[MemoryView]:
    body = _without_none(text=text, scope=scope)
    return api_call("POST", api_path("workspaces", workspace_id, "memory"), body, returns=MemoryView)


def forget(workspace_id: str, number: int, *, scope: str | None = None) -> ApiCall[MemoryView]:
    query = {"number": number, "scope": scope}
    return api_call("DELETE", api_path("workspaces", workspace_id, "memory"), {}, returns=MemoryView, query=query)


def extensions(workspace_id: str, *, wait: float = 0.0) -> ApiCall[PageView[ExtensionStatus]]:
    """The extensions with their states. ``wait`` seconds for those that are starting."""
    target = api_path("workspaces", workspace_id, "extensions")
    query = {"wait": f"{wait:g}"} if wait else {}
    return api_call("GET", target, returns=PageView[ExtensionStatus], query=query, wait=wait)


def restart_language_server(workspace_id: str, name: str) -> ApiCall[LogView]:
    target = api_path("workspaces", workspace_id, "language-servers", name, "restart")
    return api_call("POST", target, {}, returns=LogView)


def language_server_log(workspace_id: str, name: str) -> ApiCall[LogView]:
    return api_call("GET", api_path("workspaces", workspace_id, "language-servers", name, "log"), returns=LogView)


def mcp_server(workspace_id: str, name: str, *, wait: float = 0.0) -> ApiCall[McpServerView]:
    """An MCP server with its tools and its log. ``wait`` seconds while it is starting."""
    target = api_path("workspaces", workspace_id, "mcp", name)
    query = {"wait": f"{wait:g}"} if wait else {}
    return api_call("GET", target, returns=McpServerView, query=query, wait=wait)


def log_in_to_mcp_server(workspace_id: str, name: str) -> ApiCall[McpLoginView]:
    target = api_path("workspaces", workspace_id, "mcp", name, "login")
    return api_call("POST", target, {}, returns=McpLoginView, wait=60.0)


def finish_mcp_login(workspace_id: str, name: str, url: str) -> ApiCall[McpServerView]:
    """``url``: where the browser was sent after the login."""
    target = api_path("workspaces", workspace_id, "mcp", name, "login", "answer")
    return api_call("POST", target, {"url": url}, returns=McpServerView, wait=60.0)


def log_out_of_mcp_server(workspace_id: str, name: str) -> ApiCall[McpServerView]:
    target = api_path("workspaces", workspace_id, "mcp", name, "login")
    return api_call("DELETE", target, {}, returns=McpServerView)


def restart_mcp_server(workspace_id: str, name: str, *, wait: float = 0.0) -> ApiCall[McpServerView]:
    target = api_path("workspaces", workspace_id, "mcp", name, "restart")
    query = {"wait": f"{wait:g}"} if wait else {}
    return api_call("POST", target, {}, returns=McpServerView, query=query, wait=wait)


def use_session_servers(session_id: str, servers: Sequence[SessionMcpServer]) -> ApiCall[PageView[ExtensionStatus]]:
    """Use these MCP servers for one session, beside those of its workspace. They replace those passed before."""
    body = {"servers": list(servers)}
    return api_call("PUT", api_path("sessions", session_id, "mcp"), body, returns=PageView[ExtensionStatus])


def session_servers(session_id: str, *, wait: float = 0.0) -> ApiCall[PageView[ExtensionStatus]]:
    """The MCP servers that clients passed for a session."""
    target = api_path("sessions", session_id, "mcp")
    return api_call("GET", target, returns=PageView[ExtensionStatus], query={"wait": wait or None}, wait=wait)


def create_session(workspace_id: str, *, title: str | None = None, agent: str | None = None) -> ApiCall[Session]:
    body = _without_none(title=title, agent=agent)
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
    body = _without_none(title=title, archived=archived, agent=agent)
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


def start_run(session_id: str, request: RunRequest) -> ApiCall[Accepted]:
    """Start a run. A request without an id gets one here, so that repeating the call gives the same run (`R3`)."""
    return _start(api_path("sessions", session_id, "runs"), request)


def start_session(workspace_id: str, request: RunRequest, *, title: str | None = None) -> ApiCall[Accepted]:
    """Start a new session with its first run."""
    return _start(api_path("workspaces", workspace_id, "runs"), request, **_without_none(title=title))


def runs(
    session_id: str, *, state: str | None = None, limit: int | None = None, before: str | int | None = None
) -> ApiCall[PageView[Run]]:
    query = {"state": state, "limit": limit, "before": before}
    return api_call("GET", api_path("sessions", session_id, "runs"), returns=PageView[Run], query=query)


def run(run_id: str, *, wait: float = 0.0) -> ApiCall[Run]:
    return api_call(
        "GET", api_path("runs", run_id), returns=Run, query={"wait": f"{wait:g}"} if wait else {}, wait=wait
    )


def change_run(run_id: str, *, prompt: str | None = None, position: int | None = None) -> ApiCall[Run]:
    body = _without_none(prompt=prompt, position=position)
    return api_call("PATCH", api_path("runs", run_id), body, returns=Run)


def cancel_run(run_id: str) -> ApiCall[Receipt]:
    return api_call("POST", api_path("runs", run_id, "cancel"), returns=Receipt, wait=2.0)


def cancel_session(session_id: str, *, scope: CancelScope = "session") -> ApiCall[Receipt]:
    return api_call("POST", api_path("sessions", session_id, "cancel"), {"scope": scope}, returns=Receipt, wait=2.0)


def pause(session_id: str) -> ApiCall[Queue]:
    return api_call("POST", api_path("sessions", session_id, "pause"), returns=Queue)


def resume(session_id: str) -> ApiCall[Queue]:
    return api_call("POST", api_path("sessions", session_id, "resume"), returns=Queue)


def shell(session_id: str, command: str, *, environment: dict[str, str] | None = None) -> ApiCall[Accepted]:
    return _start_lane_action("shell", session_id, command=command, environment=environment)


def compact(session_id: str, *, instruction: str | None = None) -> ApiCall[Accepted]:
    return _start_lane_action("compact", session_id, instruction=instruction)


def accept_plan(
    session_id: str,
    *,
    mode: Mode = "accept_edits",
    note: str | None = None,
    interactive: bool = True,
    run_id: str | None = None,
) -> ApiCall[Accepted]:
    """Carry out the plan with which the last prompt ended."""
    body = _without_none(mode=mode, note=note, run_id=run_id)
    return _start_call(api_path("sessions", session_id, "accept-plan"), {**body, "interactive": interactive})


def undo(
    session_id: str, *, to_message_id: str | None = None, confirmed_runs: tuple[str, ...] = ()
) -> ApiCall[Accepted]:
    """``confirmed_runs``: the runs of a `preview_undo` whose files that changed during commands are restored too."""
    return _start_lane_action(
        "undo", session_id, to_message_id=to_message_id, confirmed_runs=list(confirmed_runs) or None
    )


def preview_undo(session_id: str, *, to_message_id: str | None = None) -> ApiCall[UndoPreview]:
    query = {"to_message_id": to_message_id}
    return api_call("GET", api_path("sessions", session_id, "undo"), returns=UndoPreview, query=query)


def redo(session_id: str, *, to_message_id: str | None = None) -> ApiCall[Accepted]:
    return _start_lane_action("redo", session_id, to_message_id=to_message_id)


def fork(session_id: str, *, message_id: str | None = None) -> ApiCall[Session]:
    body = _without_none(message_id=message_id)
    return api_call("POST", api_path("sessions", session_id, "fork"), body, returns=Session)


def changes(session_id: str) -> ApiCall[ChangesView]:
    return api_call("GET", api_path("sessions", session_id, "changes"), returns=ChangesView)


def approvals(workspace_id: str) -> ApiCall[PageView[Approval]]:
    return api_call("GET", api_path("workspaces", workspace_id, "approvals"), returns=PageView[Approval])


def answer_approval(
    approval_id: str,
    decision: ApprovalDecision,
    *,
    pattern: Sequence[str] = (),
    scope: RuleScope = "project",
    feedback: str = "",
) -> ApiCall[Approval]:
    """``scope`` is where the rules that "always" saves count."""
    body: dict[str, Any] = {"decision": decision}
    if scope != "project":
        body["scope"] = scope
    if pattern:
        body["pattern"] = list(pattern)
    if feedback:
        body["feedback"] = feedback
    return api_call("POST", api_path("approvals", approval_id), body, returns=Approval)


def approval(approval_id: str) -> ApiCall[Approval]:
    return api_call("GET", api_path("approvals", approval_id), returns=Approval)


def question(question_id: str) -> ApiCall[Question]:
    return api_call("GET", api_path("questions", question_id), returns=Question)


def questions(workspace_id: str) -> ApiCall[PageView[Question]]:
    return api_call("GET", api_path("workspaces", workspace_id, "questions"), returns=PageView[Question])


def answer_question(question_id: str, answers: Sequence[Sequence[str]] | None) -> ApiCall[Question]:
    """Answer a question; ``None`` dismisses it."""
    body: dict[str, Any] = {"dismiss": True} if answers is None else {"answers": answers}
    return api_call("POST", api_path("questions", question_id), body, returns=Question)


def attach_tools(session_id: str, tools: Sequence[ClientTool]) -> ApiCall[ClientTools]:
    """Attach all tools that this client executes for a session; none: detach them.

    They stay while this client has an open event stream (see `events`), which also brings the calls.
    """
    return api_call("PUT", api_path("sessions", session_id, "tools"), {"tools": list(tools)}, returns=ClientTools)


def attached_tools(session_id: str) -> ApiCall[PageView[ClientTools]]:
    return api_call("GET", api_path("sessions", session_id, "tools"), returns=PageView[ClientTools])


def answer_call(client_call_id: str, result: ClientResult) -> ApiCall[ClientCall]:
    """Send the result of a call that this client has executed."""
    return api_call("POST", api_path("client-calls", client_call_id), result, returns=ClientCall)


def jobs(workspace_id: str, *, running: bool | None = None) -> ApiCall[PageView[Job]]:
    return api_call(
        "GET", api_path("workspaces", workspace_id, "jobs"), returns=PageView[Job], query={"running": running}
    )


def job(job_id: str) -> ApiCall[Job]:
    return api_call("GET", api_path("jobs", job_id), returns=Job)


def job_output(job_id: str, *, last: int | None = None) -> ApiCall[str]:
    """The output of a background job so far, or its last bytes."""
    return ApiCall("GET", with_query(api_path("jobs", job_id, "output"), {"last": last}), _text)


def kill_job(job_id: str) -> ApiCall[Job]:
    return api_call("POST", api_path("jobs", job_id, "kill"), returns=Job)


def trust(workspace_id: str, *, trusted: bool = True) -> ApiCall[WorkspaceView]:
    return api_call("POST", api_path("workspaces", workspace_id, "trust"), {"trusted": trusted}, returns=WorkspaceView)


def close_workspace(workspace_id: str) -> ApiCall[WorkspaceView]:
    return api_call("DELETE", api_path("workspaces", workspace_id), returns=WorkspaceView, wait=10.0)


def clients(workspace_id: str) -> ApiCall[PageView[Client]]:
    """The clients that are attached to the workspace."""
    return api_call("GET", api_path("workspaces", workspace_id, "clients"), returns=PageView[Client])


def grants(workspace_id: str, *, session_id: str | None = None) -> ApiCall[PageView[Grant]]:
    """The grants of the workspace, and those of one session if it is named."""
    target = api_path("workspaces", workspace_id, "grants")
    return api_call("GET", target, returns=PageView[Grant], query={"session": session_id})


def remove_grants(
    workspace_id: str, *, session_id: str | None = None, grant_id: str | None = None
) -> ApiCall[PageView[Grant]]:
    """Remove one grant, or all of them. Returns those that remain."""
    target = api_path("workspaces", workspace_id, "grants")
    return api_call("DELETE", target, returns=PageView[Grant], query={"session": session_id, "id": grant_id})


def files(workspace_id: str, q: str, *, limit: int | None = None) -> ApiCall[FilesView]:
    query = {"q": q, "limit": limit}
    return api_call("GET", api_path("workspaces", workspace_id, "files"), returns=FilesView, query=query)


def mentions(workspace_id: str, q: str, *, limit: int | None = None) -> ApiCall[MentionsView]:
    query = {"q": q, "limit": limit}
    return api_call("GET", api_path("workspaces", workspace_id, "mentions"), returns=MentionsView, query=query)


def config(workspace_id: str) -> ApiCall[ConfigView]:
    return api_call("GET", api_path("workspaces", workspace_id, "config"), returns=ConfigView)


def change_config(workspace_id: str, changes: dict[str, Any]) -> ApiCall[ConfigView]:
    """Change values by dotted key. ``None`` removes a value."""
    return api_call("PATCH", api_path("workspaces", workspace_id, "config"), {"changes": changes}, returns=ConfigView)


def config_schema() -> ApiCall[dict[str, Any]]:
    """JSON Schema of the configuration, for editors."""
    return api_call("GET", api_path("config", "schema"), returns=dict[str, Any])


def models(*, workspace_id: str | None = None) -> ApiCall[ModelsView]:
    return api_call("GET", api_path("models"), returns=ModelsView, query={"workspace": workspace_id})


def set_key(provider: str, key: str | None) -> ApiCall[KeyView]:
    """Store a provider's API key. ``None`` removes it."""
    return api_call("PUT", api_path("providers", provider, "key"), {"key": key}, returns=KeyView)


def try_provider(provider: str, *, model: str | None = None) -> ApiCall[ProviderTestView]:
    body = _without_none(model=model)
    return api_call("POST", api_path("providers", provider, "test"), body, returns=ProviderTestView, wait=60.0)


def find_ids(prefix: str, *, kind: IdKind | None = None) -> ApiCall[PageView[IdMatch]]:
    """Ids that begin with ``prefix``; an exact id is the only match."""
    return api_call("GET", api_path("ids"), returns=PageView[IdMatch], query={"prefix": prefix, "kind": kind})


def stats(*, since: str | None = None, until: str | None = None) -> ApiCall[StatsView]:
    return api_call("GET", api_path("stats"), returns=StatsView, query={"since": since, "until": until})


def pair(code: str, *, name: str = "") -> ApiCall[PairingView]:
    """Exchange a one-time code for a device's token, which is in the cookie of the response."""
    return api_call("POST", api_path("pairing"), {"code": code, "name": name}, returns=PairingView)


def pairing_code(*, scope: AccessScope) -> ApiCall[PairingCodeView]:
    return api_call("POST", api_path("pairing", "codes"), {"scope": scope}, returns=PairingCodeView)


def own_device() -> ApiCall[PairingView]:
    return api_call("GET", api_path("device"), returns=PairingView)


def forget_own_device() -> ApiCall[PairingView]:
    return api_call("DELETE", api_path("device"), {}, returns=PairingView)


def devices() -> ApiCall[PageView[Device]]:
    return api_call("GET", api_path("devices"), returns=PageView[Device])


def rename_device(device_id: str, name: str) -> ApiCall[Device]:
    return api_call("PATCH", api_path("devices", device_id), {"name": name}, returns=Device)


def revoke_device(device_id: str) -> ApiCall[Device]:
    return api_call("DELETE", api_path("devices", device_id), {}, returns=Device)


def web() -> ApiCall[WebView]:
    """Where the web page is served."""
    return api_call("GET", api_path("web"), returns=WebView)


def listen_web(
    *,
    host: str | None = None,
    port: int | None = None,
    certificate: str | None = None,
    key: str | None = None,
    names: Sequence[str] | None = None,
) -> ApiCall[WebListenerView]:
    """Serve the web page: on loopback, or with a certificate on the network."""
    body = _without_none(host=host, port=port, certificate=certificate, key=key, names=names)
    return api_call("POST", api_path("web"), body, returns=WebListenerView)


def stop_web() -> ApiCall[WebView]:
    return api_call("DELETE", api_path("web"), {}, returns=WebView)


def search(q: str, *, workspace_id: str | None = None, limit: int | None = None) -> ApiCall[PageView[SearchHit]]:
    query = {"q": q, "workspace": workspace_id, "limit": limit}
    return api_call("GET", api_path("search"), returns=PageView[SearchHit], query=query)


def export(session_id: str) -> ApiCall[SessionExport]:
    return api_call("GET", api_path("sessions", session_id, "export"), returns=SessionExport, query={"format": "json"})


def export_markdown(session_id: str) -> ApiCall[str]:
    return ApiCall("GET", with_query(api_path("sessions", session_id, "export"), {"format": "markdown"}), _text)


def call_output(call_id: str) -> ApiCall[str]:
    """The whole output of a tool call."""
    return ApiCall("GET", api_path("calls", call_id, "output"), _text)


def events_target(*, workspace_id: str | None = None, session_id: str | None = None, viewing: str | None = None) -> str:
    """The event stream of one workspace or of all of them. The cursor is sent as a header."""
    base = api_path("events") if workspace_id is None else api_path("workspaces", workspace_id, "events")
    return with_query(base, {"session": session_id, "viewing": viewing})


def _start(target: str, request: RunRequest, **more: str) -> ApiCall[Accepted]:
    return _start_call(target, msgspec.to_builtins(request) | more)


def _start_lane_action(action: str, session_id: str, **arguments: object) -> ApiCall[Accepted]:
    return _start_call(api_path("sessions", session_id, action), _without_none(**arguments))


def _start_call(target: str, body: dict[str, Any]) -> ApiCall[Accepted]:
    return ApiCall("POST", target, _body_reader(Accepted), _encode_body({"run_id": Ids().new("run"), **body}))


def _without_none(**values: Any) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "replace")
