"""Models over real HTTP, with a provider that behaves and one that does not."""

from __future__ import annotations

import asyncio
import gzip
import logging
import traceback
from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Any

import pytest

from holdfast.config.setting_types import Secret
from holdfast.config.settings import NetworkSettings
from holdfast.errors import (
    ModelAuth,
    ModelContext,
    ModelError,
    ModelInvalid,
    ModelMalformed,
    ModelNetwork,
    ModelOverloaded,
    ModelRateLimit,
    ModelStall,
)
from holdfast.models.http_model import HttpModel, merge_body, no_key
from holdfast.models.http_transport import HttpTransport
from holdfast.models.model_factory import load_wire
from holdfast.models.protocol import ModelDelta, ModelInfo, ModelRequest, ReasoningEnd, TextDelta
from holdfast.models.stall_timeout import StallLimits
from holdfast.models.wires.request_cache import encode_body
from holdfast.schema.messages import Text
from holdfast.testing import Answer, Call, Fail, Hang, RawBytes, Say, TestProvider, Think, TokenCounts, text
from tests.models.requests import TOOLS, message
from tests.models.support import LIMITS, WIRES, summarize
from tests.support.connections import serve_connections

KEY = "sk-planted-0123456789abcdef"
ASK = ModelRequest(system=("Be brief.",), messages=(message(1, "user", Text("hi")),), tools=TOOLS)
SHORT_FIRST_TOKEN = StallLimits(first_token=0.1, between_tokens=90)
SHORT_BETWEEN_TOKENS = StallLimits(first_token=120, between_tokens=0.1)


@pytest.fixture
async def provider() -> AsyncIterator[TestProvider]:
    async with TestProvider() as running:
        yield running


@pytest.fixture
async def transport() -> AsyncIterator[HttpTransport]:
    opened = HttpTransport(network=NetworkSettings())
    yield opened
    await opened.aclose()


async def planted_key() -> Secret | None:
    return Secret(KEY)


def model(wire: Any, provider: TestProvider, transport: HttpTransport, **options: Any) -> HttpModel:
    settings: dict[str, Any] = {"base_url": provider.url(wire), "key": planted_key, "headers": {"X-Team": KEY}}
    settings |= {"limits": LIMITS, **options}
    return HttpModel(ModelInfo("acme/some-model", images=True), wire=load_wire(wire), transport=transport, **settings)


async def collect(model: HttpModel) -> list[ModelDelta]:
    return [delta async for delta in model.stream(ASK)]


@pytest.mark.parametrize("split", [0, 1, 7], ids=["by event", "byte by byte", "seven bytes"])
@pytest.mark.parametrize("wire", WIRES)
async def test_answer_arrives_whole_however_its_bytes_are_split(
    wire: str, split: int, provider: TestProvider, transport: HttpTransport
) -> None:
    pieces = (Think("Let me see."), Say("Zażółć 😀"), Call("view", {"path": "ż.py"}), Call("now"))
    provider.script(Answer(pieces, usage=TokenCounts(input=10, output=5), split=split))
    found = summarize(await collect(model(wire, provider, transport)))
    assert found["text"] == "Zażółć 😀"
    assert found["reasoning"] == "Let me see."
    assert [(call["name"], call["arguments"]) for call in found["calls"]] == [("view", {"path": "ż.py"}), ("now", {})]
    assert found["usage"] == {"input": 10, "output": 5, "cache_read": 0, "cache_write": 0}
    assert found["stop"] == "tool_use"


@pytest.mark.parametrize("wire", WIRES)
async def test_surrogate_pair_split_by_the_provider_is_joined(
    wire: str, provider: TestProvider, transport: HttpTransport
) -> None:
    provider.script(Answer((Say(deltas=("a \ud83d", "\ude00 b", "\ud83d")),), split=5))
    assert summarize(await collect(model(wire, provider, transport)))["text"] == "a 😀 b\ufffd"


