"""Who gets in, as a browser sees it: TLS, scopes, pages of other origins, names that were pointed at this machine."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import os
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from holdfast.locations import Locations
from holdfast.testing import Call, calls, text
from tests.support.http_client import HttpClient
from tests.support.running_server import CONFIG, KEY, answering
from tests.web.browser.page_harness import OpenWeb, open_window, playwright

pytestmark = [pytest.mark.timeout(120), pytest.mark.asyncio(loop_scope="session")]
expect = playwright.expect


async def holdfast(home: Path, *arguments: str) -> bytes:
    """Run a command; its server is a process of its own."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "holdfast", *arguments),
        cwd=home.parent,
        env={**os.environ, "HOLDFAST_HOME": str(home)},
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
    )
    output, _ = await asyncio.wait_for(process.communicate(), 60)
    assert process.returncode == 0, output
    return output


@pytest.mark.promise("W8")
async def test_a_shared_page_is_paired_over_tls_with_the_fingerprint_that_was_printed(
    browser: Any, tmp_path: Path
) -> None:
    home, work = tmp_path / "home", tmp_path / "work"
    work.mkdir()
    locations = Locations.from_env({**os.environ, "HOLDFAST_HOME": str(home)})
    locations.config_dir.mkdir(parents=True)
    async with answering(text("Over TLS.")) as provider:
        locations.config_file.write_text(CONFIG.format(url=provider.url(), key=KEY, heartbeat="1s"))
        options = ("--share", "--yes", "--listen", "127.0.0.1:0", "--json")
        shared = msgspec.json.decode(await holdfast(home, "web", *options))
        address = shared["address"].partition("/#")[0]
        assert address.startswith("https://127.0.0.1:")
        strict = await open_window(browser, address)
        window = await open_window(browser, address, "phone", ignore_https_errors=True)
        try:
            with pytest.raises(playwright.Error, match="ERR_CERT_AUTHORITY_INVALID"):
                await strict.page.goto(shared["address"])
            devtools = await window.context.new_cdp_session(window.page)
            await devtools.send("Network.enable")
            await window.page.goto(shared["address"])
            await window.is_connected()
            assert "pair" not in window.page.url
            certificates = await devtools.send("Network.getCertificate", {"origin": address})
            der = base64.b64decode(certificates["tableNames"][0])
            assert hashlib.sha256(der).hexdigest().upper() == shared["listener"]["fingerprint"].replace(":", "")
            (cookie,) = await window.context.cookies()
            assert cookie["name"].startswith("__Host-")
            assert (cookie["secure"], cookie["httpOnly"], cookie["sameSite"]) == (True, True, "Strict")
            assert (await window.fetch("POST", "/v1/workspaces", {"path": str(work)}))["status"] in (200, 201)
            await window.page.reload()
            await window.new_session()
            await window.send("hello")
            await window.shows("Over TLS.")
            assert window.problems == []
            await holdfast(home, "web", "--stop")
            await window.shows("No connection to the server")
        finally:
            await holdfast(home, "stop")
            await strict.context.close()
            await window.context.close()


@pytest.mark.promise("W8")
async def test_a_browser_that_may_answer_answers_but_cannot_prompt_cancel_or_allow_everywhere(
    open_web: OpenWeb,
) -> None:
    async with open_web(calls(Call("bash", {"command": "touch x"})), text("Done.")) as web:
        session = await web.server.session()
        run = (await web.server.prompt(session, "make it"))["run"]["id"]
        window = await web.window("phone", scope="answer")
        await window.open_session(session)
        await window.shows("This device may watch and answer.")
        await expect(window.button("Stop")).to_have_count(0)
        await expect(window.page.locator(".menu")).to_have_count(0)
        await expect(window.button("Always here")).to_be_enabled(timeout=20_000)
        await expect(window.button("Always, in all projects")).to_have_count(0)
        for path, body in (
            (f"/v1/sessions/{session}/runs", {"prompt": "hello"}),
            (f"/v1/sessions/{session}/cancel", {}),
            (f"/v1/sessions/{session}/shell", {"command": "touch y"}),
            ("/v1/pairing/codes", {"scope": "admin"}),
        ):
            assert (await window.fetch("POST", path, body))["status"] == 403, path
        await window.click("Allow once")
        await window.shows("Done.")
        assert (await web.server.ended(run))["state"] == "completed"
        watching = await web.window("desktop", scope="watch")
        await watching.open_session(session)
        await watching.shows("Done.")
        assert (await watching.fetch("POST", f"/v1/sessions/{session}/runs", {"prompt": "x"}))["status"] == 403
        assert (await watching.fetch("GET", f"/v1/sessions/{session}"))["status"] == 200


