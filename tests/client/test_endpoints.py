"""Calls match the routes, bodies and responses of the server."""

from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qsl

import msgspec
import pytest

from holdfast.client import endpoints
from holdfast.client.endpoints import ApiCall, api_path, with_query
from holdfast.errors import BadRequest
from holdfast.schema.api.response_bodies import PageView
from holdfast.schema.client_tools import ClientResult, ClientTool
from holdfast.schema.extensions import SessionMcpServer
from holdfast.schema.messages import File
from holdfast.schema.runs import Limits, RunRequest
from holdfast.server.application import ENDPOINTS
from holdfast.server.http.endpoint import Endpoint

REQUEST = RunRequest(
    prompt="hello",
    run_id="run_1",
    attachments=(File("a.txt", "text/plain", text="a"), File("b.png", "image/png", data="QUJD")),
    delivery="steer",
    after="success",
    model="e2e/large",
    mode="plan",
    interactive=False,
    limits=Limits(max_steps=3, max_seconds=2.5, max_cost=1.0),
    effort="high",
    output_schema={"type": "object"},
)

EVERY = [
    endpoints.health(),
    endpoints.server(),
    endpoints.stop_server(if_idle=True),
    endpoints.backup("/backup.db"),
    endpoints.clean_up(),
    endpoints.sandbox(),
    endpoints.open_workspace("/work"),
    endpoints.repository("wsp_1"),
    endpoints.diff("wsp_1", commit="HEAD~1"),
    endpoints.diff("wsp_1", branch=True, base="main"),
    endpoints.extensions("wsp_1"),
    endpoints.extensions("wsp_1", wait=5),
    endpoints.context("wsp_1"),
    endpoints.mcp_server("wsp_1", "docs"),
    endpoints.restart_mcp_server("wsp_1", "docs", wait=5),
    endpoints.log_in_to_mcp_server("wsp_1", "docs"),
    endpoints.finish_mcp_login("wsp_1", "docs", "http://127.0.0.1:1/callback?code=a&state=b"),
    endpoints.log_out_of_mcp_server("wsp_1", "docs"),
    endpoints.commands("wsp_1"),
    endpoints.agents("wsp_1"),
    endpoints.restart_language_server("wsp_1", "ruff"),
    endpoints.language_server_log("wsp_1", "ruff"),
    endpoints.memory("wsp_1"),
    endpoints.remember("wsp_1", "use tabs", scope="user"),
    endpoints.forget("wsp_1", 2, scope="project"),
    endpoints.workspaces(),
    endpoints.workspace("wsp_1"),
    endpoints.close_workspace("wsp_1"),
    endpoints.trust("wsp_1"),
    endpoints.create_session("wsp_1"),
    endpoints.create_session("wsp_1", title="T"),
    endpoints.sessions("wsp_1", limit=5, before="7", q="a b&c"),
    endpoints.session("ses_1"),
    endpoints.change_session("ses_1", title="T", archived=True),
    endpoints.delete_session("ses_1"),
    endpoints.messages("ses_1", after="0", limit=10),
    endpoints.messages("ses_1", before="end"),
    endpoints.start_run("ses_1", REQUEST),
    endpoints.start_run("ses_1", RunRequest(prompt="hello")),
    endpoints.start_session("wsp_1", REQUEST, title="T"),
    endpoints.runs("ses_1", state="queued", limit=5, before="7"),
    endpoints.run("run_1"),
    endpoints.run("run_1", wait=2.5),
    endpoints.change_run("run_1", prompt="other"),
    endpoints.change_run("run_1", position=0),
    endpoints.cancel_run("run_1"),
    endpoints.cancel_session("ses_1"),
    endpoints.cancel_session("ses_1", scope="active"),
    endpoints.pause("ses_1"),
    endpoints.resume("ses_1"),
    endpoints.shell("ses_1", "ls"),
    endpoints.compact("ses_1"),
    endpoints.undo("ses_1", confirmed_runs=("run_1",)),
    endpoints.preview_undo("ses_1", to_message_id="msg_1"),
    endpoints.redo("ses_1", to_message_id="msg_1"),
    endpoints.fork("ses_1"),
    endpoints.fork("ses_1", message_id="msg_1"),
    endpoints.changes("ses_1"),
    endpoints.approvals("wsp_1"),
    endpoints.answer_approval("apr_1", "once"),
    endpoints.answer_approval("apr_1", "deny", pattern=["bash: ls *"], feedback="no"),
    endpoints.questions("wsp_1"),
    endpoints.answer_question("qst_1", [["yes"], []]),
    endpoints.answer_question("qst_1", None),
    endpoints.jobs("wsp_1"),
    endpoints.job("job_1"),
    endpoints.kill_job("job_1"),
    endpoints.jobs("wsp_1", running=True),
    endpoints.approval("apr_1"),
    endpoints.question("qst_1"),
    endpoints.call_output("call_1"),
    endpoints.job_output("job_1", last=100),
    endpoints.export("ses_1"),
    endpoints.export_markdown("ses_1"),
    endpoints.clients("wsp_1"),
    endpoints.grants("wsp_1"),
    endpoints.remove_grants("wsp_1"),
    endpoints.grants("wsp_1", session_id="ses_1"),
    endpoints.remove_grants("wsp_1", session_id="ses_1", grant_id="grant_1"),
    endpoints.files("wsp_1", "READ me", limit=5),
    endpoints.mentions("wsp_1", "docs:no", limit=5),
    endpoints.config("wsp_1"),
    endpoints.change_config("wsp_1", {"models.large": "a/b", "limits.max_steps": None}),
    endpoints.config_schema(),
    endpoints.models(),
    endpoints.models(workspace_id="wsp_1"),
    endpoints.set_key("anthropic", "sk-1"),
    endpoints.set_key("anthropic", None),
    endpoints.try_provider("anthropic"),
    endpoints.try_provider("anthropic", model="large"),
    endpoints.accept_plan("ses_1"),
    endpoints.diff("wsp_1"),
    endpoints.diff("wsp_1", commit="HEAD"),
    endpoints.memory("wsp_1"),
    endpoints.remember("wsp_1", "a note"),
    endpoints.forget("wsp_1", 1),
    endpoints.use_session_servers("ses_1", [SessionMcpServer("docs", ("docs-mcp", "--fast"), {"A": "b"})]),
    endpoints.session_servers("ses_1", wait=2.0),
    endpoints.attach_tools("ses_1", [ClientTool("lookup", "Look up.", {"type": "object"}, "none")]),
    endpoints.attached_tools("ses_1"),
    endpoints.answer_call("ccl_1", ClientResult("a", files=(File("b.png", "image/png", data="QUJD"),))),
    endpoints.find_ids("ses_1"),
    endpoints.find_ids("ru", kind="run"),
    endpoints.stats(since="2026-01-01", until="2026-02-01"),
    endpoints.search("needle", workspace_id="wsp_1", limit=3),
    endpoints.pair("ABCD-EFGH-JKMN", name="phone"),
    endpoints.pairing_code(scope="answer"),
    endpoints.own_device(),
    endpoints.forget_own_device(),
    endpoints.devices(),
    endpoints.rename_device("dev_1", "phone"),
    endpoints.revoke_device("dev_1"),
    endpoints.web(),
    endpoints.listen_web(),
    endpoints.listen_web(host="192.0.2.1", port=8443, certificate="/c.pem", key="/k.pem", names=["a.example"]),
    endpoints.stop_web(),
]