@pytest.mark.parametrize("wire", WIRES)
async def test_request_has_the_key_and_the_users_headers_and_body(
    wire: str, provider: TestProvider, transport: HttpTransport
) -> None:
    own = {"headers": {"X-Team": "tools", "User-Agent": "mine"}, "body": {"seed": 1, "generationConfig": {"seed": 2}}}
    await collect(model(wire, provider, transport, **own))
    [received] = provider.requests
    assert received.wire == wire
    assert received.model == "some-model"
    assert KEY in "".join(
        received.headers[name] for name in ("authorization", "x-api-key", "x-goog-api-key") if name in received.headers
    )
    assert received.headers["x-team"] == "tools"
    assert received.headers["user-agent"] == "mine"
    assert received.body["seed"] == 1
    assert received.body["generationConfig"]["seed"] == 2


@pytest.mark.parametrize(
    ("wire", "origin"),
    [
        ("openai-chat", "openai-chat:acme"),
        ("openai-responses", "openai-responses:acme/some-model"),
        ("anthropic", "anthropic:acme/some-model"),
        ("gemini", "gemini:acme/some-model"),
    ],
)
async def test_opaque_data_names_the_provider_or_model_that_can_read_it(
    wire: str, origin: str, provider: TestProvider, transport: HttpTransport
) -> None:
    provider.script(Answer((Think("Hm.", opaque="sig"), Say("So."))))
    ends = [delta for delta in await collect(model(wire, provider, transport)) if isinstance(delta, ReasoningEnd)]
    assert [end.wire for end in ends if end.opaque] == [origin]


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.promise("C7")
async def test_cancelling_the_reader_closes_the_connection(
    wire: str, provider: TestProvider, transport: HttpTransport
) -> None:
    provider.script(Answer((Say("Hello"), Hang())))
    first = asyncio.Event()

    async def read() -> None:
        async for delta in model(wire, provider, transport).stream(ASK):
            if isinstance(delta, TextDelta):
                first.set()

    reading = asyncio.create_task(read())
    await first.wait()
    reading.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reading
    await provider.wait_for_disconnect(0)


@pytest.mark.parametrize("answer", [Answer(hang_first=True), Answer((Hang(),))], ids=["no status", "no token"])
@pytest.mark.promise("C7")
async def test_reader_can_be_cancelled_before_the_first_token(
    answer: Answer, provider: TestProvider, transport: HttpTransport
) -> None:
    provider.script(answer)
    reading = asyncio.create_task(collect(model("anthropic", provider, transport)))
    await provider.wait_for_requests(1)
    reading.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reading
    await provider.wait_for_disconnect(0)


@pytest.mark.promise("C7")
async def test_closing_the_stream_closes_the_connection(provider: TestProvider, transport: HttpTransport) -> None:
    provider.script(Answer((Say("Hello"), Hang())))
    async with aclosing(model("openai-chat", provider, transport).stream(ASK)) as deltas:
        assert await anext(deltas) == TextDelta("Hello")
    await provider.wait_for_disconnect(0)


@pytest.mark.parametrize("answer", [Answer(hang_first=True), Answer((Hang(),))], ids=["no status", "no token"])
@pytest.mark.parametrize("wire", WIRES)
async def test_silence_before_the_first_token_raises_a_stall_that_names_the_limit(
    wire: str, answer: Answer, provider: TestProvider, transport: HttpTransport
) -> None:
    provider.script(answer)
    with pytest.raises(ModelStall, match=r"no first token within 0.1 s \(limits.first_token\)") as raised:
        await collect(model(wire, provider, transport, limits=SHORT_FIRST_TOKEN))
    assert raised.value.detail["deadline"] == "first_token"
    assert raised.value.detail["waited"] >= 0.1


@pytest.mark.parametrize("wire", WIRES)
async def test_silence_in_mid_answer_raises_a_stall_that_names_the_limit(
    wire: str, provider: TestProvider, transport: HttpTransport
) -> None:
    provider.script(Answer((Say("Hello"), Hang())))
    with pytest.raises(ModelStall, match=r"limits.between_tokens") as raised:
        await collect(model(wire, provider, transport, limits=SHORT_BETWEEN_TOKENS))
    assert raised.value.detail["deadline"] == "between_tokens"
    await provider.wait_for_disconnect(0)