@pytest.mark.promise("W8")
async def test_a_page_of_another_port_gets_nothing_and_the_cookie_that_it_receives_is_useless(
    open_web: OpenWeb,
) -> None:
    received: list[bytes] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        received.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nConnection: close\r\n\r\n<h1>another program</h1>")
        await writer.drain()
        writer.close()

    attempt = """async ([address, options]) => {
      try {
        const answer = await fetch(address, { credentials: "include", ...options });
        return `${answer.type} ${answer.status} ${(await answer.text()).length}`;
      } catch (error) {
        return "refused";
      }
    }"""
    async with open_web() as web, await asyncio.start_server(answer, "127.0.0.1", 0) as other:
        window = await web.window("desktop", scope="admin")
        before = len((await web.server.http.get("/v1/devices")).ok()["items"])
        page = await window.context.new_page()
        await page.goto(f"http://127.0.0.1:{other.sockets[0].getsockname()[1]}/")
        for path, options in (
            ("/v1/device", {}),
            ("/v1/events", {}),
            ("/v1/pairing/codes", {"method": "POST", "body": "{}", "headers": {"Content-Type": "application/json"}}),
            ("/v1/server/stop", {"method": "POST"}),
        ):
            assert await page.evaluate(attempt, [web.address + path, options]) == "refused", path
        blind = await page.evaluate(attempt, [f"{web.address}/v1/server/stop", {"method": "POST", "mode": "no-cors"}])
        assert blind in ("opaque 0 0", "refused")
        await page.evaluate(
            "address => document.body.append(Object.assign(document.createElement('iframe'), {src: address}))",
            web.address,
        )
        await expect(page.frame_locator("iframe").locator("#app")).to_have_count(0)
        # The browser gave the other program our cookie, as browsers do. It opens nothing.
        head = next(one for one in received if b"holdfast_device" in one).decode()
        cookie = next(line.partition(": ")[2] for line in head.split("\r\n") if line.lower().startswith("cookie:"))
        port = int(web.address.rpartition(":")[2])
        thief = HttpClient(("127.0.0.1", port))
        for stolen in ({"Cookie": cookie}, {"Authorization": f"Bearer {cookie.partition('=')[2]}"}):
            assert (await thief.send("GET", "/v1/device", **stolen)).status == 401
        assert (await window.fetch("GET", "/v1/device"))["status"] == 200
        assert len((await web.server.http.get("/v1/devices")).ok()["items"]) == before
        await page.close()


@pytest.mark.promise("W8")
async def test_a_name_that_was_pointed_at_this_machine_shows_nothing(open_web: OpenWeb) -> None:
    async with open_web() as web:
        window = await web.window("desktop")
        port = web.address.rpartition(":")[2]
        answer = await window.page.goto(f"http://evil.example:{port}/")
        assert answer.status == 403
        await expect(window.page.locator("#app")).to_have_count(0)


@pytest.mark.promise("W8")
async def test_used_expired_and_wrong_codes_are_refused_with_a_reason(open_web: OpenWeb, browser: Any) -> None:
    async with open_web() as web:
        used = await web.code()
        assert (await web.server.http.get("/v1/devices")).ok()["items"] == []
        window = await open_window(browser, web.address, "phone")
        web.windows.append(window)
        await window.page.goto(f"{web.address}/#pair={used}")
        await window.is_connected()
        expired = await web.code()
        codes = web.server.app.services.devices.codes
        codes._now = lambda now=codes._now: now() + 301  # type: ignore[misc]
        for failures, code in enumerate((used, expired, "AAAA-AAAA-AAAA"), 1):
            other = await open_window(browser, web.address, "phone")
            web.windows.append(other)
            await other.page.goto(f"{web.address}/#pair={code}")
            await expect(other.page.get_by_role("alert")).to_be_visible(timeout=20_000)
            await other.shows("This browser is not paired yet.")
            assert "pair" not in other.page.url
            await window.told(f"A wrong pairing code came from 127.0.0.1; {failures} in the last minute.")
        # A code can be typed, too.
        await other.page.get_by_label("Code", exact=True).fill((await web.code()).lower())
        await other.page.get_by_label("Name of this device").fill("my sofa")
        await other.click("Pair")
        await other.is_connected()
        names = {one["name"] for one in (await web.server.http.get("/v1/devices")).ok()["items"]}
        assert "my sofa" in names
