"""A whole server without sockets whose models are a provider on loopback, on any of the four wires."""

import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from holdfast.schema.messages import Message, ToolResult
from holdfast.testing import WIRES, Answer, ReceivedRequest, TestProvider, WireName, text
from tests.support.app_harness import AppHarness, open_app_harness
from tests.support.log_consistency import check_log_matches_tables
from tests.support.wire_rules import check_anthropic, check_chat, check_gemini, check_responses

each_wire = pytest.mark.parametrize("wire", WIRES)

PRICE = "price = { input = 1.0, output = 10.0, cache_read = 0.0, cache_write = 0.0 }"


def config(provider: TestProvider, *wires: WireName) -> str:
    """Configure a provider per wire, with a small window and prices."""
    return "".join(
        f'[providers.test-{wire}]\nwire = "{wire}"\nbase_url = "{provider.url(wire)}"\n'
        f'[providers.test-{wire}.models.m]\ncontext_window = 100000\nreasoning = ["low", "high"]\n{PRICE}\n'
        for wire in wires
    )


@asynccontextmanager
async def server(
    directory: Path, *wires: WireName, config_head: str = ""
) -> AsyncIterator[tuple[AppHarness, TestProvider]]:
    async with TestProvider(fallback=text("that is all")) as provider:
        async with open_app_harness(directory, config=config_head + config(provider, *(wires or WIRES))) as harness:
            yield harness, provider
            await check_log_matches_tables(harness.app.store)
        for received in provider.requests:
            check_received(received)


def check_received(received: ReceivedRequest) -> None:
    ids = re.compile(r"[a-zA-Z0-9_-]{1,64}")
    match received.wire:
        case "openai-chat":
            check_chat(received.body["messages"], ids)
        case "openai-responses":
            check_responses(received.body["input"], ids)
        case "anthropic":
            check_anthropic(received.body, ids)
        case "gemini":
            check_gemini(received.body["contents"])


def is_title(received: ReceivedRequest) -> bool:
    return "Give this coding task a title" in json.dumps(received.body)


def script(provider: TestProvider, *answers: Answer) -> None:
    """Set the answers, in order. Title requests get a title."""
    waiting = list(answers)

    def respond(received: ReceivedRequest) -> Answer:
        if is_title(received):
            return text("A title", usage=None)
        return waiting.pop(0) if waiting else text("that is all")

    provider._respond = respond


def model(wire: WireName) -> str:
    return f"test-{wire}/m"


def results(messages: tuple[Message, ...]) -> list[ToolResult]:
    return [part for message in messages for part in message.parts if isinstance(part, ToolResult)]


async def shown(harness: AppHarness, words: bytes, *, of: bytes) -> None:
    """Wait until subscribers have received this text."""
    async for item in harness.app.hub.subscribe(after=f"{harness.app.store.log_id}.0"):
        if item.kind in ("delta", "snapshot") and words in item.body and b'"of":"%b"' % of in item.body:
            return


async def asked(provider: TestProvider, count: int) -> list[ReceivedRequest]:
    """Wait for this many requests other than title requests, and return them."""
    while len(found := [one for one in provider.requests if not is_title(one)]) < count:
        await provider.wait_for_requests(len(provider.requests) + 1)
    return found


def conversation(received: ReceivedRequest) -> list[dict[str, Any]]:
    """Return the messages of a request as sent, without the system prompt and cache markers."""
    field = {"gemini": "contents", "openai-responses": "input"}.get(received.wire, "messages")
    return [_unmarked(item) for item in received.body[field] if item.get("role") != "system"]


def _unmarked(value: Any) -> Any:
    match value:
        case dict():
            return {key: _unmarked(item) for key, item in value.items() if key != "cache_control"}
        case list():
            return [_unmarked(item) for item in value]
    return value


def spoken(wire: WireName, *messages: tuple[str, str]) -> list[dict[str, Any]]:
    """Return text messages, each a role and a text, as a wire sends them. Two wires merge messages of one role."""
    items: list[dict[str, Any]] = []
    for role, words in messages:
        match wire:
            case "openai-chat":
                items.append({"role": role, "content": words})
            case "openai-responses":
                content = words if role == "assistant" else [{"type": "input_text", "text": words}]
                items.append({"role": role, "content": content})
            case "anthropic" | "gemini":
                part = {"type": "text", "text": words} if wire == "anthropic" else {"text": words}
                name = "model" if (wire, role) == ("gemini", "assistant") else role
                if items and items[-1]["role"] == name:
                    items[-1]["content" if wire == "anthropic" else "parts"].append(part)
                else:
                    items.append({"role": name, "content" if wire == "anthropic" else "parts": [part]})
    return items
