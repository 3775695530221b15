"""An interface as data: each endpoint names what it takes and what it answers.

From these rows the routes are made and the OpenAPI description is generated, so the two cannot differ.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, Generic, Literal, Protocol, TypeAlias, TypeVar

import msgspec

from holdfast.errors import HoldfastError
from holdfast.schema.api.request_bodies import NoParameters, QueryParameters, RequestBody
from holdfast.server.http.request_parsing import Receive
from holdfast.server.http.responses import Scope, Send
from holdfast.server.presence import Caller

if TYPE_CHECKING:
    from holdfast.server.server_parts import ServerParts

B = TypeVar("B")
Q = TypeVar("Q")

Method = Literal["GET", "POST", "PUT", "PATCH", "DELETE"]

KIB = 1024
SMALL = 256 * KIB
"""Most bytes of an ordinary body."""


class Call(Generic[B, Q]):
    """One request that has been read."""

    __slots__ = ("body", "caller", "headers", "parts", "path", "query", "receive")

    def __init__(
        self,
        parts: ServerParts,
        *,
        path: dict[str, str],
        query: Q,
        body: B,
        caller: Caller,
        headers: Mapping[bytes, bytes],
        receive: Receive,
    ) -> None:
        self.parts = parts
        self.path = path
        self.query = query
        self.body = body
        self.caller = caller
        self.headers = headers
        """Lower-case names."""
        self.receive = receive

    @property
    def client(self) -> str:
        """Who did it, as it is stored."""
        return str(self.caller)

    async def left(self) -> None:
        """Returns when the caller has gone away."""
        while (await self.receive())["type"] != "http.disconnect":
            pass


class Responder(Protocol):
    """An answer that is no JSON value: it speaks for itself."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None: ...


Handler: TypeAlias = Callable[[Call[Any, Any]], Awaitable[object]]
"""Answers a value, a `Reply` or a `Responder`."""


class _Row(msgspec.Struct, frozen=True):
    method: Method
    path: str
    handler: Handler


class Endpoint(_Row, frozen=True, kw_only=True):
    """One row of the interface."""

    query: type[QueryParameters] = NoParameters
    body: type[RequestBody] | None = None
    limit: int = SMALL
    """Most bytes of the body."""
    answer: Any = None
    """The type of what is answered; ``None`` for no content."""
    kind: str = "application/json"
    """The media type of the answer."""
    other_kinds: tuple[str, ...] = ()
    """Media types that a parameter may ask for."""
    status: int = 200
    also: dict[int, Any] = {}
    """Other good statuses, with the types they answer."""
    gives: dict[str, str] = {}
    """Which parameters of other addresses stand where in the answer: ``{"run_id": "/run/id"}``."""
    errors: tuple[type[HoldfastError], ...] = ()
    """Besides those that every endpoint may answer."""
    public: bool = False
    """Answers without a token."""
    keyed: bool = True
    """A mutation that takes an ``Idempotency-Key``, kept with its answer."""

    @property
    def summary(self) -> str:
        """The first line of the handler's description."""
        return (self.handler.__doc__ or "").strip().split("\n")[0]

    @property
    def mutates(self) -> bool:
        return self.method != "GET"