@pytest.mark.parametrize("call", EVERY, ids=lambda call: f"{call.method} {call.target}")
def test_each_call_matches_a_route_of_the_server(call: ApiCall[object]) -> None:
    endpoint = _endpoint(call.method, call.target)
    if endpoint.body is not None:
        msgspec.json.decode(call.body or b"{}", type=endpoint.body)
    else:
        assert call.body is None


def test_the_stream_targets_match_routes_of_the_server() -> None:
    for target in (
        endpoints.events_target(),
        endpoints.events_target(workspace_id="wsp_1", session_id="ses_1", viewing="ses_1"),
    ):
        assert _endpoint("GET", target).media_type == "text/event-stream"


def _endpoint(method: str, target: str) -> Endpoint:
    """The server's endpoint for a call; fails if it does not accept the query."""
    where, _, query = target.partition("?")
    steps = where.split("/")
    for endpoint in ENDPOINTS:
        places = endpoint.path.split("/")
        fits = len(places) == len(steps) and all(
            place == step or place.startswith("{") for place, step in zip(places, steps, strict=True)
        )
        if endpoint.method == method and fits:
            given: dict[str, object] = dict(parse_qsl(query, strict_parsing=bool(query)))
            for name in {"state", "kind"} & given.keys():
                given[name] = [given[name]]
            msgspec.convert(given, endpoint.query, strict=False)
            return endpoint
    raise AssertionError(f"the server has no {method} {where}")


