"""Flight mode, a killed server and a slow network lose nothing: the page continues at its cursor."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from holdfast.locations import Locations
from holdfast.testing import Answer, Gate, Say, text
from tests.support.running_server import CONFIG, KEY, answering
from tests.web.browser.page_harness import OpenWeb, WebPage, open_window, playwright

pytestmark = [pytest.mark.timeout(120), pytest.mark.asyncio(loop_scope="session")]
expect = playwright.expect


async def test_what_happens_while_a_device_is_offline_is_shown_when_it_is_back(open_web: OpenWeb) -> None:
    slow = Answer(pieces=(Say("Before. "), Gate("go"), Say("While you were away.")))
    async with open_web(slow, text("The next one too.")) as web:
        window = await web.window("phone")
        await window.new_session()
        await window.send("begin")
        await window.shows("Before.")
        session = await window.session_id()
        await window.context.set_offline(True)
        await window.shows("This device is offline.")
        await window.page.locator(".composer textarea").fill("typed in a tunnel")
        await window.click("Queue")
        await expect(window.page.locator(".toast-error")).to_be_visible(timeout=20_000)
        await expect(window.page.locator(".composer textarea")).to_have_value("typed in a tunnel")
        web.server.provider.open("go")
        await web.server.ended((await web.server.prompt(session, "and more"))["run"]["id"])
        await window.context.set_offline(False)
        await window.shows("Before. While you were away.")
        await window.shows("The next one too.")
        await window.hides("This device is offline.")
        await window.click("Send")
        await expect(window.page.locator(".prompt", has_text="typed in a tunnel")).to_have_count(1, timeout=20_000)


async def _start(home: Path, work: Path) -> str:
    """Start the server in a process of its own with `holdfast web`, and return the page's address."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "holdfast", "web", "--no-open", "--json"),
        cwd=work,
        env={**os.environ, "HOLDFAST_HOME": str(home)},
        stdout=asyncio.subprocess.PIPE,
        stdin=asyncio.subprocess.DEVNULL,
    )
    output, _ = await asyncio.wait_for(process.communicate(), 30)
    found: str = msgspec.json.decode(output)["address"]
    return found


async def _pid(window: WebPage) -> int:
    return int((await window.fetch("GET", "/v1/server"))["body"]["pid"])


async def test_a_killed_server_that_starts_again_is_found_and_its_run_is_shown_as_interrupted(
    browser: Any, tmp_path: Path
) -> None:
    home, work = tmp_path / "home", tmp_path / "work"
    work.mkdir()
    async with answering(Answer(pieces=(Say("I begin. "), Gate("never")))) as provider:
        settings = CONFIG.format(url=provider.url(), key=KEY, heartbeat="1s")
        locations = Locations.from_env({**os.environ, "HOLDFAST_HOME": str(home)})
        locations.config_dir.mkdir(parents=True, exist_ok=True)
        locations.config_file.write_text(settings)
        address = await _start(home, work)
        window = await open_window(browser, address.partition("/#")[0])
        await window.page.goto(address)
        await window.is_connected()
        pid = await _pid(window)
        try:
            assert (await window.fetch("POST", "/v1/workspaces", {"path": str(work)}))["status"] in (200, 201)
            await window.page.reload()
            await window.new_session()
            await window.send("begin")
            await window.shows("I begin.")
            os.kill(pid, signal.SIGKILL)
            await window.shows("No connection to the server")
            await _start(home, work)
            pid = await _pid(window)
            await window.shows("Interrupted: the server crashed")
            await window.hides("No connection to the server")
            await window.shows("I begin.")
            await expect(window.button("Continue")).to_be_visible()
        finally:
            os.kill(pid, signal.SIGTERM)
            await window.context.close()
