"""HTTP access to providers: certificates, proxies, and the end of connections."""

from __future__ import annotations

import asyncio
import shutil
import ssl
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from holdfast.config.setting_types import ProxyUrl
from holdfast.config.settings import NetworkSettings
from holdfast.errors import ModelInvalid, ModelNetwork
from holdfast.models.http_transport import HttpTransport
from holdfast.models.provider_address import build_address
from holdfast.models.stall_timeout import StallLimits, StallTimeout
from tests.support.connections import serve_connections


def new_stall_timeout() -> StallTimeout:
    return StallTimeout(StallLimits(first_token=30, between_tokens=30), clock=asyncio.get_running_loop().time)


async def get(url: str, network: NetworkSettings | None = None) -> bytes:
    transport = HttpTransport(network=network or NetworkSettings())
    stall = new_stall_timeout()
    try:
        async with transport.send("GET", build_address(url), headers={}, stall=stall) as response:
            return await response.body(stall, most=1000)
    finally:
        await transport.aclose()


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A certificate for loopback that only this test trusts, and its key."""
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("needs the openssl program to make a certificate")
    directory = tmp_path_factory.mktemp("tls")
    made, key = directory / "cert.pem", directory / "key.pem"
    subject = ["-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1"]
    files = ["-keyout", str(key), "-out", str(made)]
    kind = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"]
    subprocess.run([openssl, "req", "-x509", *kind, *subject, *files], check=True, capture_output=True)
    return made, key


@pytest.fixture
async def encrypted(certificate: tuple[Path, Path]) -> AsyncIterator[str]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*certificate)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok")
        await writer.drain()

    async with serve_connections(serve, tls=context) as port:
        yield f"https://127.0.0.1:{port}/"


async def test_configured_certificate_is_trusted(encrypted: str, certificate: tuple[Path, Path]) -> None:
    assert await get(encrypted, NetworkSettings(ca_file=str(certificate[0]))) == b"ok"


async def test_unknown_certificate_is_rejected(encrypted: str) -> None:
    with pytest.raises(ModelNetwork, match="certificate verify failed"):
        await get(encrypted)


@pytest.mark.parametrize("content", [None, b"", b"no certificate"])
async def test_error_names_a_file_without_certificates(content: bytes | None, tmp_path: Path) -> None:
    file = tmp_path / "ca.pem"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(ModelInvalid, match=r"ca\.pem.*check network\.ca_file"):
        await get("https://127.0.0.1:9/", NetworkSettings(ca_file=str(file)))


async def test_socks_proxy_without_its_package_names_the_package() -> None:
    with pytest.raises(ModelInvalid, match="socksio"):
        await get("http://model.invalid/", NetworkSettings(proxy=ProxyUrl("socks5://127.0.0.1:9")))


async def test_error_of_an_unreachable_proxy_does_not_show_its_password() -> None:
    with pytest.raises(ModelNetwork) as raised:
        await get("http://model.invalid/", NetworkSettings(proxy=ProxyUrl("http://me:secret-word@127.0.0.1:9")))
    assert "secret-word" not in raised.value.message


async def test_error_of_a_server_without_http_does_not_quote_its_data() -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"SSH-2.0-secret banner\r\n\r\n")
        await writer.drain()

    async with serve_connections(serve) as port:
        with pytest.raises(ModelNetwork) as raised:
            await get(f"http://127.0.0.1:{port}/")
    assert "secret" not in raised.value.message


async def test_closed_transport_can_be_used_again() -> None:
    transport = HttpTransport(network=NetworkSettings())
    await transport.aclose()
    address = build_address("http://127.0.0.1:9/")
    with pytest.raises(ModelNetwork):
        async with transport.send("GET", address, headers={}, stall=new_stall_timeout()):
            pass
    await transport.aclose()


async def test_a_proxy_gets_the_requests_of_other_hosts() -> None:
    asked = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.append((await reader.readuntil(b"\r\n\r\n")).split(b"\r\n")[0])
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
        await writer.drain()

    async with serve_connections(serve) as port:
        network = NetworkSettings(proxy=ProxyUrl(f"http://127.0.0.1:{port}"))
        assert await get("http://model.invalid/v1", network) == b"ok"
        assert await get(f"http://127.0.0.1:{port}/v1", network) == b"ok"
    assert asked == [b"GET http://model.invalid/v1 HTTP/1.1", b"GET /v1 HTTP/1.1"]
