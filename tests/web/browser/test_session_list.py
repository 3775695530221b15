"""The list of sessions: many, archived ones, and the choice of one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from holdfast.testing import Answer, Call, Gate, Say, calls, text
from tests.web.browser.page_harness import OpenWeb, playwright

pytestmark = [pytest.mark.timeout(120), pytest.mark.asyncio(loop_scope="session")]
expect = playwright.expect


async def test_all_of_many_sessions_can_be_reached_found_and_chosen(open_web: OpenWeb) -> None:
    async with open_web(text("Hello.")) as web:
        for number in range(130):
            await web.server.session(title=f"session {number:03}")
        window = await web.window("phone")
        page = window.page
        rows = page.locator("a.session")
        await expect(rows).to_have_count(50, timeout=20_000)
        await expect(rows.first).to_contain_text("session 129")
        await window.click("Older sessions")
        await expect(rows).to_have_count(130, timeout=20_000)
        titles = await page.locator(".session-title").all_inner_texts()
        assert titles == [f"session {number:03}" for number in reversed(range(130))]
        await expect(window.button("Older sessions")).to_have_count(0)
        await page.get_by_label("Filter sessions").fill("session 007")
        await expect(rows).to_have_count(1)
        await rows.first.click()
        await expect(page.locator(".titles h1")).to_have_text("session 007", timeout=20_000)
        await window.send("hello")
        await window.shows("Hello.")
        await page.get_by_role("button", name="All sessions").click()
        await page.get_by_label("Filter sessions").fill("")
        await expect(rows.first).to_contain_text("session 007", timeout=20_000)


async def test_sessions_of_the_same_moment_keep_the_order_of_the_server(open_web: OpenWeb) -> None:
    async def answer_with_one_time(route: Any) -> None:
        answer = await route.fetch()
        page = await answer.json()
        await route.fulfill(
            response=answer,
            json=page | {"items": [one | {"updated_at": "2026-11-18T12:00:00.000Z"} for one in page["items"]]},
        )

    async with open_web() as web:
        for number in range(60):
            await web.server.session(title=f"session {number:03}")
        window = await web.window()
        await window.page.route("**/sessions?*", answer_with_one_time)
        await window.page.reload()
        await window.click("Older sessions")
        await expect(window.page.locator("a.session")).to_have_count(60, timeout=20_000)
        titles = await window.page.locator(".session-title").all_inner_texts()
        assert titles == [f"session {number:03}" for number in reversed(range(60))]


async def test_sessions_of_all_directories_show_what_runs_waits_and_is_queued(
    open_web: OpenWeb, tmp_path: Path
) -> None:
    slow = Answer(pieces=(Say("I begin. "), Gate("go")))
    async with open_web(slow, calls(Call("bash", {"command": "touch x"})), text("After it.")) as web:
        busy = await web.server.session(title="busy one")
        await web.server.prompt(busy, "take your time")
        await web.server.prompt(busy, "and then")
        window = await web.window("desktop")
        row = window.page.locator("a.session", has_text="busy one")
        await expect(row).to_contain_text("work · running · 1 queued", timeout=20_000)
        (tmp_path / "elsewhere").mkdir()
        other = await web.server.open(tmp_path / "elsewhere")
        asking = {"prompt": "make x", "run_id": "run_asking"}
        session = (await web.server.http.post(f"/v1/workspaces/{other}/runs", asking)).ok(202)["run"]["session_id"]
        asks = window.page.locator("a.session", has_text="elsewhere")
        await expect(asks).to_contain_text("needs your answer", timeout=20_000)
        await expect(window.page.locator("a.session").first).to_contain_text("elsewhere")
        await asks.click()
        assert await window.session_id() == session
        await window.click("Deny…")
        await window.click("Deny")
        await window.shows("After it.")
        await window.send("!echo typed by me")
        await expect(window.page.locator(".shell .output")).to_contain_text("typed by me", timeout=20_000)
        web.server.provider.open("go")
        await expect(row).not_to_contain_text("running", timeout=20_000)


async def test_a_session_is_archived_found_again_and_restored(open_web: OpenWeb) -> None:
    async with open_web() as web:
        kept, old = await web.server.session(title="kept"), await web.server.session(title="old one")
        window = await web.window("desktop")
        page = window.page
        rows = page.locator("a.session")
        await window.open_session(old)
        await page.locator(".menu summary").click()
        await window.click("Archive")
        await expect(rows).to_have_count(1, timeout=20_000)
        await page.reload()
        await expect(rows).to_have_count(1, timeout=20_000)
        await window.click("Show archived")
        await expect(rows).to_have_count(2, timeout=20_000)
        await rows.last.click()
        await expect(page.locator(".titles h1")).to_have_text("old one", timeout=20_000)
        await page.locator(".menu summary").click()
        await window.click("Restore from the archive")
        await window.click("Hide archived")
        await expect(rows).to_have_count(2, timeout=20_000)
        assert kept != old


async def test_a_session_is_exported_renamed_forked_and_deleted(open_web: OpenWeb) -> None:
    async with open_web(text("An answer to keep.")) as web:
        session = await web.server.session(title="Fix <the> slug")
        await web.server.ended((await web.server.prompt(session))["run"]["id"])
        window = await web.window("desktop")
        page = window.page
        await window.open_session(session)
        await page.locator(".menu summary").click()
        async with page.expect_download() as download:
            await window.click("Export")
        saved = await download.value
        assert saved.suggested_filename == "Fix-the-slug.md"
        assert "An answer to keep." in (await saved.path()).read_text()
        await page.locator(".menu summary").click()
        await window.click("Rename…")
        await page.get_by_role("dialog").get_by_label("Title").fill("Better")
        await window.click("Rename")
        await expect(page.locator(".titles h1")).to_have_text("Better", timeout=20_000)
        await page.locator(".menu summary").click()
        await window.click("Fork")
        await page.wait_for_url(lambda url: "#/s/" in url and session not in url, timeout=20_000)
        await window.shows("An answer to keep.")
        await page.locator(".menu summary").click()
        await window.click("Delete…")
        await window.click("Delete")
        await window.told("This session was deleted.")
        await expect(page.locator("a.session")).to_have_count(1, timeout=20_000)
