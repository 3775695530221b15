"""An editor that breaks the protocol, or leaves at any point: every message has an answer, and nothing is lost."""

import asyncio
import json
import os
import signal
import threading
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from acp.exceptions import RequestError

from holdfast.acp import acp_connection
from holdfast.acp.acp_agent import AcpAgent
from holdfast.acp.acp_connection import (
    LARGEST_MESSAGE,
    EditorGone,
    LineSplitter,
    LineTransport,
    UnfinishedWork,
    read_json,
    shape_problem,
)
from tests.acp.acp_peer import editor_in_process, editor_server, server_env, start_agent
from tests.acp.leaving_editor import open_pipes
from tests.support.running_server import RunningServer
from tests.support.stress import StressShare


@pytest.fixture
async def server(home: Path) -> AsyncIterator[RunningServer]:
    async with editor_server(home) as server:
        yield server


def _line(**message: Any) -> bytes:
    return json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n"


RELAYED = {"type": "acp", "name": "relayed", "serverId": "1"}
FURTHER = {"additionalDirectories": ["/tmp"]}
INITIALIZE = _line(id=1, method="initialize", params={"protocolVersion": 1})


def _nested(depth: int) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for _ in range(depth):
        found = {"deeper": found}
    return found


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
        (_line(id=19, method="session/list", params={"_meta": _nested(500)}), 19, -32602),
        (_line(id=21, method="session/new", params={"cwd": "/", "mcpServers": [{"type": "http"}]}), 21, -32602),
        (_line(id=22, method="session/new", params={"cwd": "/", "mcpServers": [RELAYED]}), 22, -32602),
        (_line(id=23, method="session/new", params={**FURTHER, "cwd": "/", "mcpServers": []}), 23, -32602),
        (_line(id=24, method="session/new", params={"cwd": ["x" * 100_000], "mcpServers": []}), 24, -32602),
        (_line(id="again", method="initialize", params={"protocolVersion": 99}), "again", None),
    ]
    for line, number, code in sent:
        process.stdin.write(line)
        answer = json.loads(await process.stdout.readline())
        assert (answer["id"], answer.get("error", {}).get("code")) == (number, code), (line[:200], answer)
        assert len(str(answer)) < 2000, "what was sent is not sent back"
    for ignored in (_line(method="no/such"), _line(id=99, result={}), b"\n", _line(method="session/cancel", params={})):
        process.stdin.write(ignored)
    process.send_signal(signal.SIGINT)  # Ctrl-C in the terminal of the client, which decides what it means
    process.stdin.write(_line(id=20, method="session/new", params={"cwd": str(server.work), "mcpServers": []}))
    assert json.loads(await process.stdout.readline())["id"] == 20
    process.stdin.close()
    assert await process.wait() == 0
    assert (await server.http.get(f"/v1/workspaces/{server.workspace_id}/sessions")).ok()["items"] == []


async def test_two_requests_with_one_id_have_an_answer_each(server: RunningServer) -> None:
    async with open_pipes(server) as (editor, serving):
        editor.say("initialize", id=1, method="initialize", params={"protocolVersion": 1})
        await editor.until(answer=1)
        editor.say("new", id=2, method="session/new", params={"cwd": str(server.work), "mcpServers": []})
        editor.session = (await editor.until(answer=2))["result"]["sessionId"]
        editor.prompt(3, "!say one")
        editor.prompt(3, "!say two")
        for _ in range(2):
            assert (await editor.until(answer=3))["result"]["stopReason"] == "end_turn"
            editor.answers.clear()
        os.close(editor.writes)
        await serving


async def test_an_editor_that_reads_no_answers_is_left(server: RunningServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(acp_connection, "_MOST_UNFINISHED", 50)
    monkeypatch.setattr(acp_connection, "_STUCK_SECONDS", 0.5)
    to_agent, from_editor = os.pipe()
    unread, from_agent = os.pipe()
    serving = asyncio.create_task(AcpAgent(env=server_env(server), reads=to_agent, writes=from_agent).run())
    padding = {"_meta": {"padding": "x" * 1000}}
    sent = INITIALIZE + b"".join(_line(id=n, method=f"no/{'x' * 900}", params=padding) for n in range(2, 2000))
    writing = asyncio.create_task(asyncio.to_thread(_write_all, from_editor, sent))
    await serving
    os.close(to_agent)
    assert await writing < len(sent), "what the editor sends is not read without end"
    os.close(unread)
    await _joined("acp:stdout")
    for descriptor in (from_editor, from_agent):
        os.close(descriptor)


async def test_an_answer_takes_the_room_of_its_message() -> None:
    work = UnfinishedWork(2)
    work.add()
    await work.has_room(seconds=0)
    work.add()
    waiting = asyncio.create_task(work.has_room(seconds=60))
    for _ in range(3):  # handled, and the answer waits to be written: nothing more is read
        await asyncio.sleep(0)
        work.remove()
        work.add()
    await asyncio.sleep(0)
    assert not waiting.done()
    work.remove()
    await waiting


async def test_a_response_that_cannot_be_written_is_no_error() -> None:
    reads, given = os.pipe()
    taken, writes = os.pipe()
    transport = LineTransport(reads=reads, writes=writes)
    transport.start()
    os.close(taken)
    await transport.send({"jsonrpc": "2.0", "id": 1, "result": {}})
    await transport.send({"jsonrpc": "2.0", "id": 2, "result": {}})
    with pytest.raises(EditorGone):
        await transport.send({"jsonrpc": "2.0", "method": "session/update", "params": {}})
    assert await transport.receive() is None
    await transport.close()
    os.close(given)
    await _joined("acp:stdin")
    for descriptor in (reads, writes):
        os.close(descriptor)


async def test_what_was_said_last_is_written_before_the_connection_closes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise a thread would write it to whatever file has the number of the pipe by then."""
    monkeypatch.setattr(acp_connection, "_LAST_WRITES_SECONDS", 30.0)
    reads, given = os.pipe()
    taken, writes = os.pipe()
    transport = LineTransport(reads=reads, writes=writes)
    transport.start()
    transport.send_soon({"jsonrpc": "2.0", "method": "x" * 1_000_000})
    closing = asyncio.create_task(transport.close())
    assert await asyncio.to_thread(os.read, taken, 1) == b"{"  # the rest does not fit into the pipe
    assert not closing.done()
    with open(taken, "rb") as file:
        assert len(await asyncio.to_thread(file.readline)) > 1_000_000
        await closing
    os.close(given)
    await _joined("acp:stdin")
    for descriptor in (reads, writes):
        os.close(descriptor)


async def _joined(name: str) -> None:
    for thread in threading.enumerate():
        if thread.name == name:
            await asyncio.to_thread(thread.join)


def _write_all(descriptor: int, data: bytes) -> int:
    """How many bytes were taken before the other side closed."""
    taken = 0
    with suppress(OSError):
        while taken < len(data):
            taken += os.write(descriptor, data[taken : taken + 4096])
    return taken


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