@pytest.mark.parametrize(
    ("pieces", "limits"),
    [((), SHORT_FIRST_TOKEN), ((Say("Hello"),), SHORT_BETWEEN_TOKENS)],
    ids=["before the first token", "after it"],
)
async def test_pings_and_comments_do_not_prevent_a_stall(
    pieces: tuple[Say, ...], limits: StallLimits, provider: TestProvider, transport: HttpTransport
) -> None:
    warm = RawBytes(b'event: ping\ndata: {"type": "ping"}\n\n: comment\n\n')
    provider.script(Answer((*pieces, *[warm] * 500, Hang()), pace=0.005))
    with pytest.raises(ModelStall):
        await collect(model("anthropic", provider, transport, limits=limits))


async def test_zero_is_no_limit(provider: TestProvider, transport: HttpTransport) -> None:
    provider.script(text("late", delay=0.05))
    never = StallLimits(first_token=0, between_tokens=0)
    assert summarize(await collect(model("openai-chat", provider, transport, limits=never)))["text"] == "late"


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize("after", [0, 30, 150])
async def test_dropped_connection_is_a_network_error(
    wire: str, after: int, provider: TestProvider, transport: HttpTransport
) -> None:
    provider.script(Answer((Say("Hello, this is an answer that is long enough to be cut."),), drop_after=after))
    with pytest.raises(ModelNetwork):
        await collect(model(wire, provider, transport))


@pytest.mark.parametrize("wire", WIRES)
async def test_answer_without_its_last_event_is_a_network_error(
    wire: str, provider: TestProvider, transport: HttpTransport
) -> None:
    provider.script(Answer((Say("Hello"),), done=False))
    with pytest.raises(ModelNetwork, match="before the answer was complete"):
        await collect(model(wire, provider, transport))


@pytest.mark.parametrize("wire", WIRES)
async def test_half_an_event_at_the_end_is_a_network_error(
    wire: str, provider: TestProvider, transport: HttpTransport
) -> None:
    provider.script(Answer((Say("Hello"), RawBytes(b'data: {"half": ')), done=False))
    with pytest.raises(ModelNetwork, match="before the answer was complete"):
        await collect(model(wire, provider, transport))


@pytest.mark.parametrize("wire", WIRES)
async def test_error_of_an_event_that_is_not_json_does_not_quote_it(
    wire: str, provider: TestProvider, transport: HttpTransport
) -> None:
    provider.script(Answer((Say("Hello"), RawBytes(b"data: <html>secret</html>\n\n"))))
    with pytest.raises(ModelMalformed) as raised:
        await collect(model(wire, provider, transport))
    assert "secret" not in raised.value.message


async def test_endless_line_raises_an_error(provider: TestProvider, transport: HttpTransport) -> None:
    provider.script(Answer((Say("Hello"),), done=False, endless_line=True))
    with pytest.raises(ModelMalformed, match="a line is longer than"):
        await collect(model("openai-chat", provider, transport))
    await provider.wait_for_disconnect(0)


@pytest.mark.parametrize(
    ("content_type", "body"),
    [("text/html", b"<h1>secret</h1>"), ("application/json", b'{"secret": 1}'), ("text/plain", b"secret" * 100_000)],
)
async def test_error_of_another_content_type_does_not_quote_the_body(
    content_type: str, body: bytes, provider: TestProvider, transport: HttpTransport
) -> None:
    provider.script(Answer(body=body, content_type=content_type))
    with pytest.raises(ModelMalformed, match=content_type) as raised:
        await collect(model("openai-chat", provider, transport))
    assert "secret" not in raised.value.message


