"""An editor that closes stdin or stdout of its agent at a chosen byte, in the middle of a whole conversation."""

import asyncio
import json
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from holdfast.acp.acp_agent import AcpAgent
from tests.acp.acp_peer import server_env
from tests.support.running_server import RunningServer

EVERYTHING = 1 << 30


class Left(Exception):
    """The editor has closed its side."""


def line(**message: Any) -> bytes:
    return json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n"


@dataclass
class Departure:
    """Where an editor leaves: after this many bytes that it wrote, or that it read."""

    written: int = EVERYTHING
    read: int = EVERYTHING


@dataclass
class LeavingEditor:
    """Talks to an agent on two pipes. It notes which of its messages were whole when it left."""

    writes: int
    reader: asyncio.StreamReader
    departure: Departure
    close_output: Callable[[], None]
    whole: list[str] = field(default_factory=list)
    ends: dict[str, int] = field(default_factory=dict)
    """How many bytes were written when a message was whole."""
    written: int = 0
    read: int = 0
    session: str = ""
    answers: dict[object, dict[str, Any]] = field(default_factory=dict)

    def say(self, name: str, **message: Any) -> None:
        data = line(**message)
        given = data[: self.departure.written - self.written]
        os.write(self.writes, given)
        self.written += len(given)
        if len(given) >= len(data) - 1:  # the last line needs no end
            self.whole.append(name)
            self.ends[name] = self.written
        if self.written >= self.departure.written:
            raise Left

    def prompt(self, number: int, order: str) -> None:
        blocks = [{"type": "text", "text": order}]
        self.say(order, id=number, method="session/prompt", params={"sessionId": self.session, "prompt": blocks})

    async def until(self, *, answer: int | None = None, text: str = "") -> dict[str, Any]:
        """The answer to a request, or the first message with this text."""
        while answer is None or answer not in self.answers:
            data = await self.reader.readline()
            self.read += len(data)
            if self.read >= self.departure.read:
                self.close_output()
                raise Left
            assert data, f"the agent ended without {answer or text!r}"
            message: dict[str, Any] = json.loads(data)
            if "method" not in message:
                self.answers[message["id"]] = message
            elif text and text in data.decode():
                return message
        return self.answers[answer]


ORDERS = ("!say hello", "!bash touch {name}", "!hang first", "!hang second", "!say after")


async def converse(editor: LeavingEditor, *, directory: str, name: str) -> None:
    """A prompt, a tool with a permission, a queued prompt, a cancel, and a prompt after it."""
    editor.say("initialize", id=1, method="initialize", params={"protocolVersion": 1})
    await editor.until(answer=1)
    editor.say("new", id=2, method="session/new", params={"cwd": directory, "mcpServers": []})
    editor.session = (await editor.until(answer=2))["result"]["sessionId"]
    hello, tool, first, second, after = (order.format(name=name) for order in ORDERS)
    editor.prompt(3, hello)
    assert (await editor.until(answer=3))["result"]["stopReason"] == "end_turn"
    editor.prompt(4, tool)
    asked = await editor.until(text="session/request_permission")
    editor.say("permission", id=asked["id"], result={"outcome": {"outcome": "selected", "optionId": "once"}})
    assert (await editor.until(answer=4))["result"]["stopReason"] == "end_turn"
    editor.prompt(5, first)
    await editor.until(text="first")
    editor.prompt(6, second)
    await editor.until(text="Queued")
    editor.say("cancel", method="session/cancel", params={"sessionId": editor.session})
    editor.prompt(7, after)
    reasons = [(await editor.until(answer=number))["result"]["stopReason"] for number in (5, 6, 7)]
    assert reasons == ["cancelled", "cancelled", "end_turn"]


@asynccontextmanager
async def open_pipes(
    server: RunningServer, departure: Departure | None = None
) -> AsyncIterator[tuple[LeavingEditor, asyncio.Task[None]]]:
    to_agent, from_editor = os.pipe()
    to_editor, from_agent = os.pipe()
    serving = asyncio.create_task(AcpAgent(env=server_env(server), reads=to_agent, writes=from_agent).run())
    reader = asyncio.StreamReader(limit=1 << 24)
    loop = asyncio.get_running_loop()
    incoming, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(to_editor, "rb"))
    try:
        yield LeavingEditor(from_editor, reader, departure or Departure(), incoming.close), serving
    finally:
        incoming.close()
        os.close(to_agent)
        os.close(from_agent)


async def leave(server: RunningServer, departure: Departure, *, name: str) -> LeavingEditor:
    """Have the conversation until the editor leaves, and check that nothing that it sent is lost or done twice."""
    async with open_pipes(server, departure) as (editor, serving):
        try:
            await converse(editor, directory=str(server.work), name=name)
        except Left:
            pass
        os.close(editor.writes)
        await asyncio.wait_for(serving, 30)
    await _check(server, editor, name=name)
    return editor


async def _check(server: RunningServer, editor: LeavingEditor, *, name: str) -> None:
    prompts = [order.format(name=name) for order in ORDERS if order.format(name=name) in editor.whole]
    if not prompts:
        listed = (await server.http.get(f"/v1/workspaces/{server.workspace_id}/sessions?limit=1000")).ok()["items"]
        assert editor.session not in {one["id"] for one in listed}, editor.whole
        return
    runs = (await server.http.get(f"/v1/sessions/{editor.session}/runs")).ok()["items"]
    assert sorted(run["prompt"] for run in runs) == sorted(prompts), (editor.whole, runs)
    by_prompt = {run["prompt"]: run["id"] for run in runs}
    hello, tool, first, second, after = (order.format(name=name) for order in ORDERS)
    expected = {hello: "completed", after: "completed"}
    if "permission" in editor.whole:
        expected[tool] = "completed"
    if "cancel" in editor.whole:
        expected |= {first: "cancelled", second: "cancelled"}
    for prompt in prompts:
        if prompt in expected:
            assert (await server.ended(by_prompt[prompt]))["state"] == expected[prompt], (prompt, editor.whole)
        else:
            run = (await server.http.get(f"/v1/runs/{by_prompt[prompt]}")).ok()
            assert run["state"] in ("queued", "active"), (run, editor.whole)
    (await server.http.post(f"/v1/sessions/{editor.session}/cancel", {})).ok()
    for prompt in prompts:
        ended = await server.ended(by_prompt[prompt])
        assert ended["state"] == expected.get(prompt, "cancelled"), (prompt, editor.whole)
    assert (server.work / name).exists() == ("permission" in editor.whole), editor.whole
