"""The test provider answers, and fails, as its script says."""

from __future__ import annotations

import asyncio
import gc
import json
import socket
from contextlib import suppress
from typing import Any

import pytest

from holdfast.testing import (
    WIRES,
    Answer,
    Call,
    Fail,
    Gate,
    Hang,
    RawBytes,
    Say,
    TestProvider,
    Think,
    WireName,
    calls,
    text,
)

PATHS = {
    "openai-chat": "/v1/chat/completions",
    "openai-responses": "/v1/responses",
    "anthropic": "/v1/messages",
    "gemini": "/v1beta/models/m:streamGenerateContent?alt=sse",
}


async def ask(provider: TestProvider, wire: WireName) -> tuple[bytes, bytes]:
    """The headers and the body of one answer."""
    reader, writer = await connect(provider, wire)
    try:
        head, _, body = (await reader.read()).partition(b"\r\n\r\n")
        return head, unchunked(body)[0] if b"chunked" in head else body
    finally:
        await close(writer)


async def close(writer: asyncio.StreamWriter) -> None:
    writer.close()
    with suppress(ConnectionError):
        await writer.wait_closed()


def unchunked(body: bytes) -> tuple[bytes, bool]:
    """The content, and whether the last chunk was received."""
    content = b""
    while body:
        size, _, body = body.partition(b"\r\n")
        if size == b"0":
            return content, True
        content, body = content + body[: int(size, 16)], body[int(size, 16) + 2 :]
    return content, False


async def connect(provider: TestProvider, wire: WireName) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    reader, writer = await asyncio.open_connection("127.0.0.1", provider.port)
    body = json.dumps({"model": "m", "stream": True}).encode()
    writer.write(f"POST {PATHS[wire]} HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body)
    return reader, writer


def data_of(body: bytes) -> list[Any]:
    lines = [line[6:] for line in body.decode().splitlines() if line.startswith("data: ")]
    return [line if line == "[DONE]" else json.loads(line) for line in lines]


@pytest.mark.parametrize("wire", WIRES)
async def test_answer_has_the_events_of_its_wire_and_the_request_is_recorded(wire: WireName) -> None:
    answer = Answer(pieces=(Think("hm"), Say("hello"), Call("bash", {"command": "ls"})))
    async with TestProvider([answer]) as provider:
        head, body = await ask(provider, wire)
        assert b"200" in head
        assert b"text/event-stream" in head
        joined = json.dumps(data_of(body))
        assert "hello" in joined
        assert "bash" in joined
        assert "hm" in joined
        (request,) = provider.requests
        assert request.wire == wire
        assert request.body["model"] == "m"
        assert request.model == "m"
        assert provider.finished == [0]
        assert provider.disconnects == []


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize("status", [400, 401, 429, 500, 529])
async def test_error_has_the_vendors_body_and_the_scripted_headers(wire: WireName, status: int) -> None:
    async with TestProvider([Answer(status=status, headers={"Retry-After": "3"})]) as provider:
        head, body = await ask(provider, wire)
        assert f" {status} ".encode() in head
        assert b"Retry-After: 3" in head
        assert "error" in json.loads(body)


@pytest.mark.parametrize("split", [1, 2, 3, 7])
async def test_split_writes_send_the_same_bytes(split: int) -> None:
    async with TestProvider([text("grüße 😀"), text("grüße 😀", split=split)]) as provider:
        _, whole = await ask(provider, "openai-chat")
        _, pieces = await ask(provider, "openai-chat")
        assert pieces == whole


async def test_surrogate_pair_can_be_split_between_two_events() -> None:
    async with TestProvider([Answer(pieces=(Say(deltas=("a\ud83d", "\ude00b")),))]) as provider:
        _, body = await ask(provider, "openai-chat")
        assert rb"\ud83d" in body
        assert rb"\ude00" in body


async def test_dropped_stream_ends_after_exactly_this_many_bytes() -> None:
    async with TestProvider([text("hello"), text("hello", drop_after=100)]) as provider:
        _, whole = await ask(provider, "anthropic")
        reader, writer = await connect(provider, "anthropic")
        await reader.readuntil(b"\r\n\r\n")
        assert unchunked(await reader.read()) == (whole[:100], False)
        await close(writer)


async def test_disconnect_from_a_hanging_answer_is_recorded() -> None:
    async with TestProvider([Answer(pieces=(Say("a"), Hang()))]) as provider:
        reader, writer = await connect(provider, "gemini")
        await reader.readuntil(b"data:")
        await close(writer)
        await provider.wait_for_disconnect(0)
        assert provider.finished == []


async def test_gate_holds_the_answer_until_it_is_opened() -> None:
    async with TestProvider([Answer(pieces=(Gate("go"), Say("after")))]) as provider:
        reading = asyncio.create_task(ask(provider, "anthropic"))
        await provider.wait_for_requests(1)
        assert not reading.done()
        provider.open("go")
        assert b"after" in (await reading)[1]


async def test_raw_bytes_and_errors_are_sent_in_mid_stream() -> None:
    pieces = (Say("a"), RawBytes(b"\xff\xfe rubbish\n\n"), Fail())
    async with TestProvider([Answer(pieces=pieces, done=False, content_type="text/html")]) as provider:
        head, body = await ask(provider, "anthropic")
        assert b"text/html" in head
        assert b"\xff\xfe rubbish" in body
        assert b"overloaded_error" in body
        assert b"message_stop" not in body


async def test_callable_chooses_each_answer_and_the_fallback_comes_last() -> None:
    async with TestProvider([calls(Call("x"))], fallback=text("over")) as provider:
        await ask(provider, "openai-chat")
        assert b"over" in (await ask(provider, "openai-chat"))[1]
    async with TestProvider(lambda request: text(f"n{request.number}")) as provider:
        await ask(provider, "openai-chat")
        assert b"n1" in (await ask(provider, "openai-chat"))[1]


@pytest.mark.parametrize("steps", range(8))
async def test_no_connection_is_left_open_by_a_stop_at_any_step_of_its_beginning(steps: int) -> None:
    provider = await TestProvider().start()
    with socket.create_connection(("127.0.0.1", provider.port), timeout=10) as client:
        for _ in range(steps):
            await asyncio.sleep(0)
        await provider.stop()
        with suppress(ConnectionError):  # reset or closed
            assert await asyncio.to_thread(client.recv, 1) == b""
    gc.collect()  # reports a connection that was lost
