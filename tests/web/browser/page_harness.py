"""The web page in a real Chromium, against a real server in this process with a scripted provider.

`make test-web` installs Playwright and runs these tests. They are skipped where Playwright or Chromium is missing.
All tests of a process share one Chromium; each has its own server and its own windows, which share nothing.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from holdfast.testing import Answer
from tests.support.running_server import RunningServer, answering, run_server

playwright = pytest.importorskip("playwright.async_api", reason="Playwright is not installed; run 'make test-web'")
playwright.expect.set_options(timeout=30_000)  # also on a machine with much else to do

CHROMIUM = os.environ.get("HOLDFAST_TEST_CHROMIUM") or next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable"))), None
)
NO_CHROMIUM = "Chromium is not installed; install it, or name it in HOLDFAST_TEST_CHROMIUM"

PHONE = {"viewport": {"width": 390, "height": 844}, "has_touch": True, "is_mobile": True, "device_scale_factor": 2}
DESKTOP = {"viewport": {"width": 1360, "height": 860}}
SIZES = {"phone": PHONE, "desktop": DESKTOP}
REBOUND = "--host-resolver-rules=MAP evil.example 127.0.0.1"
"""A name of somebody else that was pointed at this machine."""
REPORT_VIOLATIONS = """addEventListener("securitypolicyviolation", (event) =>
  console.error(`refused by the policy: ${event.violatedDirective} ${event.blockedURI}`));"""
FETCH = """async ([method, path, body]) => {
  const headers = { "X-Holdfast-Page": localStorage.getItem("holdfast.page_key") ?? "" };
  if (body !== null) headers["Content-Type"] = "application/json";
  const answer = await fetch(path, { method, headers, body: body === null ? null : JSON.stringify(body) });
  return { status: answer.status, body: await answer.json() };
}"""


class WebPage:
    """One browser window with the page, and everything that went wrong in it."""

    def __init__(self, page: Any, context: Any, address: str) -> None:
        self.page = page
        self.context = context
        self.address = address
        self.problems: list[str] = []
        page.on("pageerror", lambda error: self.problems.append(f"error: {error}"))
        page.on("console", self._console)
        page.on("dialog", self._dialog)

    def _console(self, message: Any) -> None:
        if message.type == "error" and "Failed to load resource" not in message.text:
            self.problems.append(f"console: {message.text}")

    async def _dialog(self, dialog: Any) -> None:
        self.problems.append(f"dialog: {dialog.message}")  # only a script of the model opens one
        await dialog.dismiss()

    async def fetch(self, method: str, path: str, body: Any = None) -> Any:
        """Send a request as a script of the page would; returns ``status`` and ``body``."""
        return await self.page.evaluate(FETCH, [method, path, body])

    async def shows(self, text: str) -> None:
        await playwright.expect(self.page.get_by_text(text).first).to_be_visible(timeout=20_000)

    async def hides(self, text: str) -> None:
        await playwright.expect(self.page.get_by_text(text)).to_have_count(0, timeout=20_000)

    def button(self, name: str) -> Any:
        return self.page.get_by_role("button", name=name, exact=True)

    async def click(self, name: str) -> None:
        await self.button(name).first.click(timeout=20_000)

    async def told(self, text: str) -> None:
        """A note appears with this text."""
        await playwright.expect(self.page.locator(".toast", has_text=text)).to_be_visible(timeout=20_000)

    async def send(self, text: str, button: str = "Send") -> None:
        await self.page.locator(".composer textarea").fill(text)
        await self.click(button)

    async def is_connected(self) -> None:
        await playwright.expect(self.page.get_by_role("navigation", name="Sessions")).to_be_attached(timeout=20_000)
        await playwright.expect(self.page.locator(".device")).to_be_attached(timeout=20_000)

    async def open_session(self, session_id: str) -> None:
        await self.page.evaluate("id => { location.hash = `#/s/${id}` }", session_id)
        await playwright.expect(self.page.get_by_role("log")).to_be_visible(timeout=20_000)

    async def new_session(self) -> None:
        await self.page.evaluate("location.hash = '#/new/'")
        await playwright.expect(self.page.locator(".composer textarea")).to_be_visible(timeout=20_000)

    async def session_id(self) -> str:
        await self.page.wait_for_url("**/#/s/**", timeout=20_000)
        found: str = await self.page.evaluate("location.hash.split('/')[2]")
        return found


class WebHarness:
    """A server, a browser, and the windows that are open in it."""

    def __init__(self, server: RunningServer, browser: Any) -> None:
        self.server = server
        self.browser = browser
        self.windows: list[WebPage] = []
        self.address = ""

    async def listen(self) -> str:
        answer = await self.server.http.post("/v1/web", {})
        self.address = answer.ok(answer.status)["address"]
        return self.address

    async def code(self, scope: str = "drive") -> str:
        answer = await self.server.http.post("/v1/pairing/codes", {"scope": scope})
        found: str = answer.ok(answer.status)["code"]
        return found

    async def window(self, size: str = "desktop", *, scope: str = "drive", **options: Any) -> WebPage:
        """A window of a new device, paired and connected."""
        window = await open_window(self.browser, self.address, size, **options)
        self.windows.append(window)
        await window.page.goto(f"{self.address}/#pair={await self.code(scope)}")
        await window.is_connected()
        return window


async def open_window(
    browser: Any, address: str, size: str = "desktop", *, dark: bool = False, **options: Any
) -> WebPage:
    """A window that shares nothing with others; its page is not loaded yet."""
    scheme = "dark" if dark else "light"
    context = await browser.new_context(**SIZES[size], color_scheme=scheme, bypass_csp=False, **options)
    await context.add_init_script(REPORT_VIOLATIONS)
    return WebPage(await context.new_page(), context, address)


@asynccontextmanager
async def launch(home: Path) -> AsyncIterator[Any]:
    """A Chromium without windows. What it writes is below ``home``."""
    if CHROMIUM is None:
        pytest.skip(NO_CHROMIUM)
    async with playwright.async_playwright() as driver:
        browser = await driver.chromium.launch(
            executable_path=CHROMIUM,
            args=["--no-sandbox", "--disable-dev-shm-usage", "--mute-audio", REBOUND],
            env={**os.environ, "HOME": str(home)},
        )
        try:
            yield browser
        finally:
            await browser.close()


OpenWeb = Callable[..., AbstractAsyncContextManager[WebHarness]]


@asynccontextmanager
async def open_web_at(browser: Any, directory: Path, *answers: Answer, **options: Any) -> AsyncIterator[WebHarness]:
    """A server with these answers of the model, for windows of the browser. Errors in any window, such as violations of
    the Content-Security-Policy, fail the test."""
    async with run_server(directory, answering(*answers), **options) as server:
        harness = WebHarness(server, browser)
        try:
            await harness.listen()
            yield harness
        finally:
            for window in harness.windows:
                await window.context.close()
        assert [problem for window in harness.windows for problem in window.problems] == []
