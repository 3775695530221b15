"""Tools that clients attach to sessions, and calls that a client executes.

A client attaches tools to a session while it has an open event stream. When its last stream has closed and none is
opened within a few seconds, its tools are detached: they are gone when the client is gone. Nothing of this is stored,
so after a restart the client attaches them again.

A call is announced with a live event that every stream gets, also one that is opened later. It is closed exactly once:
by the first result, by a cancel, by its time limit, or because the client is gone. A result that was accepted is the
result of the call, also if a cancel follows at once. A result that comes too late is refused.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol

from msgspec.structs import replace

from holdfast.digests import sha256_hex
from holdfast.errors import Conflict, Forbidden, NotFound, ToolError
from holdfast.schema.base import Value, encode, to_builtins
from holdfast.schema.client_tools import ClientCall, ClientCallState, ClientResult, ClientTool, ClientTools
from holdfast.schema.events import CallClosed, CallRequested

RECONNECT_SECONDS = 5.0
"""How long a client may be without a stream before its tools are detached."""
_MAX_CLOSED = 1_000
"""Closed calls that are remembered, to tell a late answer why it is refused."""


class ClientCallContext(Protocol):
    """The tool call to which a client's call belongs. A `ToolContext` is one."""

    @property
    def workspace_id(self) -> str: ...
    @property
    def session_id(self) -> str: ...
    @property
    def run_id(self) -> str: ...
    @property
    def call_id(self) -> str: ...


class _Attachment(Value, frozen=True):
    client_id: str
    client: str
    tools: dict[str, ClientTool]
    memory: dict[str, tuple[str, ...]]


class _OpenCall:
    """A call that waits. The first of its closings wins."""

    def __init__(self, call: ClientCall) -> None:
        self.call = call
        self.closed: asyncio.Future[ClientResult | str] = asyncio.get_running_loop().create_future()
        """The result, or why there is none."""
        self.state: ClientCallState = "cancelled"
        self.digest = ""

    def close(self, state: ClientCallState, value: ClientResult | str) -> bool:
        if self.closed.done():
            return False
        self.state = state
        self.closed.set_result(value)
        return True


