"""What is kept of a login to an MCP server: tokens, the registration of the client, and its redirect address.

It is in the key file, bound to the name and the address of the server. So another server with the same name, such as
one of a project, never gets the tokens.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Any, Protocol

import msgspec

from holdfast.config import Secret
from holdfast.digests import sha256_hex


class SecretFile(Protocol):
    """Where secrets are stored by name."""

    async def read_stored(self, name: str) -> Secret | None: ...

    async def store(self, name: str, secret: Secret) -> None: ...

    async def remove_stored(self, name: str) -> bool: ...

    def remember(self, secrets: Iterable[Secret]) -> None: ...


class StoredLogin(msgspec.Struct):
    tokens: dict[str, Any] | None = None
    client: dict[str, Any] | None = None
    expires_at: float | None = None
    """When the access token expires, in seconds since 1970."""
    metadata: dict[str, Any] | None = None
    """What the authorization server said about itself: where tokens are refreshed."""
    resource: dict[str, Any] | None = None
    """What the MCP server said about its authorization servers."""
    port: int = 0
    """The port of the redirect address that the client is registered with."""


class LoginStore:
    """The login of one server."""

    def __init__(self, secrets: SecretFile, *, name: str, url: str) -> None:
        self._secrets = secrets
        self._key = f"mcp.{name}.{sha256_hex(url.encode())[:12]}"
        self.login = StoredLogin()

    async def load(self) -> StoredLogin:
        found = await self._secrets.read_stored(self._key)
        try:
            self.login = msgspec.json.decode(found.reveal(), type=StoredLogin) if found else StoredLogin()
        except msgspec.DecodeError:
            self.login = StoredLogin()
        self._remember()
        return self.login

    async def save_tokens(self, tokens: dict[str, Any]) -> None:
        seconds = tokens.get("expires_in")
        self.login.tokens = tokens
        self.login.expires_at = time.time() + seconds if isinstance(seconds, int | float) else None
        await self._save()

    async def save_client(self, client: dict[str, Any]) -> None:
        self.login.client = client
        await self._save()

    async def remove(self) -> bool:
        self.login = StoredLogin()
        return await self._secrets.remove_stored(self._key)

    async def _save(self) -> None:
        self._remember()
        await self._secrets.store(self._key, Secret(msgspec.json.encode(self.login).decode()))

    def _remember(self) -> None:
        """Redact the tokens from now on."""
        tokens, client = self.login.tokens or {}, self.login.client or {}
        values = [tokens.get("access_token"), tokens.get("refresh_token"), client.get("client_secret")]
        self._secrets.remember(Secret(value) for value in values if isinstance(value, str) and value)
