"""Every route that a client of ours uses, once: a call is a value, and both clients send the same ones.

Each call can be sent again when its answer was lost, and is done once: runs carry their id, other changes a key.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic, Literal, TypeAlias, TypeVar

from holdfast.client.answers import Health, Page, ServerInfo, SessionView
from holdfast.client.reading import read_as, read_messages
from holdfast.ids import Ids
from holdfast.schema.approvals import Approval, Decision, Question
from holdfast.schema.base import Word, builtins, encode
from holdfast.schema.messages import Message
from holdfast.schema.runs import Accepted, Queue, Receipt, Run, RunRequest
from holdfast.schema.sessions import FileChange, Job, Session, WorkspaceView

T = TypeVar("T")

Method: TypeAlias = Literal["GET", "POST", "PUT", "PATCH", "DELETE"]
CancelScope: TypeAlias = Literal["session", "active"]
NOTHING = type(None)
Value: TypeAlias = str | int | float | bool | None

_PLAIN = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")


class Call(Word, Generic[T], frozen=True):
    """A request and how its answer is read."""

    method: Method
    target: str
    """Path and query."""
    read: Callable[[bytes], T]
    body: bytes | None = None
    wait: float = 0.0
    """Seconds the server was asked to wait before it answers."""
    key: str | None = None
    """Sent as ``Idempotency-Key``: the same call sent twice is done once."""

    @property
    def headers(self) -> dict[str, str]:
        return {} if self.key is None else {"Idempotency-Key": self.key}


def call(
    method: Method,
    target: str,
    body: object = None,
    *,
    answer: type[T],
    query: Mapping[str, Value] | None = None,
    wait: float = 0.0,
) -> Call[T]:
    """Any route; ``answer`` is the type of what it answers, ``NoneType`` where that does not matter."""
    encoded = None if body is None else encode(body)
    key = None if method == "GET" else Ids().new("key")
    return Call(method, with_query(target, query or {}), _reader(answer), encoded, wait, key)


def _reader(answer: type[T]) -> Callable[[bytes], T]:
    def read(raw: bytes) -> T:
        return read_as(b"null" if answer is NOTHING else raw, answer)

    return read


def path(*steps: str) -> str:
    """``/v1/…`` with ids made safe."""
    return "/v1/" + "/".join(quoted(step) for step in steps)


def quoted(text: str) -> str:
    return "".join(chr(byte) if byte in _PLAIN else f"%{byte:02X}" for byte in text.encode())


def with_query(target: str, query: Mapping[str, Value]) -> str:
    """What is ``None`` is not asked for."""
    pairs = [f"{name}={quoted(_shown(value))}" for name, value in query.items() if value is not None]
    return f"{target}?{'&'.join(pairs)}" if pairs else target


def _shown(value: Value) -> str:
    return str(value).lower() if isinstance(value, bool) else f"{value}"


def health() -> Call[Health]:
    return call("GET", path("health"), answer=Health)


def server() -> Call[ServerInfo]:
    return call("GET", path("server"), answer=ServerInfo)


def stop_server(*, if_idle: bool) -> Call[None]:
    return call("POST", path("server", "stop"), {"if_idle": if_idle}, answer=NOTHING)


def open_workspace(directory: str) -> Call[WorkspaceView]:
    return call("POST", path("workspaces"), {"path": directory}, answer=WorkspaceView)


def workspaces() -> Call[Page[WorkspaceView]]:
    return call("GET", path("workspaces"), answer=Page[WorkspaceView])


def workspace(workspace_id: str) -> Call[WorkspaceView]:
    return call("GET", path("workspaces", workspace_id), answer=WorkspaceView)


def create_session(workspace_id: str, *, title: str | None = None) -> Call[Session]:
    body = {} if title is None else {"title": title}
    return call("POST", path("workspaces", workspace_id, "sessions"), body, answer=Session)


def sessions(
    workspace_id: str, *, limit: int | None = None, before: str | int | None = None, q: str | None = None
) -> Call[Page[Session]]:
    query = {"limit": limit, "before": before, "q": q}
    return call("GET", path("workspaces", workspace_id, "sessions"), answer=Page[Session], query=query)


def session(session_id: str) -> Call[SessionView]:
    return call("GET", path("sessions", session_id), answer=SessionView)


def change_session(session_id: str, *, title: str | None = None, archived: bool | None = None) -> Call[Session]:
    given = {"title": title, "archived": archived}
    body = {name: value for name, value in given.items() if value is not None}
    return call("PATCH", path("sessions", session_id), body, answer=Session)


def delete_session(session_id: str) -> Call[None]:
    return call("DELETE", path("sessions", session_id), answer=NOTHING)


def messages(
    session_id: str,
    *,
    after: str | int | None = None,
    before: str | int | None = None,
    limit: int | None = None,
) -> Call[Page[Message]]:
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
) -> Call[Page[Run]]:
    query = {"state": state, "limit": limit, "before": before}
    return call("GET", path("sessions", session_id, "runs"), answer=Page[Run], query=query)


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


def changes(session_id: str) -> Call[Page[FileChange]]:
    return call("GET", path("sessions", session_id, "changes"), answer=Page[FileChange])


def approvals(workspace_id: str) -> Call[Page[Approval]]:
    return call("GET", path("workspaces", workspace_id, "approvals"), answer=Page[Approval])


def answer_approval(
    approval_id: str, decision: Decision, *, pattern: Sequence[str] = (), feedback: str = ""
) -> Call[Approval]:
    body: dict[str, Any] = {"decision": decision}
    if pattern:
        body["pattern"] = list(pattern)
    if feedback:
        body["feedback"] = feedback
    return call("POST", path("approvals", approval_id), body, answer=Approval)


def questions(workspace_id: str) -> Call[Page[Question]]:
    return call("GET", path("workspaces", workspace_id, "questions"), answer=Page[Question])


def answer_question(question_id: str, answers: Sequence[Sequence[str]] | None) -> Call[Question]:
    """``None`` dismisses it."""
    body: dict[str, Any] = {"dismiss": True} if answers is None else {"answers": answers}
    return call("POST", path("questions", question_id), body, answer=Question)


def jobs(workspace_id: str) -> Call[Page[Job]]:
    return call("GET", path("workspaces", workspace_id, "jobs"), answer=Page[Job])


def job(job_id: str) -> Call[Job]:
    return call("GET", path("jobs", job_id), answer=Job)


def kill_job(job_id: str) -> Call[Job]:
    return call("POST", path("jobs", job_id, "kill"), answer=Job)


def trust(workspace_id: str) -> Call[WorkspaceView]:
    return call("POST", path("workspaces", workspace_id, "trust"), answer=WorkspaceView)


def close_workspace(workspace_id: str) -> Call[None]:
    return call("DELETE", path("workspaces", workspace_id), answer=NOTHING)


def events_target(*, workspace_id: str | None = None, session_id: str | None = None, viewing: str | None = None) -> str:
    """The stream of a workspace, or of all; the cursor goes into a header."""
    base = path("events") if workspace_id is None else path("workspaces", workspace_id, "events")
    return with_query(base, {"session": session_id, "viewing": viewing})


def _start(target: str, request: RunRequest, **more: str) -> Call[Accepted]:
    return _run(target, builtins(request) | more)


def _lane(what: str, session_id: str, **arguments: str | None) -> Call[Accepted]:
    given = {name: value for name, value in arguments.items() if value is not None}
    return _run(path("sessions", session_id, what), given)


def _run(target: str, body: dict[str, Any]) -> Call[Accepted]:
    return Call("POST", target, _reader(Accepted), encode({"run_id": Ids().new("run"), **body}))
