"""A client of Crush's protocol for tests: plain HTTP and SSE, without code of Holdfast's clients."""

import asyncio
import json
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from holdfast.runs import EngineLimits
from holdfast.testing import TestProvider
from tests.support.engine_harness import LONG_LIMITS
from tests.support.http_client import Answer, HttpClient
from tests.support.running_server import RunningServer, run_server


class CrushEvents:
    """An open stream. Its body ends with the connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self.seen: list[tuple[str, str, dict[str, Any]]] = []
        """Kind, change and payload of all envelopes so far."""

    async def next(self) -> tuple[str, str, dict[str, Any]] | None:
        while line := await self._reader.readline():
            if line.strip():
                assert line.startswith(b"data: "), line
                found = json.loads(line[6:])
                self.seen.append((found["type"], found["payload"]["type"], found["payload"]["payload"]))
                return self.seen[-1]
        return None

    async def until(self, kind: str, **fields: Any) -> dict[str, Any]:
        """The payload of the next envelope of this kind with these fields."""
        while (found := await self.next()) is not None:
            if found[0] == kind and fields.items() <= found[2].items():
                return found[2]
        raise AssertionError(f"the stream ended without {kind} {fields}")

    async def until_text(self, text: str) -> dict[str, Any]:
        """The next message that contains the text."""
        while (found := await self.next()) is not None:
            if found[0] == "message" and text in text_of(found[2]):
                return found[2]
        raise AssertionError(f"the stream ended without {text!r}")

    def ends(self, run_id: str) -> list[dict[str, Any]]:
        """The ends of a run so far."""
        return [payload for kind, _, payload in self.seen if kind == "run_complete" and payload.get("run_id") == run_id]

    def errors(self) -> list[dict[str, Any]]:
        """The error events so far."""
        return [payload for kind, _, payload in self.seen if kind == "agent_event" and payload["type"] == "error"]

    async def close(self) -> None:
        self._writer.close()
        try:
            await self._writer.wait_closed()
        except ConnectionError:
            pass


class CrushWire:
    """A client with an id of its own, and a workspace that it has opened."""

    def __init__(self, socket: Path, server: RunningServer) -> None:
        self.http = HttpClient(str(socket))
        self.server = server
        self.client_id = str(uuid.uuid4())
        self.workspace_id = ""

    async def open(self, **body: Any) -> dict[str, Any]:
        sent = {"path": str(self.server.work), "client_id": self.client_id, **body}
        workspace: dict[str, Any] = (await self.http.post("/v1/workspaces", sent)).ok()
        self.workspace_id = workspace["id"]
        return workspace

    async def another(self) -> "CrushWire":
        """A second client of the same workspace."""
        other = CrushWire(Path(self.http._address), self.server)  # type: ignore[arg-type]
        await other.open()
        return other

    def path(self, path: str) -> str:
        return f"/v1/workspaces/{self.workspace_id}{path}"

    async def get(self, path: str) -> Any:
        return (await self.http.get(self.path(path))).ok()

    async def post(self, path: str, body: Any = None) -> Answer:
        return await self.http.post(self.path(path), body)

    async def session(self, title: str = "") -> str:
        found: str = (await self.post("/sessions", {"title": title})).ok()["id"]
        return found

    async def prompt(self, session_id: str, prompt: str, run_id: str = "") -> Answer:
        body = {"session_id": session_id, "prompt": prompt, **({"run_id": run_id} if run_id else {})}
        return await self.post("/agent", body)

    async def accepted(self, session_id: str, prompt: str, run_id: str = "") -> None:
        answer = await self.prompt(session_id, prompt, run_id)
        assert (answer.status, answer.body) == (202, b""), answer.body

    async def cancel(self, session_id: str) -> None:
        answer = await self.post(f"/agent/sessions/{session_id}/cancel")
        assert (answer.status, answer.body) == (200, b"")

    async def show(self, session_id: str) -> None:
        """Say that this client shows a session, as Crush's interface does."""
        answer = await self.post(f"/current-session?client_id={self.client_id}", {"session_id": session_id})
        assert answer.status == 200, answer.body

    async def messages(self, session_id: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = await self.get(f"/sessions/{session_id}/messages")
        return found

    async def open_events(self) -> CrushEvents:
        reader, writer = await self.http.connect()
        target = self.path(f"/events?client_id={self.client_id}")
        writer.write(f"GET {target} HTTP/1.1\r\nHost: api.crush.localhost\r\n\r\n".encode())
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        assert head.startswith("HTTP/1.1 200"), head
        assert "chunked" not in head
        return CrushEvents(reader, writer)

    @asynccontextmanager
    async def events(self) -> AsyncIterator[CrushEvents]:
        events = await self.open_events()
        try:
            yield events
        finally:
            await events.close()


@asynccontextmanager
async def crush_wire(
    directory: Path, provider: TestProvider | None = None, *, engine_limits: EngineLimits = LONG_LIMITS, **options: Any
) -> AsyncIterator[CrushWire]:
    """A server with a socket for Crush's clients, and a client that has opened its workspace."""
    socket = directory / "crush.sock"
    address = f"unix://{socket}"
    async with run_server(directory, provider, crush=address, engine_limits=engine_limits, **options) as server:
        wire = CrushWire(socket, server)
        await wire.open()
        yield wire


def parts_of(message: dict[str, Any], kind: str) -> list[dict[str, Any]]:
    return [part["data"] for part in message["parts"] if part["type"] == kind]


def text_of(message: dict[str, Any]) -> str:
    return "".join(part["text"] for part in parts_of(message, "text"))


def summary(messages: list[dict[str, Any]]) -> list[tuple[str, str, str]]:
    """Role, text and finish reason of each message."""
    return [
        (one["role"], text_of(one), next((part["reason"] for part in parts_of(one, "finish")), "")) for one in messages
    ]
