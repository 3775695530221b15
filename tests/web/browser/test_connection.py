"""Flight mode, a killed server and a slow network lose nothing: the page continues at its cursor."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from contextlib import suppress
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


class DeadProxy:
    """Forwards connections until it is cut: then those that are open stay open, and nothing comes through any more.

    So a connection looks after a sleep, or when a phone has changed its network.
    """

    def __init__(self, port: int) -> None:
        self._to = port
        self._epoch = 0
        self._tasks: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> DeadProxy:
        self._server = await asyncio.start_server(self._connect, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def cut(self) -> None:
        self._epoch += 1

    def _connect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(self._serve(reader, writer), name="proxy")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        epoch = self._epoch
        server_reader, server_writer = await asyncio.open_connection("127.0.0.1", self._to)
        try:
            with suppress(ConnectionError):
                await asyncio.gather(
                    self._forward(epoch, reader, server_writer), self._forward(epoch, server_reader, writer)
                )
        finally:
            server_writer.close()
            writer.close()

    async def _forward(self, epoch: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(65536):
            if epoch == self._epoch:
                writer.write(data)
                await writer.drain()
        if epoch == self._epoch:
            writer.close()


@pytest.mark.parametrize("asleep", [True, False], ids=["asleep", "awake"])
async def test_a_connection_that_died_in_silence_is_replaced_and_what_was_missed_is_shown(
    open_web: OpenWeb, asleep: bool
) -> None:
    slow = Answer(pieces=(Say("Before. "), Gate("go"), Say("While you slept.")))
    async with (
        open_web(slow, text("The next one too."), heartbeat="1s") as web,
        DeadProxy(int(web.address.rpartition(":")[2])) as proxy,
    ):
        web.address = f"http://127.0.0.1:{proxy.port}"
        window = await web.window("phone")
        await window.new_session()
        await window.send("begin")
        await window.shows("Before.")
        session = await window.session_id()
        lifecycle = await window.context.new_cdp_session(window.page)
        if asleep:
            await lifecycle.send("Page.setWebLifecycleState", {"state": "frozen"})
        proxy.cut()
        web.server.provider.open("go")
        await web.server.ended((await web.server.prompt(session, "and more"))["run"]["id"])
        if asleep:
            await lifecycle.send("Page.setWebLifecycleState", {"state": "active"})
        await window.shows("Before. While you slept.")
        await window.shows("The next one too.")
        await expect(window.page.locator(".markdown", has_text="While you slept.")).to_have_count(1)
        await expect(window.page.locator(".banner")).to_have_count(0, timeout=20_000)
        await window.context.close()


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
