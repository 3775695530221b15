"""From a matched address to its handler and back: read, call, answer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from holdfast.errors import MethodNotAllowed, NotFound
from holdfast.server.http.endpoint import Call, Endpoint
from holdfast.server.http.idempotency import read_key, request_hash
from holdfast.server.http.request_parsing import QueryReader, Receive, decode_body, read_body
from holdfast.server.http.responses import JSON, Raw, Reply, Scope, Send, error_reply, send_bytes
from holdfast.server.presence import read_caller
from holdfast.server.server_parts import ServerParts

HEADERS = "holdfast.headers"
"""Where the gate leaves the request's headers for us."""


class Dispatch:
    """One endpoint as an ASGI application."""

    def __init__(self, endpoint: Endpoint, parts: ServerParts) -> None:
        self._endpoint = endpoint
        self._parts = parts
        self._decoder = None if endpoint.body is None else msgspec.json.Decoder(endpoint.body)
        self._query = QueryReader(endpoint.query)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        endpoint, parts = self._endpoint, self._parts
        headers: Mapping[bytes, bytes] = scope[HEADERS]
        caller = read_caller(headers.get(b"x-holdfast-client"))
        raw = b""
        if endpoint.mutates:
            raw = await read_body(receive, length=headers.get(b"content-length"), limit=endpoint.limit)
        query_string: bytes = scope["query_string"]
        call: Call[Any, Any] = Call(
            parts,
            path=scope["path_params"],
            query=self._query.read(query_string),
            body=self._decoder and decode_body(raw, self._decoder, content_type=headers.get(b"content-type")),
            caller=caller,
            headers=headers,
            receive=receive,
        )
        key = read_key(headers.get(b"idempotency-key")) if endpoint.mutates and endpoint.keyed else None
        with parts.life.request(counts=not endpoint.public):
            if key is None:
                answer = await endpoint.handler(call)
            else:
                digest = request_hash(endpoint.method, scope["path"], query_string, raw)
                answer = await parts.answers.once(key, digest, lambda: self._reply(call))
        if callable(answer):
            await answer(scope, receive, send)
        else:
            await self._send(self._as_reply(answer), send)

    async def _reply(self, call: Call[Any, Any]) -> Reply:
        return self._as_reply(await self._endpoint.handler(call))

    def _as_reply(self, answer: object) -> Reply:
        return answer if isinstance(answer, Reply) else Reply(answer, status=self._endpoint.status)

    async def _send(self, reply: Reply, send: Send) -> None:
        kind = (b"content-type", reply.kind) if isinstance(reply, Raw) else JSON
        body = self._parts.redact(reply.body())
        await send_bytes(send, reply.status, body, headers=(kind, *reply.headers))


class Resource:
    """All endpoints of one path, by method."""

    def __init__(self, by_method: Mapping[str, Dispatch]) -> None:
        self._by_method = dict(by_method)
        if "GET" in self._by_method:
            self._by_method["HEAD"] = self._by_method["GET"]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        dispatch = self._by_method.get(scope["method"])
        if dispatch is not None:
            await dispatch(scope, receive, send)
            return
        allowed = ", ".join(sorted(self._by_method))
        error = MethodNotAllowed(f"{scope['method'][:20]} is not possible here; possible: {allowed}")
        reply = error_reply(error)
        await send_bytes(send, reply.status, reply.body(), headers=(JSON, (b"allow", allowed.encode())))


async def unknown_path(scope: Scope, receive: Receive, send: Send) -> None:
    raise NotFound(f"there is nothing at {scope['path'][:200]!r}; GET /v1/openapi.json says what there is")
