"""The seam to HTTP: certificates and proxies as configured, and connections that end with their transport."""

from __future__ import annotations

import asyncio
import shutil
import ssl
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from holdfast.errors import ModelInvalid, ModelNetwork
from holdfast.models.http_transport import HttpTransport
from holdfast.models.provider_address import Network, provider_address
from holdfast.models.stall_timeout import Deadlines, StallTimeout


def patient() -> StallTimeout:
    return StallTimeout(Deadlines(first_token=30), clock=asyncio.get_running_loop().time)


async def got(url: str, network: Network | None = None) -> bytes:
    transport = HttpTransport(network=network)
    patience = patient()
    try:
        async with transport.send("GET", provider_address(url), headers={}, patience=patience) as answer:
            return await answer.body(patience, most=1000)
    finally:
        await transport.aclose()


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A certificate for loopback that nobody but this test trusts, and its key."""
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
        try:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok")
            await writer.drain()
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=context)
    yield f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
    server.close()
    await server.wait_closed()


async def test_a_configured_certificate_is_trusted(encrypted: str, certificate: tuple[Path, Path]) -> None:
    assert await got(encrypted, Network(ca_file=str(certificate[0]))) == b"ok"


async def test_an_unknown_certificate_is_not(encrypted: str) -> None:
    with pytest.raises(ModelNetwork, match="certificate verify failed"):
        await got(encrypted)


@pytest.mark.parametrize("content", [None, b"", b"no certificate"])
async def test_a_file_without_certificates_is_named(content: bytes | None, tmp_path: Path) -> None:
    file = tmp_path / "ca.pem"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(ModelInvalid, match=r"ca\.pem.*check network\.ca_file"):
        await got("https://127.0.0.1:9/", Network(ca_file=str(file)))


async def test_a_proxy_that_needs_more_than_is_installed_says_so() -> None:
    with pytest.raises(ModelInvalid, match="socksio"):
        await got("http://model.invalid/", Network(proxy="socks5://127.0.0.1:9"))


async def test_a_proxy_that_is_not_there_is_a_network_error_without_its_password() -> None:
    with pytest.raises(ModelNetwork) as raised:
        await got("http://model.invalid/", Network(proxy="http://me:secret-word@127.0.0.1:9"))
    assert "secret-word" not in raised.value.message


async def test_a_server_that_speaks_something_else_is_a_network_error_that_repeats_nothing() -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"SSH-2.0-secret banner\r\n\r\n")
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    with pytest.raises(ModelNetwork) as raised:
        await got(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/")
    assert "secret" not in raised.value.message
    server.close()
    await server.wait_closed()


async def test_a_closed_transport_can_be_used_again() -> None:
    transport = HttpTransport()
    await transport.aclose()
    with pytest.raises(ModelNetwork):
        async with transport.send("GET", provider_address("http://127.0.0.1:9/"), headers={}, patience=patient()):
            pass
    await transport.aclose()
