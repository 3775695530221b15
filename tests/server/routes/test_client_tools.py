"""Tools that a client executes, over HTTP (`W13`)."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from holdfast.testing import Answer, Call, Say, calls
from tests.support.http_client import HttpClient, Stream
from tests.support.running_server import RunningServer, answering, run_server

pytestmark = pytest.mark.promise("W13")

LOOKUP = {
    "name": "lookup",
    "description": "Look a word up.",
    "parameters": {"type": "object", "properties": {"word": {"type": "string"}}, "required": ["word"]},
    "effect": "none",
}
CALLING = calls(Call("lookup", {"word": "holdfast"}))
DONE = Answer(pieces=(Say("Done."),))


class Program:
    """A client with an open stream and a tool."""

    def __init__(self, server: RunningServer, http: HttpClient, session_id: str, stream: Stream) -> None:
        self.server = server
        self.http = http
        self.session_id = session_id
        self.stream = stream

    async def attach(self, *tools: dict[str, Any]) -> Any:
        return await self.http.send("PUT", f"/v1/sessions/{self.session_id}/tools", {"tools": list(tools)})

    async def requested(self) -> dict[str, Any]:
        call: dict[str, Any] = (await self.stream.until("call.requested"))["call"]
        return call

    async def result(self, run_id: str) -> dict[str, Any]:
        """The result of the tool call in the session's messages."""
        await self.server.ended(run_id)
        messages = (await self.http.get(f"/v1/sessions/{self.session_id}/messages")).ok()["items"]
        (found,) = [part for message in messages for part in message["parts"] if part["type"] == "tool_result"]
        return dict(found)


@asynccontextmanager
async def program(server: RunningServer, *tools: dict[str, Any], name: str = "sdk/1 cli_sdk") -> AsyncIterator[Program]:
    session_id = await server.session()
    http = server.http.named(name)
    async with http.stream(f"/v1/workspaces/{server.workspace_id}/events?session={session_id}") as stream:
        await stream.until("hello")
        one = Program(server, http, session_id, stream)
        (await one.attach(*tools)).ok()
        yield one


async def test_the_model_calls_a_tool_that_a_client_executes(home: Path) -> None:
    async with run_server(home, answering(CALLING, DONE)) as server, program(server, LOOKUP) as one:
        listed = (await server.http.get(f"/v1/sessions/{one.session_id}/tools")).ok()["items"]
        assert [(item["client"], item["tools"][0]["name"]) for item in listed] == [("sdk/1 cli_sdk", "lookup")]
        run = (await server.prompt(one.session_id))["run"]["id"]
        call = await one.requested()
        assert (call["tool"], call["arguments"], call["run_id"]) == ("lookup", {"word": "holdfast"}, run)
        async with server.http.stream("/v1/events") as late:  # a stream that is opened later begins with the open calls
            assert (await late.until("call.requested"))["call"] == call
        target = f"/v1/client-calls/{call['id']}"
        assert (await server.http.post(target, {"text": "forged"})).status == 403
        assert (await one.http.post(target, {"text": "a root of a seaweed"})).ok()["state"] == "answered"
        assert (await one.stream.until("call.closed"))["call"]["state"] == "answered"
        found = await one.result(run)
        assert ("status" in found, found["text"]) == (False, "a root of a seaweed")
        late_answer = await one.http.post(target, {"text": "other"})
        assert (late_answer.status, late_answer.code) == (409, "call_closed")
        request = next(request.body for request in server.provider.requests if "tools" in request.body)
        offered = {tool["function"]["name"]: tool["function"] for tool in request["tools"]}
        assert offered["lookup"]["parameters"] == LOOKUP["parameters"]


@pytest.mark.promise("C8", "W4")
async def test_a_tool_that_does_something_needs_approval_and_a_cancel_closes_its_call(home: Path) -> None:
    async with (
        run_server(home, answering(CALLING)) as server,
        program(server, {**LOOKUP, "effect": "runs"}) as one,
    ):
        run = (await server.prompt(one.session_id))["run"]["id"]
        approval = (await one.stream.until("approval.requested"))["approval"]
        assert (approval["tool"], approval["patterns"]) == ("lookup", ["lookup"])
        (await server.http.post(f"/v1/approvals/{approval['id']}", {"decision": "once"})).ok()
        call = await one.requested()
        receipt = (await server.http.post(f"/v1/runs/{run}/cancel")).ok()
        assert [covered["ended_as"] for covered in receipt["runs"]] == ["cancelled"]
        assert (await one.stream.until("call.closed"))["call"]["state"] == "cancelled"
        assert (await one.http.post(f"/v1/client-calls/{call['id']}", {"text": "late"})).status == 409
        assert (await one.result(run))["status"] == "cancelled"


async def test_a_client_that_disconnects_ends_the_call_and_the_run_goes_on(home: Path) -> None:
    async with run_server(home, answering(CALLING, DONE)) as server:
        server.app.shared.client_calls._reconnect_seconds = 0.0
        async with program(server, LOOKUP) as one:
            run = (await server.prompt(one.session_id))["run"]["id"]
            await one.requested()
        found = await one.result(run)
        assert (found["status"], "is gone" in found["text"]) == ("error", True)
        assert (await server.ended(run))["text"] == "Done."
        assert (await server.http.get(f"/v1/sessions/{one.session_id}/tools")).ok()["items"] == []


@pytest.mark.promise("W6", "C6")
async def test_a_server_that_stops_during_a_call_leaves_a_valid_history_and_no_tools(home: Path) -> None:
    async with run_server(home, answering(CALLING)) as server, program(server, LOOKUP) as one:
        run = (await server.prompt(one.session_id))["run"]["id"]
        call = await one.requested()
        server.stop()
        await server.serving
    async with run_server(home, answering(DONE)) as server:
        assert (await server.ended(run))["state"] == "interrupted"
        assert (await server.http.get(f"/v1/sessions/{one.session_id}/tools")).ok()["items"] == []
        assert (await server.http.named("sdk/1 cli_sdk").post(f"/v1/client-calls/{call['id']}", {})).status == 404
        again = (await server.prompt(one.session_id))["run"]["id"]
        assert (await server.ended(again))["state"] == "completed"


@pytest.mark.promise("W9")
async def test_tools_that_cannot_be_attached_are_refused(home: Path) -> None:
    async with run_server(home) as server, program(server, LOOKUP) as one:

        async def refusal(*tools: dict[str, Any]) -> tuple[int, str]:
            answer = await one.attach(*tools)
            return answer.status, answer.code

        for name in ("", "a b", "a__b", "ä", "x" * 65):
            assert await refusal({"name": name}) == (400, "invalid_request"), name
        assert await refusal({"name": "bash"}) == (409, "tool_name_taken")
        assert await refusal(LOOKUP, LOOKUP) == (409, "tool_name_taken")
        assert await refusal({"name": "a", "parameters": {"type": "string"}}) == (400, "invalid_request")
        assert await refusal({"name": "a", "parameters": {"properties": 7}}) == (400, "invalid_request")
        target = f"/v1/sessions/{one.session_id}/tools"
        silent = await server.http.named("sdk/1 other").send("PUT", target, {"tools": [LOOKUP]})
        assert (silent.status, silent.code) == (409, "no_stream")
        anonymous = await server.tcp.send("PUT", target, {"tools": [LOOKUP]})
        assert anonymous.status == 400
        assert (await one.attach()).ok()["tools"] == []
