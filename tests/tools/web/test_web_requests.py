"""The web layer against a hostile server: where it goes, how much it takes, what it makes of lies."""

import asyncio
import gzip
import ipaddress
import ssl
import subprocess
import tracemalloc
import zlib
from pathlib import Path

import pytest

from holdfast.errors import ToolError
from holdfast.tools.web.public_addresses import Address, is_public, resolve_host
from holdfast.tools.web.web_requests import MAX_REDIRECTS, WebClient, WebResponse
from tests.support.raw_web_server import RawWebServer, page, redirect
from tests.support.tool_contexts import settings_of

HOME = ipaddress.ip_address("127.0.0.1")
PUBLIC = ipaddress.ip_address("127.0.0.2")
"""Stands for a host on the internet in these tests."""


class Names:
    """A resolver with one answer per question; the last one repeats."""

    def __init__(self, **answers: list[Address]) -> None:
        self.answers = {name.replace("_", "."): list(found) for name, found in answers.items()}
        self.requests: list[str] = []

    async def __call__(self, host: str, port: int) -> tuple[Address, ...]:
        self.requests.append(host)
        found = self.answers.get(host)
        if not found:
            raise OSError("unknown name")
        return (found.pop(0) if len(found) > 1 else found[0],)


def careful(names: Names) -> WebClient:
    return WebClient(settings_of(), resolver=names, is_allowed=lambda address: address == PUBLIC)


def local(**network: str) -> WebClient:
    """Reaches loopback, as the user can allow."""
    return WebClient(settings_of(tools={"fetch_private": True}, network=network))


async def get(web: WebClient, url: str, *, limit: int = 1 << 20, seconds: float = 20) -> tuple[WebResponse, bytes]:
    async with web.request(url, seconds=seconds) as answer:
        body, _ = await answer.read(limit)
    return answer, body


@pytest.mark.parametrize(
    "address",
    [
        *(
            "127.0.0.1",
            "127.9.9.9",
            "0.0.0.0",
            "10.1.2.3",
            "172.16.0.1",
            "192.168.1.1",
            "100.64.0.1",
            "255.255.255.255",
        ),
        *(
            "169.254.169.254",
            "169.254.1.1",
            "100.100.100.200",
            "192.0.0.192",
            "168.63.129.16",
            "224.0.0.1",
            "240.0.0.1",
        ),
        *("::1", "::", "fe80::1", "fe80::1%eth0", "fc00::1", "fd00:ec2::254", "ff02::1", "2001:db8::1"),
        *("::ffff:127.0.0.1", "::ffff:169.254.169.254", "::ffff:10.0.0.1", "::127.0.0.1", "64:ff9b::7f00:1"),
        *("64:ff9b::a9fe:a9fe", "2002:7f00:1::", "2002:a9fe:a9fe::1", "2001:0:53aa:64c:0:0:80ff:fffe"),
    ],
)
def test_addresses_that_are_not_public(address: str) -> None:
    assert not is_public(ipaddress.ip_address(address))


@pytest.mark.parametrize(
    "address", ["8.8.8.8", "93.184.216.34", "2606:4700::1111", "::ffff:8.8.8.8", "64:ff9b::808:808"]
)
def test_addresses_that_are_public(address: str) -> None:
    assert is_public(ipaddress.ip_address(address))


@pytest.mark.parametrize(
    "host",
    ["127.0.0.1", "localhost", "[::1]", "0x7f.1", "2130706433", "127.1", "017700000001", "0", "[::ffff:127.0.0.1]"],
)
async def test_local_addresses_are_refused_in_any_notation(host: str) -> None:
    async with RawWebServer({"/": page("secret")}).running() as server:
        with pytest.raises(ToolError, match="is not a public address"):
            await get(WebClient(settings_of()), f"http://{host}:{server.port}/")
        assert server.requests == []


async def test_a_name_is_refused_if_one_of_its_addresses_is_private() -> None:
    async def both(host: str, port: int) -> tuple[Address, ...]:
        return PUBLIC, HOME

    async with RawWebServer({"/": page("secret")}).running() as server:
        web = WebClient(settings_of(), resolver=both, is_allowed=lambda address: address == PUBLIC)
        with pytest.raises(ToolError, match=r"site\.test \(127\.0\.0\.1\) is not a public address"):
            await get(web, f"http://site.test:{server.port}/")
        assert server.requests == []


async def test_a_name_that_changes_its_mind_gains_nothing() -> None:
    names = Names(site_test=[PUBLIC, HOME])
    async with RawWebServer({"/": page("from outside")}).running("127.0.0.2") as server:
        _, body = await get(careful(names), f"http://site.test:{server.port}/")
    assert body == b"from outside"
    assert names.requests == ["site.test"]
    assert server.requests[0].host == f"site.test:{server.port}"