async def test_error_body_with_status_200_raises_that_error(provider: TestProvider, transport: HttpTransport) -> None:
    provider.script(Answer(body=b'{"error": {"message": "slow", "code": "rate_limit_exceeded"}}'))
    with pytest.raises(ModelRateLimit):
        await collect(model("openai-chat", provider, transport))


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize(
    ("status", "expected"),
    [
        (400, ModelInvalid),
        (401, ModelAuth),
        (403, ModelAuth),
        (404, ModelInvalid),
        (413, ModelContext),
        (429, ModelRateLimit),
        (500, ModelOverloaded),
        (503, ModelOverloaded),
        (529, ModelOverloaded),
    ],
)
async def test_http_status_is_mapped_to_its_error_class(
    wire: str, status: int, expected: type[ModelError], provider: TestProvider, transport: HttpTransport
) -> None:
    provider.script(Answer(status=status, headers={"Retry-After": "3"}))
    with pytest.raises(expected) as raised:
        await collect(model(wire, provider, transport))
    assert raised.value.retry_after == 3.0


async def test_long_error_body_is_not_read_to_the_end(provider: TestProvider, transport: HttpTransport) -> None:
    provider.script(Answer(status=400, body=b'{"error": {"message": "' + b"x" * 50_000_000 + b'"}}'))
    with pytest.raises(ModelInvalid) as raised:
        await collect(model("openai-chat", provider, transport))
    assert "xxx" not in raised.value.message
    await provider.wait_for_disconnect(0)


@pytest.mark.parametrize("wire", WIRES)
async def test_error_in_mid_stream_is_mapped_to_its_error_class(
    wire: str, provider: TestProvider, transport: HttpTransport
) -> None:
    provider.script(Answer((Say("Hello"), Fail("overloaded_error", "Overloaded"))))
    with pytest.raises(ModelOverloaded):
        await collect(model(wire, provider, transport))


async def test_unreachable_server_is_a_network_error(provider: TestProvider, transport: HttpTransport) -> None:
    gone = model("openai-chat", provider, transport, base_url="http://127.0.0.1:9/v1")
    with pytest.raises(ModelNetwork, match=r"cannot connect to 127\.0\.0\.1:9"):
        await collect(gone)


@pytest.mark.parametrize("key", ["sk-planted\n0123456789", "sk-plantéd-0123456789", "sk-planted-\x000123456"])
async def test_error_of_a_key_that_is_not_a_header_value_does_not_show_it(
    key: str, provider: TestProvider, transport: HttpTransport
) -> None:
    async def bad() -> Secret | None:
        return Secret(key)

    with pytest.raises(ModelInvalid) as raised:
        await collect(model("openai-chat", provider, transport, key=bad, headers={}))
    assert "sk-plant" not in "".join(traceback.format_exception(raised.value))


async def test_password_in_the_base_url_is_sent_as_a_header(provider: TestProvider, transport: HttpTransport) -> None:
    url = provider.url("openai-chat").replace("//", "//me:p%40ss@") + "?api-version=1"
    asking = model("openai-chat", provider, transport, base_url=url, key=no_key)
    await collect(asking)
    [received] = provider.requests
    assert received.path == "/v1/chat/completions?api-version=1"
    assert received.headers["authorization"] == "Basic bWU6cEBzcw=="
    assert "p@ss" not in repr(asking) + repr(vars(asking))


async def test_rejected_key_is_forgotten_and_other_errors_keep_it(
    provider: TestProvider, transport: HttpTransport
) -> None:
    provider.script(Answer(status=401), Answer(status=500))
    forgotten: list[str] = []
    asking = model("openai-chat", provider, transport, on_auth_failure=lambda: forgotten.append("forgotten"))
    with pytest.raises(ModelAuth):
        await collect(asking)
    assert forgotten == ["forgotten"]
    with pytest.raises(ModelOverloaded):
        await collect(asking)
    assert forgotten == ["forgotten"]


