"""An OAuth 2.1 authorization server and an MCP server that asks for its tokens, on one loopback port, for tests."""

import asyncio
import base64
import hashlib
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

from tests.support.connections import serve_connections


class OAuthServer:
    """Issues tokens that it can revoke, and answers MCP requests that have a valid one."""

    def __init__(self) -> None:
        self.url = ""
        self.requests: list[tuple[str, str]] = []
        self.valid: set[str] = set()
        self.refreshable = True
        self.expires_in = 3_600
        self._codes: dict[str, dict[str, str]] = {}
        self._count = 0

    def count(self, path: str) -> int:
        return sum(one[1] == path for one in self.requests)

    def authorize(self, address: str, **changes: str) -> str:
        """What a browser does after the person agreed: returns the address that it is sent to."""
        query = {name: values[0] for name, values in parse_qs(urlsplit(address).query).items()}
        assert query["code_challenge_method"] == "S256"
        code = self._new("code")
        self._codes[code] = query
        return f"{query['redirect_uri']}?{urlencode({'code': code, 'state': query['state'], **changes})}"

    def _new(self, kind: str) -> str:
        self._count += 1
        return f"{kind}-secret-{self._count:04}"

    def _answer(self, method: str, path: str, headers: dict[str, str], body: bytes) -> tuple[int, dict[str, str], Any]:
        if path.startswith("/.well-known/oauth-protected-resource"):
            return 200, {}, {"resource": f"{self.url}/mcp", "authorization_servers": [self.url]}
        if path == "/.well-known/oauth-authorization-server":
            names = {"authorization": "authorize", "token": "oauth/token", "registration": "register"}
            return (
                200,
                {},
                {
                    "issuer": self.url,
                    **{f"{name}_endpoint": f"{self.url}/{place}" for name, place in names.items()},
                    "response_types_supported": ["code"],
                    "code_challenge_methods_supported": ["S256"],
                    "token_endpoint_auth_methods_supported": ["none"],
                },
            )
        if path == "/register":
            return 201, {}, {**json.loads(body), "client_id": self._new("client")}
        if path == "/oauth/token":
            return self._token({name: values[0] for name, values in parse_qs(body.decode()).items()})
        if path == "/mcp":
            return self._mcp(method, headers, body)
        return 404, {}, {}

    def _token(self, form: dict[str, str]) -> tuple[int, dict[str, str], Any]:
        if form["grant_type"] == "authorization_code":
            asked = self._codes.pop(form["code"])
            digest = hashlib.sha256(form["code_verifier"].encode()).digest()
            if base64.urlsafe_b64encode(digest).decode().rstrip("=") != asked["code_challenge"]:
                return 400, {}, {"error": "invalid_grant"}
        elif not self.refreshable:
            return 400, {}, {"error": "invalid_grant"}
        token = self._new("access")
        self.valid.add(token)
        tokens = {"access_token": token, "token_type": "Bearer", "refresh_token": self._new("refresh")}
        return 200, {}, {**tokens, "expires_in": self.expires_in}

    def _mcp(self, method: str, headers: dict[str, str], body: bytes) -> tuple[int, dict[str, str], Any]:
        if headers.get("authorization", "").removeprefix("Bearer ") not in self.valid:
            place = f"{self.url}/.well-known/oauth-protected-resource"
            return 401, {"WWW-Authenticate": f'Bearer resource_metadata="{place}"'}, {}
        if method != "POST":
            return 405, {}, {}
        request = json.loads(body)
        match request.get("method"):
            case "initialize":
                info = {"name": "secured", "version": "1"}
                result = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": info}
            case "tools/list":
                result = {"tools": [{"name": "say", "inputSchema": {"type": "object"}}]}
            case "tools/call":
                result = {"content": [{"type": "text", "text": "said"}]}
            case _:
                return 202, {}, None
        return 200, {}, {"jsonrpc": "2.0", "id": request["id"], "result": result}

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        method, target, _ = (await reader.readline()).decode().split(" ")
        headers = {}
        while line := (await reader.readline()).decode().strip():
            name, _, value = line.partition(":")
            headers[name.lower()] = value.strip()
        body = await reader.readexactly(int(headers.get("content-length", "0")))
        path = urlsplit(target).path
        self.requests.append((method, path))
        status, more, answer = self._answer(method, path, headers, body)
        data = b"" if answer is None else json.dumps(answer).encode()
        fields = {
            "Content-Type": "application/json",
            "Content-Length": str(len(data)),
            "Connection": "close",
            **more,
        }
        head = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
        writer.write(f"HTTP/1.1 {status} X\r\n{head}\r\n".encode() + data)
        await writer.drain()


@asynccontextmanager
async def open_oauth_server() -> AsyncIterator[OAuthServer]:
    oauth = OAuthServer()
    async with serve_connections(oauth.serve) as port:
        oauth.url = f"http://127.0.0.1:{port}"
        yield oauth
