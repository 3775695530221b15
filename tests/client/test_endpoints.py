"""Calls match the routes, bodies and responses of the server."""

from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qsl

import msgspec
import pytest

from holdfast.client.api_call import ApiCall, api_path, with_query
from holdfast.client.endpoints import (
    approval_endpoints,
    connect_endpoints,
    device_endpoints,
    extension_endpoints,
    people_endpoints,
    run_endpoints,
    server_endpoints,
    session_endpoints,
    setting_endpoints,
    workspace_endpoints,
)
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
    connect_endpoints.health(),
    server_endpoints.server(),
    server_endpoints.stop_server(if_idle=True),
    server_endpoints.backup("/backup.db"),
    server_endpoints.clean_up(),
    server_endpoints.sandbox(),
    connect_endpoints.open_workspace("/work"),
    workspace_endpoints.repository("wsp_1"),
    workspace_endpoints.diff("wsp_1", commit="HEAD~1"),
    workspace_endpoints.diff("wsp_1", branch=True, base="main"),
    extension_endpoints.extensions("wsp_1"),
    extension_endpoints.extensions("wsp_1", wait=5),
    workspace_endpoints.context("wsp_1"),
    extension_endpoints.mcp_server("wsp_1", "docs"),
    extension_endpoints.restart_mcp_server("wsp_1", "docs", wait=5),
    extension_endpoints.log_in_to_mcp_server("wsp_1", "docs"),
    extension_endpoints.finish_mcp_login("wsp_1", "docs", "http://127.0.0.1:1/callback?code=a&state=b"),
    extension_endpoints.log_out_of_mcp_server("wsp_1", "docs"),
    workspace_endpoints.commands("wsp_1"),
    workspace_endpoints.agents("wsp_1"),
    extension_endpoints.restart_language_server("wsp_1", "ruff"),
    extension_endpoints.language_server_log("wsp_1", "ruff"),
    workspace_endpoints.memory("wsp_1"),
    workspace_endpoints.remember("wsp_1", "use tabs", scope="user"),
    workspace_endpoints.forget("wsp_1", 2, scope="project"),
    workspace_endpoints.workspaces(),
    workspace_endpoints.workspace("wsp_1"),
    workspace_endpoints.close_workspace("wsp_1"),
    workspace_endpoints.trust("wsp_1"),
    session_endpoints.create_session("wsp_1"),
    session_endpoints.create_session("wsp_1", title="T"),
    session_endpoints.sessions("wsp_1", limit=5, before="7", q="a b&c"),
    session_endpoints.session("ses_1"),
    session_endpoints.change_session("ses_1", title="T", archived=True),
    session_endpoints.delete_session("ses_1"),
    session_endpoints.messages("ses_1", after="0", limit=10),
    session_endpoints.messages("ses_1", before="end"),
    run_endpoints.start_run("ses_1", REQUEST),
    run_endpoints.start_run("ses_1", RunRequest(prompt="hello")),
    run_endpoints.start_session("wsp_1", REQUEST, title="T"),
    session_endpoints.runs("ses_1", state="queued", limit=5, before="7"),
    run_endpoints.run("run_1"),
    run_endpoints.run("run_1", wait=2.5),
    run_endpoints.change_run("run_1", prompt="other"),
    run_endpoints.change_run("run_1", position=0),
    run_endpoints.cancel_run("run_1"),
    run_endpoints.cancel_session("ses_1"),
    run_endpoints.cancel_session("ses_1", scope="active"),
    run_endpoints.pause("ses_1"),
    run_endpoints.resume("ses_1"),
    run_endpoints.shell("ses_1", "ls"),
    run_endpoints.compact("ses_1"),
    run_endpoints.undo("ses_1", confirmed_runs=("run_1",)),
    session_endpoints.preview_undo("ses_1", to_message_id="msg_1"),
    run_endpoints.redo("ses_1", to_message_id="msg_1"),
    session_endpoints.fork("ses_1"),
    session_endpoints.fork("ses_1", message_id="msg_1"),
    session_endpoints.changes("ses_1"),
    approval_endpoints.approvals("wsp_1"),
    approval_endpoints.answer_approval("apr_1", "once"),
    approval_endpoints.answer_approval("apr_1", "deny", pattern=["bash: ls *"], feedback="no"),
    approval_endpoints.questions("wsp_1"),
    approval_endpoints.answer_question("qst_1", [["yes"], []]),
    approval_endpoints.answer_question("qst_1", None),
    workspace_endpoints.jobs("wsp_1"),
    workspace_endpoints.job("job_1"),
    workspace_endpoints.kill_job("job_1"),
    workspace_endpoints.jobs("wsp_1", running=True),
    approval_endpoints.approval("apr_1"),
    approval_endpoints.question("qst_1"),
    session_endpoints.call_output("call_1"),
    workspace_endpoints.job_output("job_1", last=100),
    session_endpoints.export("ses_1"),
    session_endpoints.export_markdown("ses_1"),
    workspace_endpoints.clients("wsp_1"),
    approval_endpoints.grants("wsp_1"),
    approval_endpoints.remove_grants("wsp_1"),
    approval_endpoints.grants("wsp_1", session_id="ses_1"),
    approval_endpoints.remove_grants("wsp_1", session_id="ses_1", grant_id="grant_1"),
    workspace_endpoints.files("wsp_1", "READ me", limit=5),
    workspace_endpoints.mentions("wsp_1", "docs:no", limit=5),
    setting_endpoints.config("wsp_1"),
    setting_endpoints.change_config("wsp_1", {"models.large": "a/b", "limits.max_steps": None}),
    setting_endpoints.config_schema(),
    setting_endpoints.models(),
    setting_endpoints.models(workspace_id="wsp_1"),
    setting_endpoints.set_key("anthropic", "sk-1"),
    setting_endpoints.set_key("anthropic", None),
    setting_endpoints.try_provider("anthropic"),
    setting_endpoints.try_provider("anthropic", model="large"),
    run_endpoints.accept_plan("ses_1"),
    workspace_endpoints.diff("wsp_1"),
    workspace_endpoints.diff("wsp_1", commit="HEAD"),
    workspace_endpoints.memory("wsp_1"),
    workspace_endpoints.remember("wsp_1", "a note"),
    workspace_endpoints.forget("wsp_1", 1),
    extension_endpoints.use_session_servers("ses_1", [SessionMcpServer("docs", ("docs-mcp", "--fast"), {"A": "b"})]),
    extension_endpoints.session_servers("ses_1", wait=2.0),
    extension_endpoints.attach_tools("ses_1", [ClientTool("lookup", "Look up.", {"type": "object"}, "none")]),
    extension_endpoints.attached_tools("ses_1"),
    extension_endpoints.answer_call("ccl_1", ClientResult("a", files=(File("b.png", "image/png", data="QUJD"),))),
    server_endpoints.find_ids("ses_1"),
    server_endpoints.find_ids("ru", kind="run"),
    server_endpoints.fleet(),
    server_endpoints.stats(since="2026-01-01", until="2026-02-01"),
    server_endpoints.metrics(),
    server_endpoints.search("needle", workspace_id="wsp_1", limit=3),
    device_endpoints.pair("ABCD-EFGH-JKMN", name="phone"),
    device_endpoints.pairing_code(scope="answer"),
    device_endpoints.own_device(),
    device_endpoints.forget_own_device(),
    device_endpoints.devices(),
    device_endpoints.rename_device("dev_1", "phone"),
    device_endpoints.revoke_device("dev_1"),
    device_endpoints.pairing_code(scope="drive", person="anna"),
    people_endpoints.people(),
    people_endpoints.add_person("anna", role="drive", workspaces=["/srv/api"]),
    people_endpoints.add_person("bob", role="admin", workspaces=None),
    people_endpoints.change_person("anna", role="watch"),
    people_endpoints.change_person("anna", workspaces=None),
    people_endpoints.remove_person("anna"),
    people_endpoints.make_person_token("anna", label="laptop"),
    people_endpoints.audit(),
    people_endpoints.audit(
        after="3", since="2026-01-01", person="anna", target="ses_1", failed=True, wait=2.5, limit=5
    ),
    device_endpoints.web(),
    device_endpoints.listen_web(),
    device_endpoints.listen_web(host="192.0.2.1", port=8443, certificate="/c.pem", key="/k.pem", names=["a.example"]),
    device_endpoints.stop_web(),
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
        connect_endpoints.events_target(),
        connect_endpoints.events_target(workspace_id="wsp_1", session_id="ses_1", viewing="ses_1"),
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


@pytest.mark.parametrize("make", [lambda text: run_endpoints.shell("ses_1", text), server_endpoints.search])
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
    made, given = run_endpoints.start_run("ses_1", RunRequest(prompt="a")), run_endpoints.start_run("ses_1", REQUEST)
    assert b'"run_id":"run_' in (made.body or b"")
    assert b'"run_id":"run_1"' in (given.body or b"")
    assert made.key is None


def test_changes_have_an_idempotency_key_and_reads_have_none() -> None:
    first, second = run_endpoints.pause("ses_1"), run_endpoints.pause("ses_1")
    assert first.headers["Idempotency-Key"].startswith("key_")
    assert first.key != second.key
    assert session_endpoints.session("ses_1").headers == {}


def test_paths_and_queries_are_percent_encoded() -> None:
    assert api_path("sessions", "a/../b c?") == "/v1/sessions/a%2F..%2Fb%20c%3F"
    assert with_query("/x", {"q": "ä &=", "none": None, "on": True, "n": 2}) == "/x?q=%C3%A4%20%26%3D&on=true&n=2"
