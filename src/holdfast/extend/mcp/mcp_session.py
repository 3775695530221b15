"""A session with an MCP server. The only module, besides its transports, that imports the protocol's library.

The import is slow: import this module in a thread. All methods take and return plain JSON values and raise `ToolError`;
its code is ``mcp_closed`` if the connection is lost.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import httpx2
import mcp_types as types
from mcp import Client
from mcp.client.session import ClientRequestContext
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import BaseModel, ValidationError

from holdfast import __version__
from holdfast.errors import ToolError
from holdfast.extend.mcp.stdio_transport import open_stdio as open_stdio

import_module("jsonschema")  # the library imports it with the first result, which would block the event loop
for _name in ("mcp", "client"):
    logging.getLogger(_name).setLevel(logging.CRITICAL)  # it logs what servers send; `ServerLog` has what matters

_REJECTED = -1
"""The code of the protocol for a request that the person rejected."""
_MAX_PAGES = 50
_MAX_ITEMS = 1_000
_LISTS = {
    "notifications/tools/list_changed": "tools",
    "notifications/prompts/list_changed": "prompts",
    "notifications/resources/list_changed": "resources",
}


class SessionHandlers(NamedTuple):
    """What a server can ask for or tell by itself."""

    elicit: Callable[[dict[str, Any]], Awaitable[dict[str, Any]]]
    """Answers a question of the server to the person, as the protocol's JSON."""
    sample: Callable[[dict[str, Any]], Awaitable[dict[str, Any]]]
    """Answers a request of the server to a model, as the protocol's JSON. Raises `ToolError` if it is refused."""
    may_sample: bool
    """Whether the server is told that it can ask a model."""
    list_changed: Callable[[str], None]
    """Gets ``tools``, ``prompts`` or ``resources``."""
    report: Callable[[str], None]
    """Gets log messages, and what is wrong with messages."""


class McpSession:
    def __init__(self, client: Client) -> None:
        self._client = client
        capabilities = client.server_capabilities
        self.offers_prompts = capabilities.prompts is not None
        self.offers_resources = capabilities.resources is not None
        self.offers_tools = capabilities.tools is not None
        self.can_ping = client.protocol_version not in MODERN_PROTOCOL_VERSIONS

    @property
    def instructions(self) -> str:
        return self._client.instructions or ""

    async def list_tools(self) -> list[dict[str, Any]]:
        return await self._list("tools", lambda cursor: self._client.list_tools(cursor=cursor))

    async def list_prompts(self) -> list[dict[str, Any]]:
        return await self._list("prompts", lambda cursor: self._client.list_prompts(cursor=cursor))

    async def list_resources(self) -> list[dict[str, Any]]:
        return await self._list("resources", lambda cursor: self._client.list_resources(cursor=cursor))

    async def list_resource_templates(self) -> list[dict[str, Any]]:
        """Many servers have resources and do not know this request."""
        try:
            return await self._list(
                "resourceTemplates", lambda cursor: self._client.list_resource_templates(cursor=cursor)
            )
        except ToolError as error:
            if error.error_code != "mcp_refused":
                raise
            return []

    async def call_tool(
        self, tool: str, arguments: dict[str, Any], *, seconds: float, show: Callable[[str], None]
    ) -> dict[str, Any]:
        async def on_progress(progress: float, total: float | None, message: str | None) -> None:
            amount = f"{progress:g} of {total:g}" if total else f"{progress:g}"
            show(f"{amount}: {message}\n" if message else f"{amount}\n")

        return await _answer(self._client.call_tool(tool, arguments, seconds, on_progress))

    async def get_prompt(self, name: str, arguments: dict[str, str]) -> dict[str, Any]:
        return await _answer(self._client.get_prompt(name, arguments))

    async def read_resource(self, uri: str) -> dict[str, Any]:
        return await _answer(self._client.read_resource(uri))

    async def ping(self) -> None:
        await _answer(self._client.session.send_ping())

    async def _list(self, kind: str, get: Callable[[str | None], Awaitable[BaseModel]]) -> list[dict[str, Any]]:
        items: list[dict[str, Any]] = []
        cursor: str | None = None
        for _ in range(_MAX_PAGES):
            page = await _answer(get(cursor))
            found = page.get(kind)
            items += [item for item in found if isinstance(item, dict)] if isinstance(found, list) else []
            cursor = page.get("nextCursor")
            if not isinstance(cursor, str) or len(items) >= _MAX_ITEMS:
                break
        return items[:_MAX_ITEMS]


