"""OAuth 2.1 for MCP servers, with the protocol's library: discovery, registration, PKCE, refresh.

The library asks for a person only through `_LoginHandlers`. Without one, it raises `LoginNeeded`. The answer of the
authorization server arrives at a loopback address that is open only during a login.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import asynccontextmanager
from urllib.parse import parse_qs, urlsplit

import httpx2
from mcp.client.auth import OAuthClientProvider
from mcp.shared.auth import (
    AuthorizationCodeResult,
    OAuthClientInformationFull,
    OAuthClientMetadata,
    OAuthMetadata,
    OAuthToken,
    ProtectedResourceMetadata,
)
from pydantic import ValidationError

from holdfast.errors import BadRequest, ToolError
from holdfast.extend.mcp.login_store import LoginStore

_MAX_LINE = 16_384
_DONE = "Holdfast is logged in. You can close this page."
_FAILED = "The login failed. Holdfast says why."


class LoginNeeded(Exception):
    """A person must log in."""


class _Storage:
    """The library's view of a `LoginStore`."""

    def __init__(self, store: LoginStore) -> None:
        self._store = store
        self.provider: OAuthClientProvider | None = None

    async def get_tokens(self) -> OAuthToken | None:
        tokens = self._store.login.tokens
        return OAuthToken.model_validate(tokens) if tokens else None

    async def set_tokens(self, tokens: OAuthToken) -> None:
        if self.provider is not None:
            context, login = self.provider.context, self._store.login
            if context.oauth_metadata is not None:
                login.metadata = context.oauth_metadata.model_dump(mode="json", exclude_none=True)
            if context.protected_resource_metadata is not None:
                login.resource = context.protected_resource_metadata.model_dump(mode="json", exclude_none=True)
        await self._store.save_tokens(tokens.model_dump(mode="json", exclude_none=True))

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        client = self._store.login.client
        return OAuthClientInformationFull.model_validate(client) if client else None

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        await self._store.save_client(client_info.model_dump(mode="json", exclude_none=True))


class _RefreshingProvider(OAuthClientProvider):
    """Refreshes a token that the server refuses before a person must log in: it may have been revoked early."""

    async def _auth_flow(self, request: httpx2.Request) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        flow = super()._auth_flow(request)
        is_refreshed = False
        try:
            sent = await anext(flow)
            while True:
                response = yield sent
                is_refused = sent is request and response.status_code == 401
                if is_refused and not is_refreshed and self.context.can_refresh_token():
                    is_refreshed = True
                    await flow.aclose()
                    self.context.token_expiry_time = 1.0
                    flow = super()._auth_flow(request)
                    sent = await anext(flow)
                else:
                    sent = await flow.asend(response)
        except StopAsyncIteration:
            return
        finally:
            await flow.aclose()


class LoginCallback:
    """The loopback address to which the authorization server sends the person's browser.

    A browser on another machine cannot reach it. Then the person gives the address that the browser was sent to.
    """

    def __init__(self) -> None:
        self._result: asyncio.Future[AuthorizationCodeResult] = asyncio.get_running_loop().create_future()
        self._unanswered: set[asyncio.StreamWriter] = set()
        self.port = 0

    @asynccontextmanager
    async def listen(self, port: int) -> AsyncIterator[None]:
        """Listen on this port, or on any other if it is taken."""
        try:
            server = await asyncio.start_server(self._answer, "127.0.0.1", port, limit=_MAX_LINE)
        except OSError:
            server = await asyncio.start_server(self._answer, "127.0.0.1", 0, limit=_MAX_LINE)
        self.port = server.sockets[0].getsockname()[1]
        try:
            yield
        finally:
            server.close()
            for writer in self._unanswered:  # browsers open connections in advance and send nothing
                writer.transport.abort()

    async def result(self) -> AuthorizationCodeResult:
        return await self._result

    def take_address(self, address: str, *, shown: str) -> None:
        """Take the address that a browser was sent to. ``shown`` is the one that was opened. Raises `BadRequest`."""
        query = urlsplit(address.strip()).query
        if not ({"code", "error"} & parse_qs(query).keys()):
            example = f"http://127.0.0.1:{self.port}/callback?code=…&state=…"
            raise BadRequest(f"the address has no code; paste the whole address that your browser shows: {example}")
        if parse_qs(query).get("state") != parse_qs(urlsplit(shown).query).get("state"):
            raise BadRequest(
                "the address belongs to another login; open the address of this login, and paste where it leads"
            )
        if self._result.done():
            raise BadRequest("this login has its answer already")
        _ = self._take(f"/callback?{query}")

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._unanswered.add(writer)
        try:
            line = await reader.readline()
            status, text = self._take(line.decode("latin-1").split(" ")[1] if line.count(b" ") >= 2 else "")
            body = text.encode()
            head = f"HTTP/1.1 {status}\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: {len(body)}\r\n"
            writer.write(f"{head}Connection: close\r\n\r\n".encode() + body)
            await writer.drain()
        except (OSError, ValueError):
            pass  # a client that is not a browser
        finally:
            self._unanswered.discard(writer)
            writer.close()

    def _take(self, target: str) -> tuple[str, str]:
        parts = urlsplit(target)
        query = {name: values[0] for name, values in parse_qs(parts.query).items()}
        if parts.path != "/callback" or self._result.done():
            return "404 Not Found", "not found"
        if "error" in query:
            self._result.set_exception(ToolError(f"the login was refused: {query['error'][:200]}"))
            return "200 OK", _FAILED
        if "code" not in query:
            return "400 Bad Request", "the code is missing"
        found = AuthorizationCodeResult(code=query["code"], state=query.get("state"), iss=query.get("iss"))
        self._result.set_result(found)
        return "200 OK", _DONE


def make_auth(
    url: str, store: LoginStore, *, callback: LoginCallback | None, show: Callable[[str], None] | None
) -> OAuthClientProvider:
    """Return what adds tokens to requests. Without ``callback`` and ``show`` no person can be asked."""

    async def redirect(address: str) -> None:
        if show is None:
            raise LoginNeeded
        show(address)

    async def wait() -> AuthorizationCodeResult:
        assert callback is not None
        return await callback.result()

    port = callback.port if callback is not None else store.login.port
    if callback is not None and port != store.login.port:
        store.login.client, store.login.port = None, port  # registered with another redirect address
    metadata = OAuthClientMetadata.model_validate(
        {
            "client_name": "Holdfast",
            "redirect_uris": [f"http://127.0.0.1:{port}/callback"],
            "token_endpoint_auth_method": "none",
        }
    )
    storage = _Storage(store)
    provider = storage.provider = _RefreshingProvider(url, metadata, storage, redirect, wait)
    provider.context.token_expiry_time = store.login.expires_at
    _restore_metadata(provider, store)
    return provider


def _restore_metadata(provider: OAuthClientProvider, store: LoginStore) -> None:
    """Without it, tokens would be refreshed at a guessed address."""
    login = store.login
    try:
        if login.metadata is not None:
            provider.context.oauth_metadata = OAuthMetadata.model_validate(login.metadata)
        if login.resource is not None:
            provider.context.protected_resource_metadata = ProtectedResourceMetadata.model_validate(login.resource)
    except ValidationError:
        pass  # it is discovered again with the next login
