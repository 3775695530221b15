"""The API as data: an endpoint is one row that names its handler, what it takes and what it returns.

The routes and the OpenAPI description are made from these rows.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from functools import cached_property
from typing import Any, Generic, Literal, Protocol, TypeAlias, TypeVar
from urllib.parse import quote

import msgspec

from holdfast.errors import Forbidden, HoldfastError, MethodNotAllowed
from holdfast.schema.api.request_bodies import NoParameters, QueryParameters, RequestBody
from holdfast.schema.base import make_decoder
from holdfast.schema.devices import AccessScope
from holdfast.schema.runs import Accepted
from holdfast.server.http.audited_request import AuditedRequest, actor_of
from holdfast.server.http.request_access import ACCESS, FORWARDED, OWNER, RequestAccess
from holdfast.server.http.request_parsing import (
    HEADERS,
    QueryReader,
    Receive,
    decode_body,
    read_body,
    read_caller,
    read_key,
    request_hash,
    wait_for_disconnect,
)
from holdfast.server.http.responses import (
    ApiResponse,
    JsonResponse,
    RawResponse,
    Scope,
    Send,
    error_response,
    send_response,
)
from holdfast.server.server_parts import ServerParts
from holdfast.services import Services
from holdfast.services.idempotency import KeyedAnswer
from holdfast.services.presence import Caller
from holdfast.services.workspace_reach import WorkspaceReach

B = TypeVar("B")
Q = TypeVar("Q")

KIB = 1024


class ApiRequest(Generic[B, Q]):
    """A request whose path, query, body and headers were read."""

    __slots__ = ("_receive", "_scope", "access", "body", "caller", "headers", "key", "parts", "path", "query", "reach")

    def __init__(
        self,
        parts: ServerParts,
        *,
        path: dict[str, str],
        query: Q,
        body: B,
        caller: Caller,
        key: str | None,
        headers: Mapping[bytes, bytes],
        access: RequestAccess,
        scope: Scope,
        receive: Receive,
    ) -> None:
        self.parts = parts
        self.path = path
        self.query = query
        self.body = body
        self.caller = caller
        self.key = key
        """The idempotency key of a mutation."""
        self.headers = headers
        """With lower-case names."""
        self.access = access
        self.reach: WorkspaceReach | None = None
        """The workspaces that the sender may use; ``None``: all. What a request names was checked already."""
        self._scope = scope
        self._receive = receive

    @property
    def services(self) -> Services:
        return self.parts.services

    @property
    def client(self) -> str:
        """The name of the caller as it is stored."""
        return str(self.caller)

    @property
    def peer_address(self) -> str:
        """The IP address that the request came from; empty for a Unix socket."""
        client = self._scope.get("client")
        return str(client[0]) if client else ""

    @property
    def is_secure(self) -> bool:
        """Whether the request came over TLS."""
        return bool(self._scope.get("scheme") == "https")

    @property
    def is_forwarded(self) -> bool:
        """Whether another server of the fleet sent the request."""
        return FORWARDED in self._scope

    @property
    def target(self) -> str:
        """The path and the query of the request."""
        query = self._scope["query_string"].decode("latin-1")
        return quote(self._scope["path"]) + (f"?{query}" if query else "")

    def wait_for_disconnect(self) -> Coroutine[Any, Any, None]:
        return wait_for_disconnect(self._receive)


Handler: TypeAlias = Callable[[ApiRequest[Any, Any]], Awaitable[object]]
"""Returns a value, an `ApiResponse`, or an `AsgiApp` that sends the response."""


class _EndpointKey(msgspec.Struct, frozen=True):
    method: Literal["GET", "POST", "PUT", "PATCH", "DELETE"]
    path: str
    handler: Handler


class Endpoint(_EndpointKey, frozen=True, kw_only=True):
    query: type[QueryParameters] = NoParameters
    body: type[RequestBody] | None = None
    max_body_bytes: int = 256 * KIB
    response: Any = None
    """The type of the response's value."""
    media_type: str = "application/json"
    other_media_types: tuple[str, ...] = ()
    """Media types that a parameter may select."""
    status: int = 200
    other_responses: dict[int, Any] = {}
    """Other successful statuses, with the types of their values."""
    response_ids: dict[str, str] = {}
    """Where the response has the path parameters of other endpoints: ``{"run_id": "/run/id"}``."""
    errors: tuple[type[HoldfastError], ...] = ()
    """Errors besides those that every endpoint may return."""
    public: bool = False
    """Needs no token."""
    needs_client_id: bool = False
    """Whether the caller must send an id in ``X-Holdfast-Client``."""
    stores_answer: bool = True
    """Whether the answer to a mutation is stored under its ``Idempotency-Key``. Runs use the key as their id."""

    @property
    def summary(self) -> str:
        """The first line of the handler's docstring."""
        return (self.handler.__doc__ or "").strip().split("\n")[0]

    @property
    def mutates(self) -> bool:
        return self.method != "GET"


class LimitsReach(Protocol):
    """Limits a route to the workspaces that the sender may use (see `route_reach`)."""

    async def limit(
        self, access: RequestAccess, services: Services, *, path: Mapping[str, str], query: Any, body: Any
    ) -> WorkspaceReach | None: ...