@asynccontextmanager
async def open_session(
    transport: AbstractAsyncContextManager[tuple[Any, Any]],
    handlers: SessionHandlers,
    *,
    directory: Path,
    seconds: float,
    is_modern: bool,
) -> AsyncIterator[McpSession]:
    """Connect and shake hands. ``is_modern`` tries the handshake of newer servers first."""
    client = Client(
        transport,
        read_timeout_seconds=seconds,
        sampling_callback=_sampling(handlers) if handlers.may_sample else None,
        elicitation_callback=_elicitation(handlers),
        list_roots_callback=_roots(directory),
        logging_callback=_logging(handlers),
        message_handler=_messages(handlers),
        client_info=types.Implementation(name="holdfast", version=__version__),
        mode="auto" if is_modern else "legacy",
        cache=None,
    )
    async with client:
        if not handlers.may_sample:
            # The server was not told that it can ask. If it asks nevertheless, it gets our answer, and the log a line.
            client.session._sampling_callback = _sampling(handlers)  # noqa: SLF001 - a callback would offer it
        yield McpSession(client)


def open_http(
    url: str, client: httpx2.AsyncClient, *, max_message: int
) -> AbstractAsyncContextManager[tuple[Any, Any]]:
    """Streamable HTTP."""
    found: AbstractAsyncContextManager[tuple[Any, Any]] = streamable_http_client(
        url, http_client=client, max_sse_event_size=max_message
    )
    return found


def open_sse(url: str, client: httpx2.AsyncClient, *, seconds: float) -> AbstractAsyncContextManager[tuple[Any, Any]]:
    """The older transport with server-sent events. It closes the client."""

    def use_client(
        headers: dict[str, str] | None = None, timeout: httpx2.Timeout | None = None, auth: httpx2.Auth | None = None
    ) -> httpx2.AsyncClient:
        return client

    found: AbstractAsyncContextManager[tuple[Any, Any]] = sse_client(
        url, timeout=seconds, httpx_client_factory=use_client
    )
    return found


def is_unknown_handshake(error: BaseException) -> bool:
    """Whether a server refused the usual handshake because it only knows a newer one."""
    return isinstance(error, MCPError) and error.code in (
        types.METHOD_NOT_FOUND,
        types.UNSUPPORTED_PROTOCOL_VERSION,
    )


async def _answer(work: Awaitable[BaseModel]) -> dict[str, Any]:
    try:
        result = await work
    except MCPError as error:
        if error.code == types.REQUEST_TIMEOUT:
            raise ToolError("it did not answer in time", code="mcp_timeout") from None
        closed = error.code == types.CONNECTION_CLOSED or "Session terminated" in error.message
        raise ToolError(error.message or "it refused", code="mcp_closed" if closed else "mcp_refused") from None
    except ValidationError:
        raise ToolError("its answer does not follow the protocol", code="mcp_invalid") from None
    except (RuntimeError, ValueError, httpx2.HTTPError, OSError) as error:
        raise ToolError(str(error) or type(error).__name__, code="mcp_invalid") from None
    plain: dict[str, Any] = result.model_dump(by_alias=True, mode="json", exclude_none=True)
    return plain


def _elicitation(handlers: SessionHandlers) -> Any:
    async def elicit(context: ClientRequestContext, params: types.ElicitRequestParams) -> Any:
        answered = await handlers.elicit(params.model_dump(by_alias=True, mode="json", exclude_none=True))
        return types.ElicitResult.model_validate(answered)

    return elicit


def _sampling(handlers: SessionHandlers) -> Any:
    async def sample(context: ClientRequestContext, params: types.CreateMessageRequestParams) -> Any:
        try:
            answered = await handlers.sample(params.model_dump(by_alias=True, mode="json", exclude_none=True))
        except ToolError as error:
            code = _REJECTED if error.error_code == "denied" else types.INVALID_REQUEST
            return types.ErrorData(code=code, message=error.message)
        return types.CreateMessageResult.model_validate(answered)

    return sample


def _roots(directory: Path) -> Any:
    async def list_roots(context: ClientRequestContext) -> Any:
        return types.ListRootsResult.model_validate({"roots": [{"uri": directory.as_uri(), "name": directory.name}]})

    return list_roots


def _logging(handlers: SessionHandlers) -> Any:
    async def log(params: types.LoggingMessageNotificationParams) -> None:
        handlers.report(f"{params.level}: {params.data}")

    return log


def _messages(handlers: SessionHandlers) -> Any:
    async def receive(message: Any) -> None:
        if isinstance(message, Exception):
            handlers.report(f"invalid message: {message}")
        elif (kind := _LISTS.get(getattr(message, "method", ""))) is not None:
            handlers.list_changed(kind)

    return receive