@pytest.mark.parametrize("target", ["http://127.0.0.1:{port}/", "http://inside.test:{port}/", "//127.0.0.1:{port}/"])
async def test_a_redirect_to_a_private_address_is_refused(target: str) -> None:
    names = Names(site_test=[PUBLIC], inside_test=[HOME])
    server = RawWebServer({})
    async with server.running("127.0.0.2"), RawWebServer({"/": page("secret")}).running() as inside:
        server.answers["/"] = redirect(target.format(port=inside.port))
        with pytest.raises(ToolError, match="is not a public address"):
            await get(careful(names), f"http://site.test:{server.port}/")
        assert inside.requests == []


async def test_a_name_is_checked_again_at_each_redirect() -> None:
    names = Names(site_test=[PUBLIC, HOME])
    async with RawWebServer({"/": redirect("/next"), "/next": page("secret")}).running("127.0.0.2") as server:
        with pytest.raises(ToolError, match="is not a public address"):
            await get(careful(names), f"http://site.test:{server.port}/")
    assert [asked.path for asked in server.requests] == ["/"]


@pytest.mark.parametrize(
    "target", ["file:///etc/passwd", "ftp://site.test/", "gopher://site.test/", "javascript:1", "unix:/x"]
)
async def test_only_http_is_spoken_also_after_a_redirect(target: str) -> None:
    with pytest.raises(ToolError, match="is not an http or https URL"):
        await get(local(), target)
    async with RawWebServer({"/": redirect(target)}).running() as server:
        with pytest.raises(ToolError, match="is not an http or https URL"):
            await get(local(), f"http://127.0.0.1:{server.port}/")


@pytest.mark.parametrize(
    "url", ["http://", "http://user:pass@127.0.0.1/", "http://127.0.0.1:0/", "http://[::1", "nonsense"]
)
async def test_an_invalid_url_raises_an_error(url: str) -> None:
    with pytest.raises(ToolError, match=r"URL|must have a host"):
        await get(local(), url)


async def test_redirects_are_followed_and_the_last_url_is_returned() -> None:
    answers = {"/a": redirect("/b", "301 Moved"), "/b": redirect("c/?x=1", "307 Temporary"), "/c/": page("here")}
    async with RawWebServer(answers).running() as server:
        answer, body = await get(local(), f"http://127.0.0.1:{server.port}/a#part")
        assert (body, answer.url) == (b"here", f"http://127.0.0.1:{server.port}/c/?x=1")


async def test_an_endless_chain_of_redirects_ends() -> None:
    async with RawWebServer({"/": redirect("/")}).running() as server:
        with pytest.raises(ToolError, match=f"more than {MAX_REDIRECTS} times"):
            await get(local(), f"http://127.0.0.1:{server.port}/")
        assert len(server.requests) == MAX_REDIRECTS + 1


async def test_headers_do_not_follow_to_another_host() -> None:
    other = RawWebServer({"/": page("other")})
    async with other.running("127.0.0.2"), RawWebServer({}).running() as server:
        server.answers["/"] = redirect(f"http://127.0.0.2:{other.port}/")
        async with local().request(f"http://127.0.0.1:{server.port}/", seconds=20, headers={"X-Token": "secret"}):
            pass
    assert server.requests[0].headers["x-token"] == "secret"
    assert "x-token" not in other.requests[0].headers


async def test_a_bomb_is_opened_only_as_far_as_the_limit() -> None:
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    bomb = b"".join(packer.compress(bytes(1 << 20)) for _ in range(100)) + packer.flush()
    async with RawWebServer({"/": page(bomb, Content_Encoding="gzip")}).running() as server:
        await get(local(), f"http://127.0.0.1:{server.port}/x")  # imports are not what is measured
        tracemalloc.start()
        try:
            async with local().request(f"http://127.0.0.1:{server.port}/", seconds=20) as answer:
                body, cut = await answer.read(1 << 20)
            assert tracemalloc.get_traced_memory()[1] < 20 << 20
        finally:
            tracemalloc.stop()
    assert (len(body), cut) == (1 << 20, True)


