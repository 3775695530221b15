"""A model behind HTTP: one wire's body and reader, with the bytes in between."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from typing import Any

import msgspec

from holdfast import __version__
from holdfast.config.redaction import Redactor
from holdfast.config.setting_types import Headers, Secret
from holdfast.errors import ModelAuth, ModelMalformed
from holdfast.models import error_mapping
from holdfast.models.http_transport import HttpTransport, ProviderResponse
from holdfast.models.protocol import ModelDelta, ModelInfo, ModelRequest, UsageReport
from holdfast.models.provider_address import provider_address
from holdfast.models.request_cache import RequestCache, encoded
from holdfast.models.stall_timeout import Deadlines, StallTimeout
from holdfast.models.wires.protocol import AnswerReader, Target, Wire
from holdfast.models.wires.stream_json import cut_off
from holdfast.schema.sse_parser import SseEvent, SseParser, SseTooLong

MAX_ANSWER = 256 * 1024 * 1024
"""Bytes of one answer; more is no answer."""
_PINGS = frozenset({"ping", "keepalive"})
_OK = range(200, 300)

KeyGetter = Callable[[], Awaitable[Secret | None]]


async def no_key() -> Secret | None:
    return None


class HttpModel:
    """Implements `Model`. ``key`` is asked for each request and never kept."""

    def __init__(
        self,
        info: ModelInfo,
        *,
        wire: Wire,
        base_url: str,
        transport: HttpTransport,
        model: str | None = None,
        key: KeyGetter = no_key,
        on_auth_failure: Callable[[], None] | None = None,
        headers: Mapping[str, str] | None = None,
        body: Mapping[str, Any] | None = None,
        deadlines: Deadlines | None = None,
    ) -> None:
        self._info = info
        self._wire = wire
        self._transport = transport
        self._key = key
        self._on_auth_failure = on_auth_failure
        self._headers = Headers(headers or {})  # its repr hides the values
        self._secrets = [Secret(value) for value in self._headers.values()]
        self._extra = dict(body or {})
        self._deadlines = deadlines or Deadlines()
        provider, _, own_name = info.name.partition("/")
        host = provider_address(base_url).host
        maker = provider if wire.shares_thoughts else info.name
        self._target = Target(model or own_name, info, host=host, origin=f"{wire.name}:{maker}")
        self._address = provider_address(base_url, wire.path(self._target))
        self._memory = RequestCache()

    @property
    def info(self) -> ModelInfo:
        return self._info

    def __repr__(self) -> str:
        return f"HttpModel({self._info.name!r}, wire={self._wire.name!r}, host={self._target.host!r})"

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelDelta, None]:
        content = encoded(merged(self._wire.body(request, self._target, self._memory), self._extra))
        secret = await self._key()
        redact = Redactor([*self._secrets, *([secret] if secret else ())]).redact
        target = msgspec.structs.replace(self._target, redact=redact)
        patience = StallTimeout(self._deadlines, clock=asyncio.get_running_loop().time)
        reader, parser = self._wire.reader(target), SseParser()
        sent = self._transport.send(
            "POST",
            self._address,
            headers=self._all_headers(secret, target),
            content=content,
            patience=patience,
            redact=redact,
        )
        async with sent as answer:
            await self._check(answer, patience, redact)
            size = 0
            while not reader.done and (chunk := await answer.read(patience)) is not None:
                size += len(chunk)
                for event in _events(parser, chunk, size, target):
                    found = reader.feed(event)
                    if event.event not in _PINGS:
                        patience.progress(token=any(type(delta) is not UsageReport for delta in found))
                    for delta in found:
                        yield delta
            if reader.done:
                await answer.drain()
            else:
                for delta in _ending(parser, reader, target):
                    yield delta

    def _all_headers(self, secret: Secret | None, target: Target) -> dict[str, str]:
        """Ours, the wire's, then the user's, which win whatever their case."""
        headers = {
            "accept": "text/event-stream",
            "accept-encoding": "identity",
            "content-type": "application/json",
            "user-agent": f"holdfast/{__version__}",
            **({"authorization": self._address.authorization} if self._address.authorization else {}),
            **self._wire.headers(secret.reveal() if secret else None, target),
        }
        return headers | {name.lower(): value for name, value in self._headers.items()}

    async def _check(self, answer: ProviderResponse, patience: StallTimeout, redact: error_mapping.Redact) -> None:
        """Anything but a stream of events is an error, if only of its content type."""
        kind = answer.headers.get("content-type", "").partition(";")[0].strip().lower()
        if answer.status in _OK and kind in {"text/event-stream", ""}:
            return
        host = self._target.host
        body = await answer.body(patience, most=error_mapping.MAX_BODY)
        if answer.status in _OK and error_mapping.error_in(body) is None:
            shown = error_mapping.shown(kind)[:60]
            raise ModelMalformed(f"{host} answered with {shown!r} instead of a stream of events; check base_url")
        failure = self._transport.error(answer, body, host=host, redact=redact)
        if isinstance(failure, ModelAuth) and self._on_auth_failure:
            self._on_auth_failure()
        raise failure


def merged(body: dict[str, Any], extra: Mapping[str, Any]) -> dict[str, Any]:
    """The wire's body with the user's own keys in it; tables are merged, everything else is replaced."""
    result = dict(body)
    for key, value in extra.items():
        mine = result.get(key)
        result[key] = merged(mine, value) if isinstance(mine, dict) and isinstance(value, dict) else value
    return result


def _events(parser: SseParser, chunk: bytes, size: int, target: Target) -> list[SseEvent]:
    if size > MAX_ANSWER:
        raise ModelMalformed(f"{target.host} sent more than {MAX_ANSWER >> 20} MB for one answer")
    try:
        return parser.feed(chunk)
    except SseTooLong as error:
        raise ModelMalformed(f"{target.host} sent a stream that is no answer: {error}") from None


def _ending(parser: SseParser, reader: AnswerReader, target: Target) -> list[ModelDelta]:
    """The stream is over. An event without its closing blank line counts if it can be read; half of one does not."""
    deltas: list[ModelDelta] = []
    try:
        for event in parser.end():
            deltas += reader.feed(event)
    except ModelMalformed:
        raise cut_off(target.host) from None
    return deltas + reader.end()
