"""What is put into a prompt: files that are pasted and dropped, the model and how hard it thinks."""

from __future__ import annotations

import base64

import pytest

from holdfast.testing import text
from tests.web.browser.page_harness import OpenWeb, playwright

pytestmark = [pytest.mark.timeout(120), pytest.mark.asyncio(loop_scope="session")]
expect = playwright.expect

PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
GIVE_FILES = """([selector, kind, files]) => {
  const data = new DataTransfer();
  for (const [name, type, content] of files) {
    const bytes = Uint8Array.from(atob(content), (character) => character.charCodeAt(0));
    data.items.add(new File([bytes], name, { type }));
  }
  const options = { bubbles: true, cancelable: true };
  const event =
    kind === "paste"
      ? new ClipboardEvent(kind, { ...options, clipboardData: data })
      : new DragEvent(kind, { ...options, dataTransfer: data });
  return !document.querySelector(selector).dispatchEvent(event);
}"""
MODELS = """
[providers.test.models.test-model]
name = "Plain"
images = true
[providers.test.models.thinker]
name = "Thinker"
reasoning = ["low", "high"]
"""


async def test_pasted_and_dropped_files_are_attached_wherever_they_are_dropped(open_web: OpenWeb) -> None:
    async with open_web(text("I see."), config=MODELS) as web:
        window = await web.window("desktop")
        page = window.page
        await window.new_session()
        notes = ["notes.txt", "text/plain", base64.b64encode(b"remember the milk").decode()]
        photo = ["shot.png", "image/png", PIXEL]
        assert await page.evaluate(GIVE_FILES, [".composer textarea", "paste", [photo]])
        await expect(page.locator(".composer .files img")).to_have_count(1)
        assert await page.evaluate(GIVE_FILES, [".transcript", "dragover", [notes]])
        await expect(page.locator(".composer.dropping")).to_be_visible()
        assert await page.evaluate(GIVE_FILES, [".transcript", "drop", [notes]])
        await expect(page.locator(".composer.dropping")).to_have_count(0)
        await expect(page.locator(".composer .files li")).to_have_count(2)
        await window.send("look at both")
        await window.shows("I see.")
        sent = str(web.server.provider.requests)
        assert "remember the milk" in sent
        assert PIXEL in sent
        await expect(page.locator(".prompt .files img")).to_have_count(1)
        await expect(page.locator(".prompt .files li").nth(1)).to_contain_text("notes.txt")


@pytest.mark.parametrize("size", ["desktop", "phone"])
async def test_model_and_effort_are_chosen_for_the_next_prompts_of_a_session(open_web: OpenWeb, size: str) -> None:
    async with open_web(text("One."), text("Two."), text("Three."), config=MODELS) as web:
        window = await web.window(size)
        page = window.page
        await window.new_session()
        await expect(page.get_by_role("combobox", name="Model")).to_be_visible(timeout=20_000)
        await expect(page.get_by_role("combobox", name="How hard it thinks")).to_have_count(0)
        await window.send("first")
        await window.shows("One.")
        await page.get_by_role("combobox", name="Model").select_option(label="Thinker")
        await page.get_by_role("combobox", name="How hard it thinks").select_option("high")
        await window.send("second")
        await window.shows("Two.")
        await page.get_by_role("combobox", name="Model").select_option(label="Plain")
        await window.send("third")
        await window.shows("Three.")
        bodies = [request.body for request in web.server.provider.requests if "tools" in request.body]
        asked = [(body["model"], body.get("reasoning_effort")) for body in bodies]
        assert asked == [("test-model", None), ("thinker", "high"), ("test-model", None)]
