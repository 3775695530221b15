"""Sends each request to the server that owns its workspace.

The router stands behind the access control of every listener. A request for a workspace that another server owns is
forwarded, with what its sender may do. A mutation without an idempotency key gets one, so that it can be repeated when
the owner does not answer: the first answer counts, whichever server gives it. Reads are answered here while the owner
cannot be reached.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, MutableMapping
from typing import Any, assert_never
from urllib.parse import quote

import msgspec

from holdfast.errors import NotFound, WorkspaceElsewhere
from holdfast.fleet.fleet_member import FleetMember
from holdfast.fleet.peer_http import PeerResponse, PeerUnreachable, elsewhere
from holdfast.fleet.request_places import (
    Forward,
    Handle,
    HandleRead,
    RefuseForwarded,
    TakeAndHandle,
    WaitForOwner,
    is_stream,
    request_target,
)
from holdfast.server.http.request_access import ACCESS, FORWARDED, OWNER
from holdfast.server.http.request_parsing import HEADERS, Receive, read_body
from holdfast.server.http.responses import AsgiApp, Scope, Send
from holdfast.server.routes.runs import MAX_PROMPT_BYTES
from holdfast.store.postgres.lease_table import LeaseKind

_logger = logging.getLogger(__name__)

ROUTE_SECONDS = 20.0
"""How long a mutation waits for an owner. Longer than a lease lasts, so that a dead owner is replaced meanwhile."""
_PAUSE_SECONDS = 0.1
_MAX_WHOLE_BYTES = 1 << 18
"""An answer up to this size is passed on when all of it is here, so that one that is cut off can be asked for again."""
_CALLS = "/v1/client-calls/"
_WORKSPACES = "/v1/workspaces"


class FleetRouter:
    """An ASGI application around the routes of one listener."""

    def __init__(self, app: AsgiApp, member: FleetMember) -> None:
        self._app = app
        self._member = member

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        path: str = scope["path"]
        if is_stream(path):
            await self._app(scope, receive, send)
            return
        body: bytes | None = None
        target = request_target(path)
        if scope["method"] not in ("GET", "HEAD") and (target is not None or path == _WORKSPACES):
            # Read at once: what has arrived counts, also if the sender leaves while the owner is looked up.
            headers = scope[HEADERS]
            body = await read_body(receive, length=headers.get(b"content-length"), limit=MAX_PROMPT_BYTES)
        if path == _WORKSPACES and body is not None:
            await self._open_directory(scope, receive, send, body=body)
            return
        if path.startswith(_CALLS) and FORWARDED not in scope:
            await self._answer_call(scope, receive, send)
            return
        workspace_id = None if target is None else await self._member.workspace_of(target)
        if workspace_id is None:
            # about no workspace, or about nothing that exists
            await self._app(scope, receive if body is None else _replay(body, receive), send)
        else:
            await _RoutedRequest(self._app, self._member, workspace_id, scope, receive, send, body=body).handle()

    async def _answer_call(self, scope: Scope, receive: Receive, send: Send) -> None:
        """A call that a client executes is known only to the server that runs it."""
        member, workspace_id = self._member, self._member.workspace_of_call(scope["path"].removeprefix(_CALLS))
        if workspace_id is not None:
            await self._app(scope, receive, send)
            return
        request = _RoutedRequest(self._app, member, "", scope, receive, send)
        asked: set[str] = set()
        for is_fresh in (False, True):
            if is_fresh:
                await member.keeper.look()  # the one that runs it may be new
            for server_id in sorted(member.live_servers(None) - asked):
                asked.add(server_id)
                if await request.forward(server_id, unless=404):
                    return
        await request.here()

    async def _open_directory(self, scope: Scope, receive: Receive, send: Send, *, body: bytes) -> None:
        """A directory that is known is opened where it is owned."""
        for is_last in (False, True):
            workspace_id = await self._member.workspace_at(_path_in(body))
            again = _replay(body, receive)
            try:
                if workspace_id is None:
                    await self._app(scope, again, send)
                else:
                    await _RoutedRequest(self._app, self._member, workspace_id, scope, again, send, body=body).handle()
                return
            except WorkspaceElsewhere:  # another server opened it at the same time
                if is_last or workspace_id is not None:
                    raise


class _RoutedRequest:
    """One request for one workspace."""

    def __init__(
        self,
        app: AsgiApp,
        member: FleetMember,
        workspace_id: str,
        scope: Scope,
        receive: Receive,
        send: Send,
        *,
        body: bytes | None = None,
    ) -> None:
        self._app = app
        self._member = member
        self._workspace_id = workspace_id
        self._scope = scope
        self._receive = receive
        self._send = send
        self._body = body
        self._mutates = scope["method"] not in ("GET", "HEAD")
        self._forwarded = FORWARDED in scope

    async def handle(self) -> None:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + ROUTE_SECONDS
        member, workspace_id = self._member, self._workspace_id
        while True:
            try:
                place = await member.place(workspace_id, mutates=self._mutates, forwarded=self._forwarded)
            except NotFound:
                place = HandleRead()  # the route says what does not exist
            match place:
                case Handle():
                    if not self._mutates:  # it may wait for long, and writes nothing: it does not keep the lease
                        await self.here()
                        return
                    if await self._with_lease(None):
                        return
                case HandleRead():
                    await self.here()
                    return
                case TakeAndHandle(kind):
                    if await self._with_lease(kind):
                        return
                case Forward(server_id):
                    if await self.forward(server_id):
                        return
                    if not self._mutates:
                        await self.here()
                        return
                case WaitForOwner():
                    if not self._mutates:
                        await self.here()
                        return
                case RefuseForwarded():
                    raise elsewhere(workspace_id)
                case never:
                    assert_never(never)
            if loop.time() >= deadline:
                raise elsewhere(workspace_id)
            await asyncio.sleep(_PAUSE_SECONDS)

    async def _with_lease(self, take_as: LeaseKind | None) -> bool:
        async with self._member.using(self._workspace_id, take_as) as is_held:
            if is_held:
                await self.here()
            return is_held

    async def here(self) -> None:
        receive = self._receive if self._body is None else _replay(self._body, self._receive)
        await self._app(self._scope, receive, self._send)

    async def forward(self, server_id: str, *, unless: int = 0) -> bool:
        """Let another server answer. False if it did not: it cannot be reached, or is not the owner any more.

        An answer with the status ``unless`` is none.
        """
        member, scope = self._member, self._scope
        headers: dict[bytes, bytes] = scope[HEADERS]
        if self._mutates:
            if self._body is None:
                self._body = await read_body(
                    self._receive, length=headers.get(b"content-length"), limit=MAX_PROMPT_BYTES
                )
            headers.setdefault(b"idempotency-key", member.new_key())
        query = scope["query_string"].decode("latin-1")
        try:
            response = await member.send(
                server_id,
                scope["method"],
                quote(scope["path"]) + (f"?{query}" if query else ""),
                headers=headers,
                access=scope.get(ACCESS, OWNER),
                body=self._body or b"",
            )
        except PeerUnreachable as error:
            _logger.debug("%s %s: %s", scope["method"], scope["path"], error)
            member.forget_place(self._workspace_id)
            return False
        try:
            return response.status != unless and await self._return(response, server_id)
        finally:
            await response.aclose()

    async def _return(self, response: PeerResponse, server_id: str) -> bool:
        """Pass an answer on. False if it was cut off before anything of it was passed on, or says: not here."""
        length = response.length
        is_short = response.status == 503 or (length is not None and length <= _MAX_WHOLE_BYTES)
        chunks = response.chunks()
        try:
            first = await self._member.while_alive(server_id, response.read() if is_short else anext(chunks, b""))
        except PeerUnreachable as error:
            _logger.debug("%s %s: %s", self._scope["method"], self._scope["path"], error)
            self._member.forget_place(self._workspace_id)
            return False
        if response.status == 503 and _is_elsewhere(first):
            self._member.forget_place(self._workspace_id)
            return False
        await self._start(response)
        await self._send({"type": "http.response.body", "body": first, "more_body": not is_short})
        if not is_short:
            await self._pass_on(chunks, server_id)
        return True

    async def _pass_on(self, chunks: AsyncIterator[bytes], server_id: str) -> None:
        """The rest of a long answer. If it is cut off, the sender's connection is, too: it must not look complete."""
        try:
            while (chunk := await self._member.while_alive(server_id, anext(chunks, None))) is not None:
                await self._send({"type": "http.response.body", "body": chunk, "more_body": True})
        except PeerUnreachable:
            self._member.forget_place(self._workspace_id)
            raise elsewhere(self._workspace_id) from None
        await self._send({"type": "http.response.body", "body": b""})

    async def _start(self, response: PeerResponse) -> None:
        await self._send({"type": "http.response.start", "status": response.status, "headers": response.headers})


def _is_elsewhere(body: bytes) -> bool:
    try:
        return bool(msgspec.json.decode(body)["error"]["code"] in ("workspace_elsewhere", "lease_lost", "stopping"))
    except (msgspec.MsgspecError, KeyError, TypeError):
        return False


def _path_in(body: bytes) -> str | None:
    """The path of a request to open a directory; None if the body is invalid. The route says so."""
    try:
        path = msgspec.json.decode(body)["path"]
    except (msgspec.MsgspecError, KeyError, TypeError):
        return None
    return path if isinstance(path, str) else None


def _replay(body: bytes, receive: Receive) -> Receive:
    """A `receive` that yields a body that was read already."""
    is_sent = False

    async def again() -> MutableMapping[str, Any]:
        nonlocal is_sent
        if is_sent:
            return await receive()
        is_sent = True
        return {"type": "http.request", "body": body, "more_body": False}

    return again
