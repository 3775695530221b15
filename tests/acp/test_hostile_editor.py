"""An editor that breaks the protocol, or leaves at any point: every message has an answer, and nothing is lost."""

import asyncio
import json
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from acp.exceptions import RequestError

from holdfast.acp.acp_connection import LARGEST_MESSAGE, LineSplitter, LineTransport, read_json, shape_problem
from tests.acp.acp_peer import editor_in_process, editor_server, start_agent
from tests.support.running_server import RunningServer
from tests.support.stress import StressShare


@pytest.fixture
async def server(home: Path) -> AsyncIterator[RunningServer]:
    async with editor_server(home) as server:
        yield server


def _line(**message: Any) -> bytes:
    return json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n"


INITIALIZE = _line(id=1, method="initialize", params={"protocolVersion": 1})


async def test_rubbish_is_answered_and_the_connection_goes_on(server: RunningServer) -> None:
    process = await start_agent(server)
    assert process.stdin is not None
    assert process.stdout is not None
    deep = b"[" * 100_000
    sent = [
        (b"not json\n", None, -32700),
        (b"\xff\xfe\x00\n", None, -32700),
        (deep + b"\n", None, -32700),
        (b"[]\n", None, -32600),
        (b'"text"\n', None, -32600),
        (b'{"id": {}, "method": "initialize"}\n', None, -32600),
        (b'{"id": 7, "method": 5}\n', 7, -32600),
        (b'{"id": 8, "method": "initialize", "params": []}\n', 8, -32600),
        (b'{"id": 9, "error": "no"}\n', 9, -32600),
        (_line(id=10, method="session/new", params={"cwd": "/", "mcpServers": []}), 10, -32600),  # not initialized
        (INITIALIZE, 1, None),
        (_line(id=11, method="no/such/method"), 11, -32601),
        (_line(id=12, method="session/new", params={"cwd": 5}), 12, -32602),
        (_line(id=13, method="session/new", params={"cwd": "relative", "mcpServers": []}), 13, -32602),
        (_line(id=14, method="session/new", params={"cwd": "/nowhere/at/all", "mcpServers": []}), 14, -32602),
        (_line(id=15, method="session/prompt", params={"sessionId": "ses_x", "prompt": []}), 15, -32002),
        (_line(id=16, method="session/load", params={"sessionId": "x", "cwd": "/", "mcpServers": []}), 16, -32002),
        (_line(id=17, method="authenticate", params={"methodId": "magic"}), 17, -32602),
        (_line(id=18, method="session/list", params={"cursor": "rubbish"}), 18, -32602),
        (_line(id="again", method="initialize", params={"protocolVersion": 99}), "again", None),
    ]
    for line, number, code in sent:
        process.stdin.write(line)
        answer = json.loads(await process.stdout.readline())
        assert (answer["id"], answer.get("error", {}).get("code")) == (number, code), (line[:200], answer)
    for ignored in (_line(method="no/such"), _line(id=99, result={}), b"\n", _line(method="session/cancel", params={})):
        process.stdin.write(ignored)
    process.stdin.write(_line(id=20, method="session/new", params={"cwd": str(server.work), "mcpServers": []}))
    assert json.loads(await process.stdout.readline())["id"] == 20
    process.stdin.close()
    assert await process.wait() == 0
    assert (await server.http.get(f"/v1/workspaces/{server.workspace_id}/sessions")).ok()["items"] == []


async def test_a_huge_message_is_refused_and_the_next_one_is_read(server: RunningServer) -> None:
    lines = LineSplitter(10)
    assert lines.feed(b"12345678") == []
    assert lines.feed(b"901\nab") == [None]
    assert lines.feed(b"c\nde") == [b"abc"]
    assert lines.feed(b"") == [b"de"]
    async with editor_in_process(server) as peer:
        await peer.initialize()
        session = await peer.new(server.work)
        with pytest.raises(RequestError, match="send less"):
            await peer.prompt(session, "x" * (40 << 20))
        assert (await peer.prompt(session, "!say still here")).stop_reason == "end_turn"
    assert LARGEST_MESSAGE > 40 << 20


@pytest.mark.parametrize(
    ("line", "found"),
    [
        (b'{"a": "\\ud83d\\ude00"}', {"a": "😀"}),
        (b'{"a": "\\ud83d"}', {"a": "\N{REPLACEMENT CHARACTER}"}),
        (b'{"a\\udc00": ["\\ud800"]}', {"a\N{REPLACEMENT CHARACTER}": ["\N{REPLACEMENT CHARACTER}"]}),
    ],
)
def test_lone_surrogates_are_repaired(line: bytes, found: object) -> None:
    assert read_json(line) == found


def test_messages_of_the_right_shape_are_taken() -> None:
    for message in ({"method": "x"}, {"id": 1, "method": "x", "params": {}}, {"id": "a", "result": None}):
        assert shape_problem(message) == ""


async def _sessions(server: RunningServer) -> list[str]:
    found = (await server.http.get(f"/v1/workspaces/{server.workspace_id}/sessions?limit=1000")).ok()["items"]
    return sorted(one["id"] for one in found)


async def _leave_inside(server: RunningServer, byte: int) -> None:
    """Close stdin after some bytes of the first messages: no session is left in the list."""
    before = await _sessions(server)
    process = await start_agent(server)
    await process.communicate(_opening(server)[:byte])
    assert process.returncode == 0, byte
    assert await _sessions(server) == before, byte


def _opening(server: RunningServer) -> bytes:
    return INITIALIZE + _line(id=2, method="session/new", params={"cwd": str(server.work), "mcpServers": []})


