"""The main operations on asyncio's loop, which the server uses, and on uvloop, over the socket and over TCP."""

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest
import uvloop

from holdfast.server import ServerLimits
from holdfast.testing import Answer, Gate, Say
from tests.support.running_server import answering, run_server, until

Run = Callable[[Coroutine[Any, Any, None]], None]


@pytest.fixture(params=["asyncio", "uvloop"])
def run(request: pytest.FixtureRequest) -> Run:
    factory = uvloop.new_event_loop if request.param == "uvloop" else asyncio.new_event_loop

    def run_on_loop(work: Coroutine[Any, Any, None]) -> None:
        with asyncio.Runner(loop_factory=factory) as runner:
            runner.run(work)

    return run_on_loop


@pytest.mark.promise("R1", "E2", "E3", "C3")
def test_a_run_is_accepted_streamed_cancelled_and_read(run: Run, home: Path) -> None:
    async def story() -> None:
        answer = Answer(pieces=(Say("begun "), Gate("never")))
        async with run_server(home, answering(answer)) as server:
            for http in (server.http, server.tcp):
                async with http.stream("/v1/events") as stream:
                    await stream.data()
                    session_id = await server.session()
                    body = {"prompt": "go"}
                    accepted = (await http.post(f"/v1/sessions/{session_id}/runs", body)).ok(202)
                    if http is server.http:
                        assert (await stream.until("delta"))["text"] == "begun "
                        receipt = (await http.post(f"/v1/sessions/{session_id}/cancel")).ok()
                        assert [line["ended_as"] for line in receipt["runs"]] == ["cancelled"]
                    finished = await stream.until("run.finished")
                    read = (await http.get(f"/v1/runs/{accepted['run']['id']}?wait=20")).ok()
                    assert finished["run"] == read

    run(story())


@pytest.mark.promise("W5", "E4")
def test_readers_that_leave_or_stall_are_noticed_and_a_stop_ends_all(run: Run, home: Path) -> None:
    async def story() -> None:
        long = "x" * 300_000
        async with run_server(home, answering(Answer(pieces=(Say(long, chunk=500),)))) as server:
            leaving = await server.http.open_stream("/v1/events")
            stalled = await server.tcp.open_stream("/v1/events")
            await leaving.close()
            await until(lambda: server.app.services.presence.streams == 1)
            accepted = await server.prompt(await server.session())
            assert (await server.ended(accepted["run"]["id"]))["text"] == long
            server.stop()
            await server.serving
            await stalled.close()

    run(story())


def test_slow_and_large_requests_are_refused(run: Run, home: Path) -> None:
    async def story() -> None:
        limits = ServerLimits(head_bytes=4096, head_seconds=0.05, body_seconds=0.05)
        async with run_server(home, limits=limits) as server:
            for http in (server.http, server.tcp):
                assert (await http.raw(b"GET /v1/he")).startswith(b"HTTP/1.1 408 ")
                assert (await http.raw(b"GET / HTTP/1.1\r\nA: " + b"b" * 5000)).startswith(b"HTTP/1.1 431 ")
                body = http.head("POST", "/v1/workspaces", {"Content-Length": "9"})
                assert (await http.raw(body)).startswith(b"HTTP/1.1 408 ")

    run(story())
