"""Nothing that a whole run leaves behind or tells has a secret in it (`W8`)."""

import logging
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.config import Redactor
from holdfast.server import ServerParts, log_to_file
from holdfast.testing import Answer, Call, Fail, Say, calls
from tests.support.http_client import Stream
from tests.support.running_server import KEY, answering, run_server

ENV_KEY = "sk-from-the-environment-9876543210"
STORED_KEY = "sk-stored-over-http-5555555555"


_LEDGER = ("holdfast.db", "holdfast.db-wal", "holdfast.db-shm")
"""Private to its owner. It has what the model said as it was said; what leaves it is redacted."""


def _leaks(home: Path, secrets: tuple[str, ...], *, allowed: tuple[str, ...]) -> list[str]:
    """Files with a secret in them, but for those whose purpose it is."""
    found = []
    for directory, _, names in os.walk(home):
        for name in names:
            path = Path(directory) / name
            if path.is_file() and name not in allowed:
                content = path.read_bytes()
                found += [f"{path.name}: {secret}" for secret in secrets if secret.encode() in content]
    return found


async def _live_text(stream: Stream) -> bytes:
    """The deltas of three runs, put together as a client would: a secret may come in pieces."""
    parts: dict[tuple[str, int], str] = {}
    finished = 0
    while finished < 3:
        event = await stream.data()
        finished += event["kind"] == "run.finished"
        if event["kind"] == "delta":
            place = (event["message_id"], event["part"])
            parts[place] = parts.get(place, "") + event["text"]
    await stream.close()
    assert any("the key is" in text for text in parts.values())
    return "\n".join(parts.values()).encode()


@pytest.fixture
def keyring(home: Path) -> Iterator[list[ServerParts]]:
    """A log as a server has it; put the server's parts here, so that it knows their secrets."""
    parts: list[ServerParts] = []
    with log_to_file(home, redactor=lambda: parts[0].redactor() if parts else Redactor(), level=logging.DEBUG):
        yield parts


@pytest.mark.promise("W8")
async def test_planted_secrets_are_in_no_answer_event_log_or_file(home: Path, keyring: list[ServerParts]) -> None:
    """The model sends the keys, the tool prints the environment and the config, the provider echoes them in errors."""
    prying = calls(Call("bash", {"command": f"env; cat {home}/home/config/config.toml; echo {ENV_KEY}"}))
    spoken = Answer(pieces=(Say(f"the key is {KEY} and {ENV_KEY[:12]}", chunk=5), Say(f"{ENV_KEY[12:]}.", chunk=3)))
    failing = Answer(status=400, body=f'{{"error": {{"message": "bad key {KEY}"}}}}'.encode())
    broken = Answer(pieces=(Say("x"), Fail(message=f"no {KEY}")))
    secrets = (KEY, ENV_KEY, STORED_KEY)
    told: list[bytes] = []
    environment = {"ANTHROPIC_API_KEY": ENV_KEY}
    async with run_server(home, answering(prying, spoken, failing, broken), env=environment) as server:
        keyring.append(server.parts)
        key = await server.http.send("PUT", "/v1/providers/openai/key", {"key": STORED_KEY})
        assert key.ok() == {"provider": "openai", "stored": True}
        start = server.app.hub.cursor
        session_id = await server.session()
        live = await server.http.open_stream("/v1/events")
        for prompt in ("look", "and fail", "again"):
            run = await server.prompt(session_id, prompt, mode="auto", limits={"max_steps": 3})
            await server.ended(run["run"]["id"])
        told.append(await _live_text(live))
        wrong = await server.http.post(f"/v1/workspaces/{server.workspace_id}/sessions", {KEY: ENV_KEY})
        assert wrong.status == 400
        told.append(wrong.body)
        messages = (await server.http.get(f"/v1/sessions/{session_id}/messages")).ok()
        results = [part for message in messages["items"] for part in message["parts"] if part["type"] == "tool_result"]
        assert len(results) == 1
        async with server.http.stream(f"/v1/events?after={start}") as stream:
            finished = 0
            while finished < 3:
                event = await stream.next()
                assert event is not None
                told.append(event.data)
                finished += event.event == "run.finished"
        targets = [f"/v1/sessions/{session_id}{what}" for what in ("", "/messages", "/runs", "/export")]
        targets += [f"/v1/sessions/{session_id}/export?format=markdown", f"/v1/workspaces/{server.workspace_id}/config"]
        told += [(await server.http.get(target)).body for target in (*targets, "/v1/models", "/v1/search?q=key")]
    for body in told:
        for secret in secrets:
            assert secret.encode() not in body, body
    assert any(b"[redacted]" in body for body in told)
    assert _leaks(home, secrets, allowed=("config.toml", "secrets.json", *_LEDGER)) == []
