"""What the page tells while it is not in front, and who was first if two answer one approval."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from holdfast.testing import Call, calls, text
from tests.web.browser.page_harness import OpenWeb, playwright

pytestmark = [pytest.mark.timeout(120), pytest.mark.asyncio(loop_scope="session")]
expect = playwright.expect

RECORD = """
globalThis.notes = [];
globalThis.beeps = 0;
const Real = globalThis.Notification;
globalThis.Notification = class extends Real {
  constructor(title, options) {
    super(title, options);
    notes.push({ title, body: options.body, note: this });
  }
};
const makeTone = AudioContext.prototype.createOscillator;
AudioContext.prototype.createOscillator = function () {
  beeps++;
  return makeTone.call(this);
};
"""


async def test_notifications_and_sound_tell_what_happens_and_a_click_opens_the_session(open_web: OpenWeb) -> None:
    async with open_web(calls(Call("bash", {"command": "touch here"})), text("All is ready.")) as web:
        window = await web.window("desktop")
        page = window.page
        await window.context.grant_permissions(["notifications"], origin=web.address)
        await window.context.add_init_script(RECORD)
        await page.reload()
        await window.is_connected()
        await page.get_by_label("Notify me").check()
        await page.get_by_label("Sound").check()
        assert await page.evaluate("beeps") == 1  # so it sounds
        await page.evaluate("document.hasFocus = () => false")
        session = await web.server.session()
        run = (await web.server.prompt(session, "make it"))["run"]["id"]
        await expect(page).to_have_title("(1) Holdfast", timeout=20_000)
        assert await page.evaluate("notes.map(({title, body}) => [title, body])") == [
            ["Holdfast: Needs your answer", "touch here"]
        ]
        await page.evaluate("notes[0].note.onclick()")
        assert await window.session_id() == session
        await window.click("Allow once")
        await web.server.ended(run)
        await expect(page).to_have_title("(2) Holdfast", timeout=20_000)
        last = await page.evaluate("[notes.at(-1).title, notes.at(-1).body, beeps]")
        assert last == ["Holdfast: Completed", "All is ready.", 3]
        await page.evaluate("delete document.hasFocus; dispatchEvent(new Event('focus'))")
        await expect(page).to_have_title("Holdfast")


async def test_the_second_of_two_answers_to_one_approval_is_told_who_was_first(open_web: OpenWeb) -> None:
    async with open_web(calls(Call("bash", {"command": "touch raced"})), text("It ran.")) as web:
        desk, phone = await web.window("desktop"), await web.window("phone")
        session = await web.server.session()
        await web.server.prompt(session, "make it")
        held, release = asyncio.Event(), asyncio.Event()

        async def hold(route: Any) -> None:
            held.set()
            await release.wait()
            await route.continue_()

        await desk.page.route("**/v1/approvals/*", hold)
        for window in (desk, phone):
            await window.open_session(session)
            await expect(window.button("Allow once")).to_be_enabled(timeout=20_000)
        await desk.click("Deny…")
        await desk.click("Deny")
        await held.wait()
        await phone.click("Allow once")
        await phone.shows("It ran.")
        await desk.shows("It ran.")
        release.set()
        await desk.told("Already allowed once, by phone.")
        assert (web.server.work / "raced").exists()