LEAKS: dict[str, Answer] = {
    "a key error that quotes the key": Answer(status=401, error={"error": {"message": f"bad key {KEY}", "code": KEY}}),
    "an error in mid-stream that quotes it": Answer((Say("x"), Fail(KEY, f"bad key {KEY}"))),
    "a body that quotes it": Answer(status=500, body=KEY.encode(), content_type="text/plain"),
    "a content type that quotes it": Answer(body=b"x", content_type=f"text/{KEY}"),
    "garbage that quotes it": Answer((RawBytes(f"data: {KEY}\n\n".encode()),)),
    "a drop": Answer((Say("Hello"),), drop_after=10),
    "a stall": Answer((Say("Hello"), Hang())),
    "a good answer": text("fine"),
}


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize("name", LEAKS)
@pytest.mark.promise("W8")
async def test_key_appears_in_no_exception_log_line_or_repr(
    wire: str, name: str, provider: TestProvider, transport: HttpTransport, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    provider.script(LEAKS[name])
    asking = model(wire, provider, transport, limits=SHORT_BETWEEN_TOKENS)
    seen = [repr(asking), repr(vars(asking)), repr(asking.stream(ASK)), repr(transport), repr(vars(transport))]
    try:
        seen += map(repr, await collect(asking))
    except ModelError as error:
        seen += _visible_texts(error)
    seen += [record.getMessage() for record in caplog.records] + [caplog.text]
    assert provider.requests[0].headers["x-team"] == KEY, "the key was not sent, so the test proves nothing"
    assert not [shown for shown in seen if KEY in shown]


def _visible_texts(error: BaseException) -> list[str]:
    """Everything that a log or a debugger could show of an error and the errors that it is chained to."""
    seen = ["".join(traceback.format_exception(error))]
    while error:
        seen += [repr(error), str(error), repr(error.args), repr(vars(error))]
        seen += [repr(getattr(value, "headers", None)) for value in vars(error).values()]
        error = error.__cause__ or error.__context__  # type: ignore[assignment]
    return seen


async def test_connection_is_used_again(transport: HttpTransport) -> None:
    connections = 0

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal connections
        connections += 1
        body = b'data: {"choices":[{"delta":{"content":"hi"},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n'
        while head := await reader.readuntil(b"\r\n\r\n"):
            length = int(head.lower().split(b"content-length:")[1].split(b"\r\n")[0])
            await reader.readexactly(length)
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n")
            writer.write(b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body))

    async with serve_connections(serve) as port:
        url = f"http://127.0.0.1:{port}/v1"
        info = ModelInfo("acme/m")
        asking = HttpModel(info, wire=load_wire("openai-chat"), base_url=url, transport=transport, limits=LIMITS)
        for _ in range(3):
            assert summarize(await collect(asking))["text"] == "hi"
        assert connections == 1
        await transport.aclose()


async def test_compressed_stream_is_read(provider: TestProvider, transport: HttpTransport) -> None:
    body = b'data: {"choices":[{"delta":{"content":"hi"},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n'
    zipped = Answer(body=gzip.compress(body), content_type="text/event-stream", headers={"Content-Encoding": "gzip"})
    provider.script(
        zipped, Answer(body=b"not gzip", content_type="text/event-stream", headers={"Content-Encoding": "gzip"})
    )
    asking = model("openai-chat", provider, transport)
    assert summarize(await collect(asking))["text"] == "hi"
    with pytest.raises(ModelMalformed, match="compression"):
        await collect(asking)


def test_users_body_is_merged_into_the_wires_body() -> None:
    body = {"model": "m", "reasoning": {"effort": "low", "summary": "auto"}, "tools": [1]}
    own = {"reasoning": {"effort": "high"}, "tools": [2], "seed": 1}
    assert merge_body(body, own) == {
        "model": "m",
        "reasoning": {"effort": "high", "summary": "auto"},
        "tools": [2],
        "seed": 1,
    }


def test_lone_surrogate_in_a_body_is_replaced() -> None:
    assert encode_body({"text": "a\ud83db"}) == '{"text":"a\ufffdb"}'.encode()