async def test_an_endless_body_is_read_only_as_far_as_the_limit() -> None:
    async def endless(writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\n")
        while True:
            writer.write(b"on and on " * 1_000)
            await writer.drain()

    async with (
        RawWebServer({"/": endless}).running() as server,
        local().request(f"http://127.0.0.1:{server.port}/", seconds=20) as answer,
    ):
        body, cut = await answer.read(100_000)
    assert (len(body), cut) == (100_000, True)


async def test_a_body_at_the_limit_is_whole() -> None:
    async with (
        RawWebServer({"/": page("x" * 1_000)}).running() as server,
        local().request(f"http://127.0.0.1:{server.port}/", seconds=20) as answer,
    ):
        assert await answer.read(1_000) == (b"x" * 1_000, False)


@pytest.mark.parametrize("sends", [b"", b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf"])
async def test_a_server_that_goes_silent_is_given_up(sends: bytes) -> None:
    async def silent(writer: asyncio.StreamWriter) -> None:
        writer.write(sends)
        await writer.drain()
        await asyncio.Event().wait()

    async with RawWebServer({"/": silent}).running() as server:
        with pytest.raises(ToolError, match=r"took longer than 0\.2 s"):
            await get(local(), f"http://127.0.0.1:{server.port}/", seconds=0.2)


@pytest.mark.parametrize(
    "sends",
    [
        b"SSH-2.0-OpenSSH\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nshort",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzzz\r\n",
        b"HTTP/1.1 200 OK\r\n" + b"X-Long: " + b"a" * 300_000 + b"\r\n\r\n",
        b"",
        page("not packed", Content_Encoding="gzip"),
        page(gzip.compress(b"text" * 1_000)[:-8] + bytes(8), Content_Encoding="gzip"),
        page("x", Content_Encoding="br"),
        page("", status="302 Found", Location="http://[broken"),
    ],
)
async def test_garbage_is_an_error_that_says_where_it_came_from(sends: bytes) -> None:
    async with RawWebServer({"/": sends}).running() as server:
        with pytest.raises(ToolError):
            await get(local(), f"http://127.0.0.1:{server.port}/")


@pytest.mark.parametrize("wbits", [31, 15, -15], ids=["gzip", "zlib", "raw deflate"])
async def test_packed_bodies_are_unpacked(wbits: int) -> None:
    packer = zlib.compressobj(wbits=wbits)
    data = packer.compress(b"text " * 100_000) + packer.flush()
    name = "gzip" if wbits == 31 else "deflate"
    async with RawWebServer({"/": page(data, Content_Encoding=name)}).running() as server:
        assert (await get(local(), f"http://127.0.0.1:{server.port}/"))[1] == b"text " * 100_000


async def test_closed_ports_and_unknown_names_raise_errors() -> None:
    server = RawWebServer({})
    async with server.running():
        pass
    with pytest.raises(ToolError, match="cannot be fetched"):
        await get(local(), f"http://127.0.0.1:{server.port}/")
    with pytest.raises(ToolError, match=r"'nowhere\.test' cannot be resolved: unknown name"):
        await get(careful(Names()), "http://nowhere.test/")


async def test_the_next_address_is_tried_if_the_first_takes_no_connection() -> None:
    async def two(host: str, port: int) -> tuple[Address, ...]:
        return PUBLIC, HOME

    async with RawWebServer({"/": page("second")}).running() as server:
        web = WebClient(settings_of(), private=True, resolver=two)
        assert (await get(web, f"http://site.test:{server.port}/"))[1] == b"second"


async def test_a_cancel_ends_a_request_at_once() -> None:
    asked = asyncio.Event()

    async def hang(writer: asyncio.StreamWriter) -> None:
        asked.set()
        await asyncio.Event().wait()

    async with RawWebServer({"/": hang}).running() as server:
        getting = asyncio.create_task(get(local(), f"http://127.0.0.1:{server.port}/"))
        await asked.wait()
        getting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await getting


async def test_a_proxy_gets_the_name_and_private_targets_are_still_refused() -> None:
    async with RawWebServer({"http://site.test/page": page("through the proxy")}).running() as proxy:
        settings = settings_of(network={"proxy": f"http://127.0.0.1:{proxy.port}", "no_proxy": ["direct.test"]})
        web = WebClient(settings, resolver=Names(inside_test=[HOME]))
        _, body = await get(web, "http://site.test/page")
        assert body == b"through the proxy"
        for url in ("http://127.0.0.1/", "http://inside.test/"):
            with pytest.raises(ToolError, match="is not a public address"):
                await get(web, url)
        with pytest.raises(ToolError, match=r"'direct\.test' cannot be resolved"):
            await get(web, "http://direct.test/")
        assert len(proxy.requests) == 1


async def test_tls_is_checked_against_the_name_although_the_address_is_pinned(tmp_path: Path) -> None:
    certificate, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    argv = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    argv += ["-subj", "/CN=site.test", "-addext", "subjectAltName=DNS:site.test", "-days", "2"]
    subprocess.run([*argv, "-keyout", key, "-out", certificate], check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    names = Names(site_test=[HOME], other_test=[HOME])
    trusting = settings_of(tools={"fetch_private": True}, network={"ca_file": str(certificate)})
    async with RawWebServer({"/": page("safe")}).running(tls=context) as server:
        _, body = await get(WebClient(trusting, resolver=names), f"https://site.test:{server.port}/")
        assert body == b"safe"
        for web, host in (
            (WebClient(trusting, resolver=names), "other.test"),
            (WebClient(settings_of(), private=True, resolver=names), "site.test"),
        ):
            with pytest.raises(ToolError, match="certificate"):
                await get(web, f"https://{host}:{server.port}/")


async def test_the_systems_resolver_finds_this_machine() -> None:
    assert HOME in await resolve_host("localhost", 80)