@pytest.mark.parametrize("end", [b"", b"\n", b'\n{"method":', b'\n{"method": "second"}'])
async def test_the_last_message_needs_no_end_of_its_line(end: bytes) -> None:
    reads, given = os.pipe()
    taken, writes = os.pipe()
    transport = LineTransport(reads=reads, writes=writes)
    transport.start()
    os.write(given, b'{"method": "first"}' + end)
    os.close(given)
    found = []
    while (message := await transport.receive()) is not None:
        found.append(message["method"])
    assert found == (["first", "second"] if b"second" in end else ["first"])
    assert await transport.receive() is None
    await transport.close()
    for descriptor in (reads, taken):
        os.close(descriptor)


STEPS = ["nothing", "half a line", "initialize", "new", "prompt", "text", "permission", "cancel"]


async def _leave_after(server: RunningServer, step: str) -> None:
    """Close stdin after a step, and check that the process ends and that what was accepted goes on."""
    before = await _sessions(server)
    process = await start_agent(server)
    assert process.stdin is not None
    assert process.stdout is not None
    session = ""

    async def until(text: str) -> Any:
        assert process.stdout is not None
        while True:
            line = await process.stdout.readline()
            assert line, f"it ended without {text!r}"
            if text in line.decode():
                return json.loads(line)

    if step == "half a line":
        process.stdin.write(INITIALIZE[:20])
    if STEPS.index(step) >= STEPS.index("initialize"):
        process.stdin.write(INITIALIZE)
    if STEPS.index(step) >= STEPS.index("new"):
        process.stdin.write(_line(id=2, method="session/new", params={"cwd": str(server.work), "mcpServers": []}))
    if STEPS.index(step) >= STEPS.index("prompt"):
        session = (await until('"id":2'))["result"]["sessionId"]
        order = "!bash touch allowed" if step == "permission" else "!hang a text"
        prompt = [{"type": "text", "text": order}]
        process.stdin.write(_line(id=3, method="session/prompt", params={"sessionId": session, "prompt": prompt}))
    if step in ("text", "cancel"):
        await until("a text")
    if step == "permission":
        await until("session/request_permission")
    if step == "cancel":
        process.stdin.write(_line(method="session/cancel", params={"sessionId": session}))
    process.stdin.close()
    rest = asyncio.create_task(process.stdout.read())
    assert await process.wait() == 0
    await rest
    if not session:
        assert await _sessions(server) == before
        return
    (run,) = (await server.http.get(f"/v1/sessions/{session}/runs")).ok()["items"]
    if step == "cancel":
        assert (await server.ended(run["id"]))["state"] == "cancelled"
    else:
        assert run["state"] == "active"
        (await server.http.post(f"/v1/runs/{run['id']}/cancel", {})).ok()


@pytest.mark.promise("R10")
@pytest.mark.parametrize("step", ["nothing", "new", "prompt", "permission", "cancel"])
async def test_the_editor_closes_stdin(server: RunningServer, step: str) -> None:
    await _leave_after(server, step)


@pytest.mark.stress(weight=2)
@pytest.mark.timeout(600)
async def test_the_editor_closes_stdin_at_any_point(server: RunningServer, share: StressShare) -> None:
    for number in share.rounds(at_least=len(STEPS)):
        await _leave_after(server, STEPS[number % len(STEPS)])
        ends = [len(INITIALIZE) - 1, len(INITIALIZE), len(_opening(server)) - 1, len(_opening(server))]
        inside = share.random.randrange(len(_opening(server)))
        await _leave_inside(server, share.random.choice([*ends, inside, inside]))
        share.count("editors that left", 2)


async def _cancel_race(server: RunningServer, peer: Any, session: str, number: int, wait: int) -> None:
    """Two prompts and a cancel, with ``wait`` turns of the event loop before each; then a prompt after it."""
    prompts = []
    for name in ("first", "second"):
        prompts.append(asyncio.create_task(peer.prompt(session, f"!hang {name} {number}")))
        await peer.until(lambda: sum(m.get("method") == "session/prompt" for _, m in peer.messages) == len(prompts))
        for _ in range(wait):
            await asyncio.sleep(0)
    await peer.connection.cancel(session)
    after = asyncio.create_task(peer.prompt(session, f"!say after {number}"))
    reasons = [(await prompt).stop_reason for prompt in prompts]
    assert reasons == ["cancelled", "cancelled"], number
    assert (await after).stop_reason == "end_turn", number
    answers = [m["id"] for who, m in peer.messages if who == "agent" and "result" in m]
    assert len(answers) == len(set(answers))


async def _races(server: RunningServer, waits: list[int]) -> None:
    async with editor_in_process(server) as peer:
        await peer.initialize()
        session = await peer.new(server.work)
        for number, wait in enumerate(waits):
            await _cancel_race(server, peer, session, number, wait)
            assert peer.wrong == []
            peer.messages.clear()
    runs = (await server.http.get(f"/v1/sessions/{session}/runs?limit=1000")).ok()["items"]
    assert len(runs) == 3 * len(waits)
    for run in runs:
        wanted = "completed" if "!say" in run["prompt"] else "cancelled"
        assert run["state"] == wanted, run


@pytest.mark.promise("C1")
async def test_cancel_races_with_prompts(server: RunningServer) -> None:
    await _races(server, [0, 1, 2, 3, 5, 8, 13, 40, 100, 400])


@pytest.mark.promise("C1")
@pytest.mark.stress(weight=2)
@pytest.mark.timeout(900)
async def test_200_cancel_races_with_prompts(server: RunningServer, share: StressShare) -> None:
    await _races(server, [share.random.choice([0, 1, 3, 10, 30, 100, 300, 1000]) for _ in range(share.full(200))])
    share.count("cancel races", share.full(200))
