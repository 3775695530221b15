"""A model of a provider: one wire over HTTP."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Mapping
from typing import Any

import msgspec

from holdfast import __version__
from holdfast.config.redaction import Redactor
from holdfast.config.setting_types import Headers, Secret
from holdfast.errors import ModelAuth, ModelError, ModelMalformed
from holdfast.models.error_mapping import MAX_ERROR_BODY, Redact, find_error, sanitize_message
from holdfast.models.http_transport import HttpTransport, ProviderResponse
from holdfast.models.protocol import ModelDelta, ModelInfo, ModelRequest, ReasoningDelta, TextDelta, UsageReport
from holdfast.models.provider_address import build_address
from holdfast.models.stall_timeout import StallLimits, StallTimeout
from holdfast.models.wires.protocol import AnswerReader, Target, Wire
from holdfast.models.wires.request_cache import encode_body
from holdfast.models.wires.stream_reader import incomplete_answer
from holdfast.schema.sse_parser import SseEvent, SseParser, SseTooLong

_MAX_ANSWER_BYTES = 256 * 1024 * 1024
_PINGS = frozenset({"ping", "keepalive"})
_TEXTS = (TextDelta, ReasoningDelta)

KeyGetter = Callable[[], Awaitable[Secret | None]]


async def no_key() -> Secret | None:
    return None


class HttpModel:
    """Implements `Model`. ``key`` is called for each request, and its result is not kept."""

    def __init__(
        self,
        info: ModelInfo,
        *,
        wire: Wire,
        base_url: str,
        transport: HttpTransport,
        limits: StallLimits,
        key: KeyGetter = no_key,
        on_auth_failure: Callable[[], None] | None = None,
        headers: Mapping[str, str] | None = None,
        body: Mapping[str, Any] | None = None,
    ) -> None:
        self._info = info
        self._wire = wire
        self._transport = transport
        self._limits = limits
        self._key = key
        self._on_auth_failure = on_auth_failure
        self._headers = Headers(headers or {})  # its repr hides the values
        self._header_secrets = [Secret(value) for value in self._headers.values()]
        self._extra_body = dict(body or {})
        self._tools: tuple[Any, msgspec.Raw] | None = None
        """The tools of the last request, and their JSON."""
        provider, _, model = info.name.partition("/")
        host = build_address(base_url).host
        origin = f"{wire.name}:{provider if wire.shares_reasoning else info.name}"
        self._target = Target(model=model, info=info, host=host, origin=origin)
        self._address = build_address(base_url, wire.path(self._target))

    @property
    def info(self) -> ModelInfo:
        return self._info

    def __repr__(self) -> str:
        return f"HttpModel({self._info.name!r}, wire={self._wire.name!r}, host={self._target.host!r})"

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelDelta, None]:
        cache = None if request.converted is None else request.converted.use_for((self._wire.name, self._target))
        body = merge_body(self._wire.body(request, self._target, cache), self._extra_body)
        if "tools" in body:
            body["tools"] = self._encoded_tools(body["tools"])
        content = encode_body(body)
        secret = await self._key()
        secrets = [*self._header_secrets, secret] if secret else self._header_secrets
        redact: Redact = Redactor(secrets).redact if secrets else str
        target = msgspec.structs.replace(self._target, redact=redact)
        stall = StallTimeout(self._limits, clock=asyncio.get_running_loop().time)
        reader, parser = self._wire.reader(target), SseParser()
        sending = self._transport.send(
            "POST",
            self._address,
            headers=self._all_headers(secret, target),
            content=content,
            stall=stall,
            redact=redact,
        )
        async with sending as response:
            await self._check_response(response, stall, redact)
            size = 0
            while not reader.done and (chunk := await response.read(stall)) is not None:
                size += len(chunk)
                for delta in _deltas_of(_parse_events(parser, chunk, size, target), reader, stall):
                    yield delta
            if reader.done:
                await response.drain()
            else:
                for delta in _last_deltas(parser, reader, target):
                    yield delta

    def _encoded_tools(self, tools: Any) -> msgspec.Raw:
        """The tools of a request as JSON: half of a short one, and the same in most."""
        if self._tools is None or self._tools[0] != tools:
            self._tools = (tools, msgspec.Raw(encode_body(tools)))
        return self._tools[1]

    def _all_headers(self, secret: Secret | None, target: Target) -> dict[str, str]:
        """Our headers and the wire's, replaced by the user's, whose names may be in any case."""
        headers = {
            "accept": "text/event-stream",
            "accept-encoding": "identity",
            "content-type": "application/json",
            "user-agent": f"holdfast/{__version__}",
            **({"authorization": self._address.authorization} if self._address.authorization else {}),
            **self._wire.headers(secret.reveal() if secret else None, target),
        }
        return headers | {name.lower(): value for name, value in self._headers.items()}

    async def _check_response(self, response: ProviderResponse, stall: StallTimeout, redact: Redact) -> None:
        """Raise an error if the response is not an event stream."""
        content_type = response.headers.get("content-type", "").partition(";")[0].strip().lower()
        if response.is_success and content_type in {"text/event-stream", ""}:
            return
        host = self._target.host
        body = await response.body(stall, most=MAX_ERROR_BODY)
        if response.is_success and find_error(body) is None:
            shown = sanitize_message(content_type, redact)[:60]
            raise ModelMalformed(f"{host} answered with {shown!r} instead of an event stream; check base_url")
        error = self._transport.error(response, body, host=host, redact=redact)
        if isinstance(error, ModelAuth) and self._on_auth_failure:
            self._on_auth_failure()
        raise error


def merge_body(body: dict[str, Any], extra: Mapping[str, Any]) -> dict[str, Any]:
    """Merge the user's body into the wire's. Objects are merged, other values are replaced."""
    result = dict(body)
    for key, value in extra.items():
        own = result.get(key)
        result[key] = merge_body(own, value) if isinstance(own, dict) and isinstance(value, dict) else value
    return result


def _parse_events(parser: SseParser, chunk: bytes, size: int, target: Target) -> list[SseEvent]:
    if size > _MAX_ANSWER_BYTES:
        raise ModelMalformed(f"{target.host} sent more than {_MAX_ANSWER_BYTES >> 20} MB for one answer")
    try:
        return parser.feed(chunk)
    except SseTooLong as error:
        raise ModelMalformed(f"{target.host} sent an invalid event stream: {error}") from None


def _deltas_of(events: list[SseEvent], reader: AnswerReader, stall: StallTimeout) -> Iterator[ModelDelta]:
    """The deltas of events that arrived together. Texts in a row become one, because each delta costs time."""
    kind: type[TextDelta] | type[ReasoningDelta] = TextDelta
    texts: list[str] = []
    is_event = has_token = False
    try:
        for event in events:
            is_event = is_event or event.event not in _PINGS
            for delta in reader.feed(event):
                has_token = has_token or type(delta) is not UsageReport
                if texts and type(delta) is not kind:
                    yield kind("".join(texts))
                    texts.clear()
                if isinstance(delta, _TEXTS):
                    kind = type(delta)
                    texts.append(delta.text)
                else:
                    yield delta
    except ModelError:
        if texts:
            yield kind("".join(texts))
        raise
    finally:
        if is_event:
            stall.event_received(token=has_token)
    if texts:
        yield kind("".join(texts))


def _last_deltas(parser: SseParser, reader: AnswerReader, target: Target) -> list[ModelDelta]:
    """Read the end of the stream. A last event without its blank line counts if it is complete."""
    deltas: list[ModelDelta] = []
    try:
        for event in parser.end():
            deltas += reader.feed(event)
    except ModelMalformed:
        raise incomplete_answer(target.host) from None
    return deltas + reader.end()
