"""Recordings of what Crush's clients send and get, and their replay without the client.

A recording is a list of requests with their answers, and of the envelopes of the stream, in order. Ids and paths are
replaced by names, times are not compared. A client asks the same many times, so only the first
of equal requests is kept.
"""

import asyncio
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from holdfast.server.http.request_parsing import Receive
from holdfast.server.http.responses import AsgiApp, Scope, Send
from holdfast.testing import Answer, Call, ReceivedRequest, Say, TestProvider, calls, text
from tests.crush.crush_wire import CrushEvents, CrushWire

FIXTURES = Path(__file__).parent / "fixtures"
_ID = re.compile(r"(?:wsp|ses|run|msg|call|apr|qst)_[0-9a-z]{25}|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_VOLATILE = frozenset(
    {"created_at", "updated_at", "time", "started_at", "finished_at", "metadata", "content", "build_id", "version"}
    | {"platform", "prompt_tokens", "completion_tokens", "message_count", "is_busy", "attached_clients", "title"}
    | {"data_dir", "data_directory", "providers", "yolo", "parts", "description"}
)
"""Fields whose values depend on the moment or the machine. They must be there, with a value of the same type."""
AWAITED = frozenset({"permission_request", "permission_notification", "run_complete"})
"""Envelopes that a replay waits for."""


def scripted_provider() -> TestProvider:
    """A model whose answer follows from the last prompt."""

    def respond(received: ReceivedRequest) -> Answer:
        messages = received.body["messages"]
        if "Give this coding task a title" in str(messages[0]):
            return text("A title")
        prompt = str([one for one in messages if one["role"] == "user"][-1]["content"])
        if messages[-1]["role"] == "tool":
            return text("The tool has answered.")
        if "slowly" in prompt:
            return Answer(pieces=tuple(Say(f"word{number} ") for number in range(600)), pace=0.05)
        if "command" in prompt:
            return calls(Call("bash", {"command": "touch made && echo made"}))
        if "files" in prompt:
            return calls(Call("ls", {"path": "."}))
        if "fail" in prompt:
            return Answer(status=401, error={"error": {"message": "the key is wrong"}})
        return text(f"You said: {prompt[-40:]}")

    return TestProvider(respond)


class RecordingApp:
    """Records the requests to an application, their answers, and the envelopes of its streams."""

    def __init__(self, app: AsgiApp) -> None:
        self._app = app
        self.entries: list[dict[str, Any]] = []

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        sent, answered = b"", b""
        status = 0
        is_stream = scope["path"].endswith("/events")
        query = scope["query_string"].decode()
        entry: dict[str, Any] = {"method": scope["method"], "path": f"{scope['path']}{'?' + query if query else ''}"}
        if is_stream:
            entry.update(body=None, status=200, answer=None)
        self.entries.append(entry)

        async def receiving() -> Any:
            nonlocal sent
            message = await receive()
            sent += message.get("body", b"")
            return message

        async def sending(message: Any) -> None:
            nonlocal answered, status
            status = message.get("status", status)
            body = message.get("body", b"")
            answered += body
            if is_stream and body:
                self.entries.extend({"event": json.loads(line[6:])} for line in body.splitlines() if line)
            await send(message)

        try:
            await self._app(scope, receiving, sending)
        finally:
            body = json.loads(sent) if sent else None
            if isinstance(body, dict):
                body.pop("env", None)  # the environment of the person who records
            entry.update(body=body, status=status, answer=None if is_stream or not answered else json.loads(answered))

    def write(self, path: Path, *, work: Path) -> None:
        """Write the recording, with names for ids and paths."""
        names: dict[str, str] = {}

        def name_of(found: re.Match[str]) -> str:
            kind = found[0].partition("_")[0] if "_" in found[0] else "uuid"
            return names.setdefault(found[0], f"<{kind}{len(names) + 1}>")

        raw = json.dumps(_kept(self.entries)).replace(str(work), "<work>")
        path.write_text(json.dumps(json.loads(_ID.sub(name_of, raw)), indent=1, ensure_ascii=False) + "\n")


def _kept(entries: list[dict[str, Any]]) -> list[dict[str, Any]]:
    seen: set[str] = set()
    found = []
    for entry in entries:
        if "event" in entry:
            if entry["event"]["type"] not in AWAITED:
                continue
        elif entry["method"] == "GET" or entry["path"].endswith(("/init", "/update")):
            key = f"{entry['method']} {entry['path']}"
            if key in seen or "answer" not in entry:
                continue
            seen.add(key)
        found.append(entry)
    return found


async def replay(entries: list[dict[str, Any]], wire: CrushWire) -> list[str]:
    """Send the recorded requests again and wait for the recorded envelopes. Returns the differences."""
    bound: dict[str, str] = {"<work>": str(wire.server.work)}
    differences: list[str] = []
    streams: list[CrushEvents] = []
    try:
        for number, entry in enumerate(entries):
            where = f"{number}: {entry.get('method', 'event')} {entry.get('path', '')}"
            if "event" in entry:
                expected = entry["event"]["payload"]["payload"]
                kind = entry["event"]["type"]
                found = await streams[-1].until(kind)
                _compare(expected, found, where=f"{where} {kind}", bound=bound, differences=differences)
                continue
            path = _filled(entry["path"], bound)
            if "/events" in path:
                wire.workspace_id, wire.client_id = path.split("/")[3], path.rpartition("=")[2]
                streams.append(await wire.open_events())
                continue
            answer = await wire.http.send(entry["method"], path, _filled(entry["body"], bound))
            if answer.status != entry["status"]:
                differences.append(f"{where}: status {answer.status}, recorded {entry['status']}")
            if entry["answer"] is not None:
                _compare(entry["answer"], answer.json(), where=where, bound=bound, differences=differences)
    finally:
        for stream in streams:
            await stream.close()
    return differences


def _filled(value: Any, bound: dict[str, str]) -> Any:
    raw = json.dumps(value)
    for name, actual in bound.items():
        raw = raw.replace(name, actual)
    raw = re.sub(r"<uuid(\d+)>", lambda found: f"00000000-0000-4000-8000-{int(found[1]):012}", raw)
    return json.loads(raw)


def _compare(expected: Any, actual: Any, *, where: str, bound: dict[str, str], differences: list[str]) -> None:
    """Compare the shapes, and the values that do not depend on the moment. Names are bound to the actual ids."""
    again = {"where": where, "bound": bound, "differences": differences}
    match expected, actual:
        case dict(), dict():
            if expected.keys() != actual.keys():
                differences.append(f"{where}: fields {sorted(expected.keys() ^ actual.keys())}")
            for key in expected.keys() & actual.keys():
                if key in _VOLATILE:
                    if type(expected[key]) is not type(actual[key]):
                        differences.append(f"{where}: {key} is {actual[key]!r}")
                else:
                    _compare(expected[key], actual[key], **{**again, "where": f"{where} {key}"})
        case list(), list():
            for one, other in zip(expected, actual, strict=False):
                _compare(one, other, **again)
        case str(), str() if re.fullmatch(r"<\w+\d+>", expected) and not expected.startswith("<uuid"):
            bound.setdefault(expected, actual)
            if bound[expected] != actual:
                differences.append(f"{where}: {actual!r} is not {bound[expected]!r}")
        case _:
            if _filled(expected, bound) != actual:
                differences.append(f"{where}: {actual!r}, recorded {expected!r}")


async def wait_for(holds: Callable[[], bool]) -> None:
    """Wait until something holds that another process causes. The test's time-out is the limit."""
    while not holds():
        await asyncio.wait([asyncio.ensure_future(asyncio.sleep(0.05))])
