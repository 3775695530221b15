"""Logins to MCP servers, with a real authorization server on loopback: the whole flow, refresh, and what goes wrong."""

import asyncio
import socket
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from msgspec.structs import replace

from holdfast.config import Keyring, SecretStore
from holdfast.extend.mcp.login_store import LoginStore
from tests.extend.mcp.oauth_server import OAuthServer, open_oauth_server
from tests.support.mcp_peers import QUICK, ServerProbe, open_server

ONCE = replace(QUICK, first_attempts=1)


def keyring(directory: Path) -> Keyring:
    return Keyring(SecretStore(directory / "secrets.json"), env={})


async def browse(address: str) -> str:
    """Get an address as a browser does, and return the page."""
    parts = urlsplit(address)
    reader, writer = await asyncio.open_connection(parts.hostname, parts.port)
    writer.write(f"GET {parts.path}?{parts.query} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
    page = (await reader.read()).decode()
    writer.close()
    return page.partition("\r\n\r\n")[2]


async def log_in(probe: ServerProbe, oauth: OAuthServer, **changes: str) -> str:
    async with asyncio.timeout(30):
        await probe.server.wait_login(seconds=30)
        page = await browse(oauth.authorize(probe.server.login_address, **changes))
        await probe.server.wait_settled()
    return page


async def expire(directory: Path, oauth: OAuthServer) -> None:
    store = LoginStore(keyring(directory), name="peer", url=f"{oauth.url}/mcp")
    login = await store.load()
    login.expires_at = 1.0
    await store.save_client(login.client or {})


async def test_the_whole_flow_and_the_tokens_are_used_again_and_refreshed(tmp_path: Path) -> None:
    async with open_oauth_server() as oauth:
        options: dict[str, Any] = {"url": f"{oauth.url}/mcp", "times": ONCE, "transport": "http"}
        async with open_server(tmp_path, **options) as probe:
            assert (probe.server.status.state, probe.server.status.detail) == (
                "needs_auth",
                "log in with 'holdfast mcp login peer'",
            )
        assert oauth.count("/register") == 0, "nothing is registered before a person wants to log in"
        secrets = keyring(tmp_path)
        async with open_server(tmp_path, **options, secrets=secrets, is_login=True) as probe:
            assert "logged in" in await log_in(probe, oauth)
            assert probe.server.status.state == "ready", probe.server.status
            assert (await probe.call("say"))["content"][0]["text"] == "said"
        (token,) = oauth.valid
        assert secrets.redactor.redact(f"a {token} b") != f"a {token} b"
        assert (tmp_path / "secrets.json").stat().st_mode & 0o077 == 0
        async with open_server(tmp_path, **options) as probe:
            assert probe.server.status.state == "ready"
        assert oauth.count("/oauth/token") == 1
        oauth.valid.clear()
        async with open_server(tmp_path, **options) as probe:
            assert probe.server.status.state == "ready", "a revoked token is refreshed if that is possible"
            assert oauth.count("/oauth/token") == 2
            oauth.valid.clear()
            assert (await probe.call("say"))["content"][0]["text"] == "said", "also during a session"
            assert oauth.count("/oauth/token") == 3
        oauth.valid.clear()
        oauth.refreshable = False
        async with open_server(tmp_path, **options) as probe:
            assert probe.server.status.state == "needs_auth", "else it needs a new login"


async def test_an_expired_token_is_refreshed_also_after_a_restart(tmp_path: Path) -> None:
    async with open_oauth_server() as oauth:
        options: dict[str, Any] = {"url": f"{oauth.url}/mcp", "times": ONCE, "transport": "http"}
        async with open_server(tmp_path, **options, is_login=True) as probe:
            await log_in(probe, oauth)
            assert probe.server.status.state == "ready"
        oauth.valid.clear()
        await expire(tmp_path, oauth)
        async with open_server(tmp_path, **options) as probe:
            assert probe.server.status.state == "ready"
        assert oauth.count("/register") == 1
        oauth.valid.clear()
        await expire(tmp_path, oauth)
        oauth.refreshable = False
        async with open_server(tmp_path, **options) as probe:
            assert probe.server.status.state == "needs_auth"


@pytest.mark.parametrize("changes", [{"state": "wrong"}, {"error": "access_denied"}])
async def test_a_wrong_state_or_a_refusal_logs_nobody_in(tmp_path: Path, changes: dict[str, str]) -> None:
    async with open_oauth_server() as oauth:
        async with open_server(tmp_path, url=f"{oauth.url}/mcp", times=ONCE, transport="http", is_login=True) as probe:
            await log_in(probe, oauth, **changes)
            assert probe.server.status.state == "failed"
            assert "code-secret" not in probe.server.status.detail
        assert oauth.count("/oauth/token") == 0


async def test_a_port_that_is_taken_is_replaced_and_the_client_registered_again(tmp_path: Path) -> None:
    async with open_oauth_server() as oauth:
        options: dict[str, Any] = {"url": f"{oauth.url}/mcp", "times": ONCE, "transport": "http", "is_login": True}
        ports = []
        for taken in (False, True):
            with socket.socket() as holder:
                if taken:
                    holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                    holder.bind(("127.0.0.1", ports[0]))
                    holder.listen()
                oauth.valid.clear()
                async with open_server(tmp_path, **options) as probe:
                    await probe.server.wait_login(seconds=30)
                    address = probe.server.login_address
                    redirect = parse_qs(urlsplit(address).query)["redirect_uri"][0]
                    ports.append(urlsplit(redirect).port)
                    await browse(oauth.authorize(address))
                    await probe.server.wait_settled()
                    assert probe.server.status.state == "ready"
        assert ports[0] != ports[1]
        assert oauth.count("/register") == 2


async def test_closing_during_a_login_closes_its_address(tmp_path: Path) -> None:
    async with open_oauth_server() as oauth:
        async with open_server(tmp_path, url=f"{oauth.url}/mcp", times=ONCE, transport="http", is_login=True) as probe:
            await probe.server.wait_login(seconds=30)
            address = oauth.authorize(probe.server.login_address)
        with pytest.raises(ConnectionRefusedError):
            await browse(address)
        assert not any(task.get_name().startswith("mcp:peer") for task in asyncio.all_tasks())