def test_every_route_of_the_server_has_a_call() -> None:
    called = {(call.method, _endpoint(call.method, call.target).path) for call in EVERY}
    streams = {"/v1/events", "/v1/workspaces/{workspace_id}/events"}
    offered = {(row.method, row.path) for row in ENDPOINTS if row.path not in {*streams, "/v1/openapi.json"}}
    assert called == offered


@pytest.mark.parametrize("make", [lambda text: endpoints.shell("ses_1", text), endpoints.search])
def test_invalid_text_is_refused_before_it_is_sent(make: Callable[[str], object]) -> None:
    with pytest.raises(BadRequest, match="not valid UTF-8"):
        make("caf\udce9")


def _same_shape(ours: Any, theirs: Any) -> None:
    """The client decodes a subset of the fields that the server sends, in the same types."""
    if getattr(ours, "__origin__", None) is PageView:
        _same_shape(ours.__args__[0], theirs.__args__[0])
        ours = PageView
    if isinstance(ours, type) and issubclass(ours, msgspec.Struct):
        served = theirs.__origin__ if hasattr(theirs, "__origin__") else theirs
        assert set(ours.__struct_fields__) <= set(served.__struct_fields__)
    else:
        assert getattr(ours, "__origin__", ours) is getattr(theirs, "__origin__", theirs)


@pytest.mark.parametrize("call", EVERY, ids=lambda call: f"{call.method} {call.target}")
def test_each_call_decodes_the_response_type_of_its_route(call: ApiCall[object]) -> None:
    expected = _endpoint(call.method, call.target).response
    for cell in call.read.__closure__ or ():
        if cell.cell_contents is not type(None):
            _same_shape(cell.cell_contents, expected)


@pytest.mark.promise("R3")
def test_a_run_without_an_id_gets_one() -> None:
    made, given = endpoints.start_run("ses_1", RunRequest(prompt="a")), endpoints.start_run("ses_1", REQUEST)
    assert b'"run_id":"run_' in (made.body or b"")
    assert b'"run_id":"run_1"' in (given.body or b"")
    assert made.key is None


def test_changes_have_an_idempotency_key_and_reads_have_none() -> None:
    first, second = endpoints.pause("ses_1"), endpoints.pause("ses_1")
    assert first.headers["Idempotency-Key"].startswith("key_")
    assert first.key != second.key
    assert endpoints.session("ses_1").headers == {}


def test_paths_and_queries_are_percent_encoded() -> None:
    assert api_path("sessions", "a/../b c?") == "/v1/sessions/a%2F..%2Fb%20c%3F"
    assert with_query("/x", {"q": "ä &=", "none": None, "on": True, "n": 2}) == "/x?q=%C3%A4%20%26%3D&on=true&n=2"
