"""People for tests: clients with tokens of their own, workspaces of somebody, and valid requests for every route."""

from typing import Any

import msgspec

from holdfast.schema.approvals import Approval, Question, QuestionItem
from holdfast.schema.client_tools import ClientCall
from holdfast.schema.events import ApprovalRequested
from holdfast.schema.sessions import Job
from holdfast.server.http.endpoint import Endpoint
from holdfast.store import Batch, CallOutput
from holdfast.store.writes import OpenApproval, OpenQuestion, PutCallOutput, PutJob
from tests.store.batches import AT
from tests.support.http_client import HttpClient
from tests.support.running_server import RunningServer

BODIES: dict[str, dict[str, Any]] = {
    "PromptBody": {"prompt": "hello"},
    "FirstPromptBody": {"prompt": "hello"},
    "ShellBody": {"command": "true"},
    "MemoryBody": {"text": "note"},
    "ApprovalBody": {"decision": "once"},
    "QuestionBody": {"dismiss": True},
    "ClientToolsBody": {"tools": []},
    "SessionPatch": {"title": "mine"},
    "RunPatch": {"position": 0},
    "SessionMcpBody": {"servers": []},
    "ConfigPatch": {"changes": {"limits.max_steps": 1}},
    "KeyBody": {"key": None},
    "McpLoginBody": {"url": "http://127.0.0.1/"},
    "BackupBody": {"path": "/nowhere/backup.db"},
    "DevicePatch": {"name": "x"},
    "PersonBody": {"name": "eve", "role": "admin", "workspaces": None},
}
"""Valid bodies for the routes whose body has required fields. The others get an empty one."""
QUERIES = {"MemoryEntryQuery": "number=1"}


def body_for(endpoint: Endpoint) -> dict[str, Any] | None:
    """A valid body for a route."""
    return None if endpoint.body is None else BODIES.get(endpoint.body.__name__, {})


def target(endpoint: Endpoint, ids: dict[str, str]) -> str:
    path = endpoint.path.format(**{"name": "docs", "device_id": "dev_1", "provider": "test", **ids})
    query = QUERIES.get(endpoint.query.__name__, "")
    return f"{path}?{query}" if query else path


async def add_person(server: RunningServer, name: str, *, role: str, workspaces: list[str] | None) -> HttpClient:
    """Add a person and return a client with a token of theirs."""
    body = {"name": name, "role": role, "workspaces": workspaces}
    (await server.http.post("/v1/people", body)).ok(201)
    return await token_of(server, name)


async def token_of(server: RunningServer, name: str, **body: Any) -> HttpClient:
    made = (await server.http.post(f"/v1/people/{name}/tokens", body)).ok(201)
    return HttpClient(("127.0.0.1", server.tcp.port), token=made["token"], client=f"test/1 cli_{name}")


class Belongings(msgspec.Struct, frozen=True):
    """One thing of each kind in a workspace: the values of the path parameters that name them."""

    workspace_id: str
    session_id: str
    run_id: str
    approval_id: str
    question_id: str
    job_id: str
    call_id: str
    client_call_id: str

    @property
    def ids(self) -> dict[str, str]:
        return {name: getattr(self, name) for name in self.__struct_fields__}


async def fill_workspace(server: RunningServer, workspace_id: str, *, prompt: str, mark: str) -> Belongings:
    """Make a session with a run that has ended, an open approval, a question, a job and outputs."""
    created = await server.http.post(f"/v1/workspaces/{workspace_id}/runs", {"prompt": prompt})
    run = created.ok(202)["run"]
    await server.ended(run["id"])
    session_id, run_id = run["session_id"], run["id"]
    place = (workspace_id, session_id, session_id, run_id, f"call_{mark}")
    approval = Approval(f"apr_{mark}", *place, tool="bash", title=f"ls {mark}", created_at=AT)
    output = server.app.shared.locations.outputs_dir / f"{mark}.txt"
    output.parent.mkdir(parents=True, exist_ok=True)
    output.write_text(f"output of {mark}")
    await server.app.store.commit(
        Batch(
            (
                OpenApproval(approval),
                OpenQuestion(Question(f"qst_{mark}", *place, items=(QuestionItem("why?", "text"),), created_at=AT)),
                PutJob(Job(f"job_{mark}", workspace_id, session_id, run_id, "sleep 9", output_path=str(output))),
                PutCallOutput(CallOutput(f"call_{mark}", session_id, str(output), 9)),
            ),
            (ApprovalRequested(AT, session_id, approval),),
        )
    )
    call = ClientCall(f"ccl_{mark}", *place, client_id="cli_x", tool="lookup", state="answered")
    server.app.shared.client_calls._closed[call.id] = (call, b"")
    return Belongings(
        workspace_id, session_id, run_id, approval.id, f"qst_{mark}", f"job_{mark}", f"call_{mark}", call.id
    )
