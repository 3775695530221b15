"""A whole server without sockets whose models are at a provider on loopback that records every request."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from holdfast.testing import Answer, ReceivedRequest, TestProvider, WireName, text
from tests.support.app_harness import AppHarness, open_app_harness

MODELS = ("claude-test", "gpt-test", "gemini-test", "other-test", "other-test-mini")


def _config(provider: TestProvider, wire: WireName, extra: str) -> str:
    lines = [extra, "[providers.test]", f'wire = "{wire}"', f'base_url = "{provider.url(wire)}"']
    for name in MODELS:
        lines += [
            f'[providers.test.models."{name}"]',
            "context_window = 100000",
            "max_output = 40000",
            'reasoning = ["low", "medium", "high"]',
            "price = { input = 1.0, output = 10.0 }",
        ]
    return "\n".join(lines)


@asynccontextmanager
async def open_provider_harness(
    directory: Path, *answers: Answer, wire: WireName = "openai-chat", config: str = ""
) -> AsyncIterator[tuple[AppHarness, TestProvider]]:
    """The provider gives these answers in order, then "that is all". Requests for a title get a title."""
    waiting = list(answers)

    def respond(received: ReceivedRequest) -> Answer:
        if is_title(received):
            return text("A title", usage=None)
        return waiting.pop(0) if waiting else text("that is all")

    async with (
        TestProvider(respond) as provider,
        open_app_harness(directory, config=_config(provider, wire, config)) as harness,
    ):
        yield harness, provider


def is_title(received: ReceivedRequest) -> bool:
    return "Give this coding task a title" in json.dumps(received.body)


def bodies(provider: TestProvider) -> list[dict[str, Any]]:
    """Return the bodies of all requests but those for titles."""
    return [received.body for received in provider.requests if not is_title(received)]


def system_of(body: dict[str, Any]) -> str:
    """Return the system prompt of a request on the wire `openai-chat`."""
    (message,) = [message for message in body["messages"] if message["role"] == "system"]
    return str(message["content"])


def said_to(body: dict[str, Any], *, role: str = "user") -> list[str]:
    """Return the texts of a role, on the wire `openai-chat`."""
    return [
        content if isinstance(content := message["content"], str) else "".join(part.get("text", "") for part in content)
        for message in body["messages"]
        if message["role"] == role
    ]
