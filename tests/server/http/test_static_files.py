"""The page's files: their headers, caching and compression, and what is not served."""

import gzip
from pathlib import Path

from holdfast.server.http.static_files import CONTENT_SECURITY_POLICY
from tests.support.running_server import run_server
from tests.support.web_devices import INDEX, Browser, listen, make_page, port_of

ASSET = "/assets/page-1a2b3c4d.js"


async def test_the_page_is_served_without_a_token_with_strict_headers(home: Path) -> None:
    async with run_server(home, static_files=make_page(home / "page")) as server:
        browser = Browser(port_of(await listen(server)))
        page = await browser.send("GET", "/")
        assert (page.status, page.body.decode()) == (200, INDEX)
        assert page.headers["content-type"] == "text/html; charset=utf-8"
        assert page.headers["cache-control"] == "no-cache"
        asset = await browser.send("GET", ASSET)
        assert asset.headers["cache-control"] == "public, max-age=31536000, immutable"
        for answer in (page, asset):
            assert answer.headers["content-security-policy"] == CONTENT_SECURITY_POLICY
            for name, value in (
                ("x-content-type-options", "nosniff"),
                ("referrer-policy", "no-referrer"),
                ("x-frame-options", "DENY"),
                ("cross-origin-opener-policy", "same-origin"),
                ("cross-origin-resource-policy", "same-origin"),
            ):
                assert answer.headers[name] == value
        for source in ("script-src 'self'", "default-src 'none'", "frame-ancestors 'none'", "form-action 'none'"):
            assert source in CONTENT_SECURITY_POLICY
        assert "unsafe" not in CONTENT_SECURITY_POLICY
        packed = await browser.send("GET", ASSET, Accept_Encoding="br, gzip")
        assert packed.headers["content-encoding"] == "gzip"
        assert gzip.decompress(packed.body) == asset.body
        assert len(packed.body) < len(asset.body) / 2
        assert "content-encoding" not in (await browser.send("GET", ASSET, Accept_Encoding="gzip;q=0")).headers
        for etag in (page.headers["etag"], f'"other", W/{page.headers["etag"]}'):
            same = await browser.send("GET", "/", If_None_Match=etag)
            assert (same.status, same.body) == (304, b"")
        head = await browser.send("HEAD", "/", Origin=None)
        assert (head.status, head.headers["content-length"]) == (200, str(len(INDEX)))
        assert (await browser.send("POST", "/", {})).status == 405
        for path in (
            *("/assets/notes.py", "/.hidden.js", "/assets", "/assets/", "/assets/../index.html", "/%2e%2e/x.js"),
            *("/assets/%2e%2e/index.html", "//index.html", "/index.html/", "/nothing", "/v1/nothing", "/etc/passwd"),
        ):
            answer = await browser.send("GET", path)
            assert (answer.status, answer.code) == (401, "unauthorized"), path
        for path in ("/nothing", "/v1/nothing", "/assets/notes.py"):
            assert (await server.http.get(path)).status == 404


async def test_an_installation_without_a_page_answers_as_before(home: Path) -> None:
    async with run_server(home, static_files=home / "none") as server:
        assert (await server.http.get("/")).status == 404
        assert (await server.tcp.get("/", Authorization=None)).status == 401