class EndpointApp:
    """One endpoint as an ASGI application: read the request, call the handler, send the response."""

    def __init__(
        self, endpoint: Endpoint, parts: ServerParts, *, needed: AccessScope, reach: LimitsReach | None = None
    ) -> None:
        """``needed`` is the scope that a device needs. Without ``reach``, only the owner gets here."""
        self._reach = reach
        self._action = f"{endpoint.method} {endpoint.path}"
        self._endpoint = endpoint
        self._needed = needed
        self._parts = parts

    @cached_property
    def _decoder(self) -> msgspec.json.Decoder[Any] | None:
        """Made at the first request, as `_query`: for all endpoints, it would take a tenth of the start."""
        body = self._endpoint.body
        return None if body is None else make_decoder(body)

    @cached_property
    def _query(self) -> QueryReader[Any]:
        return QueryReader(self._endpoint.query)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        endpoint, services = self._endpoint, self._parts.services
        began = time.perf_counter()
        headers: Mapping[bytes, bytes] = scope[HEADERS]
        access: RequestAccess = scope.get(ACCESS, OWNER)
        caller = read_caller(headers.get(b"x-holdfast-client"))
        try:
            access.require(self._needed)
        except Forbidden as error:
            self._record_refusal(error, access, caller, scope)
            raise
        raw = b""
        if endpoint.mutates:
            raw = await read_body(receive, length=headers.get(b"content-length"), limit=endpoint.max_body_bytes)
        query_string: bytes = scope["query_string"]
        request: ApiRequest[Any, Any] = ApiRequest(
            self._parts,
            path=scope["path_params"],
            query=self._query.read(query_string),
            body=self._decoder and decode_body(raw, self._decoder, content_type=headers.get(b"content-type")),
            caller=caller,
            key=read_key(headers.get(b"idempotency-key")) if endpoint.mutates else None,
            headers=headers,
            access=access,
            scope=scope,
            receive=receive,
        )
        with services.state.track_request(counts=not endpoint.public):
            try:
                await self._limit(request)
            except HoldfastError as error:
                self._record_refusal(error, access, caller, scope)
                raise
            if not endpoint.mutates:
                answer = await endpoint.handler(request)
            elif endpoint.public:
                answer = await self._answer_anyone(request, scope)
            else:
                with AuditedRequest(
                    services.audit, actor_of(access, str(caller)), action=self._action, target=scope["path"]
                ) as audited:
                    if request.key is None or not endpoint.stores_answer:
                        answer = await endpoint.handler(request)
                        audited.note_made(answer)
                    else:
                        digest = request_hash(endpoint.method, scope["path"], query_string, raw)
                        stored = await services.idempotency.answer_once(
                            request.key, digest, lambda: self._answer(request, audited)
                        )
                        answer = RawResponse(stored.body, status=stored.status)
                    audited.answered(answer, status=endpoint.status)
                if isinstance(answer, Accepted):
                    self._note_accepted(answer.run.id, headers, time.perf_counter() - began)
        if callable(answer):
            await answer(scope, receive, send)
        else:
            await send_response(send, self._as_response(answer), redact=self._parts.redact)

    async def _limit(self, request: ApiRequest[Any, Any]) -> None:
        """Limit the request to the workspaces of its sender."""
        access = request.access
        if access.directories is None:
            return
        if self._reach is None:
            access.require_all_workspaces()
        else:
            request.reach = await self._reach.limit(
                access, request.services, path=request.path, query=request.query, body=request.body
            )

    def _note_accepted(self, run_id: str, headers: Mapping[bytes, bytes], seconds: float) -> None:
        services = self._parts.services
        services.metrics.accept.observe(seconds)
        if services.traces is not None:
            parent = headers.get(b"traceparent", b"").decode("latin-1") or None
            services.traces.note_request(run_id, traceparent=parent, seconds=seconds)

    async def _answer_anyone(self, request: ApiRequest[Any, Any], scope: Scope) -> object:
        """Handle a request that needs no token. It is recorded when it is over, so that nobody can fill the audit."""
        try:
            answer = await self._endpoint.handler(request)
        except HoldfastError as error:
            self._record_refusal(error, request.access, request.caller, scope)
            raise
        actor = actor_of(request.access, request.client)
        with AuditedRequest(request.services.audit, actor, action=self._action, target=scope["path"]) as audited:
            audited.note_made(answer)
            audited.answered(answer, status=self._endpoint.status)
        return answer

    def _record_refusal(self, error: HoldfastError, access: RequestAccess, caller: Caller, scope: Scope) -> None:
        if self._endpoint.mutates:
            actor = actor_of(access, str(caller))
            self._parts.services.audit.refuse(
                actor, action=self._action, target=scope["path"], status=error.status, code=error.error_code
            )

    async def _answer(self, request: ApiRequest[Any, Any], audited: AuditedRequest) -> KeyedAnswer:
        try:
            answer = await self._endpoint.handler(request)
        except HoldfastError as error:  # it may become the stored answer
            audited.note_error(error)
            raise
        audited.note_made(answer)
        response = self._as_response(answer)
        return KeyedAnswer(response.status, response.body())

    def _as_response(self, answer: object) -> ApiResponse:
        return answer if isinstance(answer, ApiResponse) else JsonResponse(answer, status=self._endpoint.status)


class Resource:
    """The endpoints of one path, by method."""

    def __init__(self, by_method: Mapping[str, EndpointApp], *, redact: Callable[[bytes], bytes]) -> None:
        self._by_method = dict(by_method)
        if "GET" in self._by_method:
            self._by_method["HEAD"] = self._by_method["GET"]
        self._redact = redact

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        endpoint = self._by_method.get(scope["method"])
        if endpoint is not None:
            await endpoint(scope, receive, send)
            return
        allowed = ", ".join(sorted(self._by_method))
        error = MethodNotAllowed(f"method {scope['method'][:20]!r} is not allowed here; use one of {allowed}")
        response = error_response(error, headers=((b"allow", allowed.encode()),))
        await send_response(send, response, redact=self._redact)
