"""Long sessions stay fast because only what is near the screen exists. bench/web.py has the figures."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.schema.messages import Finish, Message, Text
from holdfast.store import Batch
from holdfast.store.writes import PutMessage
from holdfast.testing import Answer, Gate, Say, text
from tests.support.running_server import RunningServer
from tests.web.browser.page_harness import OpenWeb, playwright

pytestmark = [pytest.mark.timeout(120), pytest.mark.asyncio(loop_scope="session")]
expect = playwright.expect

MESSAGES = 2_000
LINES = "\n\n".join(f"Paragraph {number} of a long answer." for number in range(12))


async def long_session(server: RunningServer) -> str:
    """A session of 2,000 messages, each with its number."""
    session = await server.session()
    run = (await server.ended((await server.prompt(session))["run"]["id"]))["id"]
    writes = []
    for number in range(MESSAGES):
        said = (Text(f"Message {number}. {LINES if number % 10 == 0 else ''}"), Finish("end_turn"))
        writes.append(PutMessage(Message(f"msg_{number}", session, run, "assistant", 0, "2026-01-01T00:00:00Z", said)))
    await server.app.store.commit(Batch(tuple(writes)))
    return session


async def count(page: Any, selector: str) -> int:
    found: int = await page.locator(selector).count()
    return found


@pytest.mark.parametrize("size", ["desktop", "phone"])
async def test_of_2000_messages_only_those_near_the_screen_exist_and_all_can_be_reached(
    open_web: OpenWeb, size: str
) -> None:
    async with open_web(text("Ready.")) as web:
        session = await long_session(web.server)
        window = await web.window(size)
        page = window.page
        await window.open_session(session)
        await window.shows(f"Message {MESSAGES - 1}.")
        log = page.get_by_role("log")
        most = 0
        while not await page.get_by_text("Message 0.", exact=False).first.is_visible():
            await log.evaluate("box => { box.scrollTop = 0 }")
            await page.evaluate("() => new Promise(drawn => requestAnimationFrame(() => requestAnimationFrame(drawn)))")
            most = max(most, await count(page, ".item"))
        assert 0 < most < 120
        assert await count(page, ".item") < 120
        await window.click("↓ Newest")
        await window.shows(f"Message {MESSAGES - 1}.")
        assert await count(page, ".item") < 120


async def test_what_is_read_stays_in_place_while_an_answer_is_added_below(open_web: OpenWeb) -> None:
    slow = Answer(pieces=(Say("It begins. "), Gate("go"), Say(f"{LINES}\n\nThe end.")))
    async with open_web(text("Ready."), slow) as web:
        session = await long_session(web.server)
        window = await web.window("desktop")
        page = window.page
        await window.open_session(session)
        await window.send("go on")
        await window.shows("It begins.")
        await page.get_by_role("log").evaluate("box => { box.scrollTop -= 3000 }")
        await expect(window.button("↓ Newest")).to_be_visible()
        read = page.locator(".item").nth(await count(page, ".item") // 2)
        key = await read.get_attribute("data-key")
        await page.evaluate("() => new Promise(drawn => requestAnimationFrame(() => requestAnimationFrame(drawn)))")
        place = page.locator(f".item[data-key='{key}']")
        before = (await place.bounding_box())["y"]
        web.server.provider.open("go")
        await expect(page.locator(".active-line")).to_have_count(0, timeout=20_000)
        assert abs((await place.bounding_box())["y"] - before) < 2
        await window.click("↓ Newest")
        await window.shows("The end.")


async def test_a_long_answer_is_drawn_in_chunks_and_reads_the_same_when_it_is_complete(open_web: OpenWeb) -> None:
    parts = [
        f"## Part {number}\n\nSome *text* and [a link][ref{number}].\n\n```python\nx = {number}\n```\n\n"
        for number in range(60)
    ]
    parts.append("".join(f"[ref{number}]: https://example.org/{number}\n" for number in range(60)))
    slow = Answer(pieces=(Say("".join(parts[:-1]), chunk=200), Gate("go"), Say(parts[-1] + "\nThe end.", chunk=200)))
    async with open_web(slow) as web:
        window = await web.window("desktop")
        page = window.page
        await window.new_session()
        await window.send("write")
        await expect(page.locator(".markdown h4")).to_have_count(60, timeout=20_000)
        chunks = await count(page, ".markdown > .far")
        assert chunks >= 3
        assert await count(page, ".markdown figure.code") == 60
        web.server.provider.open("go")
        await window.shows("The end.")
        await expect(page.locator(".active-line")).to_have_count(0, timeout=20_000)
        await expect(page.locator(".markdown a[href='https://example.org/7']")).to_have_count(1, timeout=20_000)
        assert await count(page, ".markdown h4") == 60
        assert await count(page, ".markdown a[href]") == 60
        await expect(page.locator("figure.code .hljs-number")).to_have_count(60, timeout=20_000)