class ClientCalls:
    """The attached tools and open calls of one server."""

    def __init__(
        self,
        *,
        publish: Callable[[CallRequested | CallClosed], None],
        new_id: Callable[[], str],
        now: Callable[[], str],
        reconnect_seconds: float = RECONNECT_SECONDS,
    ) -> None:
        self._publish = publish
        self._new_id = new_id
        self._now = now
        self._reconnect_seconds = reconnect_seconds
        self._attached: dict[str, dict[str, _Attachment]] = {}
        """By session and client. The client that attached last is last."""
        self._expiring: dict[str, asyncio.TimerHandle] = {}
        """The clients with tools and without a stream."""
        self._open: dict[str, _OpenCall] = {}
        self._closed: OrderedDict[str, tuple[ClientCall, str]] = OrderedDict()

    def attach(self, session_id: str, tools: Sequence[ClientTool], *, client_id: str, client: str) -> ClientTools:
        """Replace the tools of a client in a session. Open calls of tools that it removes end with an error."""
        by_client = self._attached.setdefault(session_id, {})
        before = by_client.pop(client_id, None)
        named = {tool.name: tool for tool in tools}
        if named:
            by_client[client_id] = _Attachment(client_id, client, named, before.memory if before else {})
        elif not by_client:
            del self._attached[session_id]
        for waiting in tuple(self._open.values()):
            call = waiting.call
            if (call.root_session_id, call.client_id) == (session_id, client_id) and call.tool not in named:
                waiting.close("gone", f"the tool {call.tool!r} was removed by the program that offered it")
        return ClientTools(session_id, client, tuple(tools))

    def attached(self, session_id: str) -> tuple[ClientTools, ...]:
        return tuple(
            ClientTools(session_id, one.client, tuple(one.tools.values()))
            for one in self._attached.get(session_id, {}).values()
        )

    def find(self, session_id: str, name: str) -> ClientTool | None:
        """Return the tool of this name. If several clients have one, the client that attached last is called."""
        found = self._find(session_id, name)
        return None if found is None else found.tools[name]

    def clients_with(self, session_id: str, name: str) -> tuple[str, ...]:
        """Return the ids of all clients that have attached a tool of this name."""
        return tuple(one.client_id for one in self._attached.get(session_id, {}).values() if name in one.tools)

    def memory(self, session_id: str, client_id: str) -> dict[str, tuple[str, ...]]:
        """Return what callers have noted about a client of a session. It is gone when the client is gone."""
        found = self._attached.get(session_id, {}).get(client_id)
        return {} if found is None else found.memory

    def _find(self, session_id: str, name: str, client_id: str | None = None) -> _Attachment | None:
        attachments = reversed(self._attached.get(session_id, {}).values())
        return next((one for one in attachments if name in one.tools and client_id in (None, one.client_id)), None)

    def note_streams(self, client_id: str, count: int) -> None:
        """The number of open event streams of a client has changed."""
        if count:
            if timer := self._expiring.pop(client_id, None):
                timer.cancel()
        elif client_id not in self._expiring and self._is_used_by(client_id):
            loop = asyncio.get_running_loop()
            self._expiring[client_id] = loop.call_later(self._reconnect_seconds, self._detach, client_id)

    def _is_used_by(self, client_id: str) -> bool:
        has_tools = any(client_id in by_client for by_client in self._attached.values())
        return has_tools or any(waiting.call.client_id == client_id for waiting in self._open.values())

    def _detach(self, client_id: str) -> None:
        self._expiring.pop(client_id, None)
        for session_id, by_client in tuple(self._attached.items()):
            by_client.pop(client_id, None)
            if not by_client:
                del self._attached[session_id]
        for waiting in tuple(self._open.values()):
            if waiting.call.client_id == client_id:
                tool = waiting.call.tool
                waiting.close("gone", f"the program that executes {tool!r} is gone; whether it has run is not known")

    async def call(
        self,
        name: str,
        arguments: dict[str, Any],
        *,
        root_session_id: str,
        context: ClientCallContext,
        client_id: str | None = None,
    ) -> ClientResult:
        """Have a client execute a call, and wait for its result. Raises `ToolError` if there will be none."""
        attachment = self._find(root_session_id, name, client_id)
        if attachment is None:
            raise ToolError(f"tool {name!r} is not available any more: the program that offered it is gone")
        waiting = _OpenCall(
            ClientCall(
                id=self._new_id(),
                workspace_id=context.workspace_id,
                session_id=context.session_id,
                root_session_id=root_session_id,
                run_id=context.run_id,
                call_id=context.call_id,
                client_id=attachment.client_id,
                tool=name,
                arguments=arguments,
            )
        )
        call, seconds = waiting.call, attachment.tools[name].seconds
        late = f"{name!r} has not answered within {seconds:g} s; whether it has run is not known"
        timer = asyncio.get_running_loop().call_later(seconds, waiting.close, "expired", late)
        self._open[call.id] = waiting
        self._publish(CallRequested(self._now(), call.session_id, call))
        try:
            found = await waiting.closed
        except asyncio.CancelledError:
            # A result that was accepted counts, although the run was cancelled before this task could return it.
            if waiting.state != "answered":
                raise
            found = waiting.closed.result()
        finally:
            timer.cancel()
            del self._open[call.id]
            closed = replace(call, state=waiting.state, arguments={})
            self._closed[call.id] = (closed, waiting.digest)
            if len(self._closed) > _MAX_CLOSED:
                self._closed.popitem(last=False)
            self._publish(CallClosed(self._now(), call.session_id, closed))
        if isinstance(found, str):
            raise ToolError(found)
        return found

    def open_calls(self, session_id: str | None = None) -> tuple[ClientCall, ...]:
        return tuple(one.call for one in self._open.values() if session_id in (None, one.call.root_session_id))

    def workspace_of(self, client_call_id: str) -> str | None:
        """The workspace of a call, open or closed; ``None`` if there is no such call."""
        waiting, closed = self._open.get(client_call_id), self._closed.get(client_call_id)
        if waiting is not None:
            return waiting.call.workspace_id
        return None if closed is None else closed[0].workspace_id

    def answer(self, client_call_id: str, result: ClientResult, *, client_id: str) -> ClientCall:
        """Give the result of a call. Raises `Conflict` if the call is closed and this is not the result it got."""
        waiting = self._open.get(client_call_id)
        if waiting is not None:
            if waiting.call.client_id != client_id:
                raise Forbidden(f"call {client_call_id!r} is for another client; only that client can answer it")
            digest = sha256_hex(encode(result))
            if waiting.close("answered", result):
                waiting.digest = digest
            elif waiting.digest != digest:
                raise _closed_error(replace(waiting.call, state=waiting.state, arguments={}))
            return replace(waiting.call, state="answered")
        if client_call_id not in self._closed:
            raise NotFound(f"there is no call {client_call_id!r}", code="call_not_found")
        closed, digest = self._closed[client_call_id]
        if closed.client_id == client_id and digest == sha256_hex(encode(result)):
            return closed
        raise _closed_error(closed)


def _closed_error(call: ClientCall) -> Conflict:
    return Conflict(
        f"call {call.id!r} is already {call.state}; drop the result",
        code="call_closed",
        detail={"call": to_builtins(call)},
    )


def check_names(tools: Iterable[ClientTool], *, taken: Iterable[str]) -> None:
    """Raise `Conflict` if a name is used twice or belongs to a tool of ours."""
    seen = set(taken)
    for tool in tools:
        if tool.name in seen:
            raise Conflict(
                f"the tool name {tool.name!r} is taken; choose another name",
                code="tool_name_taken",
                detail={"name": tool.name},
            )
        seen.add(tool.name)
