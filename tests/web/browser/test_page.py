"""What a person does with the page, in a real browser, at the sizes of a phone and a desk."""

from __future__ import annotations

import asyncio
import base64
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from holdfast.testing import Answer, Call, Gate, Say, Think, calls, text
from tests.support.running_server import until
from tests.web.browser.page_harness import SIZES, OpenWeb, WebPage, playwright

pytestmark = [pytest.mark.timeout(120), pytest.mark.asyncio(loop_scope="session")]
expect = playwright.expect

ANSWER = """Here is **what** I found:

- one `thing`

```python
def slug(text):
    return "-".join(text.split())
```
"""
PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


async def back_to_session(window: WebPage, size: str) -> None:
    if size == "phone":
        await window.page.get_by_role("button", name="Back to the session").click()


async def details(window: WebPage, size: str) -> None:
    if size == "phone":
        await window.page.get_by_role("button", name="Details").click()


@pytest.mark.parametrize("size", SIZES)
async def test_a_prompt_is_answered_with_markdown_thinking_tools_todos_diffs_and_usage(
    open_web: OpenWeb, size: str
) -> None:
    todos = [{"text": "read the test", "status": "completed"}, {"text": "fix slug", "status": "in_progress"}]
    first = (Think("hm, the blanks"), Say("I look at the test."), Call("bash", {"command": "ls"}))
    async with open_web(
        Answer(pieces=(*first, Call("todos", {"todos": todos}))),
        calls(Call("write", {"path": "slug.py", "content": "def slug():\n    pass\n"})),
        text(ANSWER),
    ) as web:
        window = await web.window(size)
        page = window.page
        await window.new_session()
        await page.get_by_label("When to ask").select_option("accept_edits")
        await window.send("fix the slug")
        await window.shows("Here is what I found:")
        assert await page.locator(".markdown strong").inner_text() == "what"
        await expect(page.locator("pre .hljs-keyword").first).to_have_text("def")
        await expect(page.locator(".diff-add").first).to_contain_text("def slug():")
        await page.get_by_role("button", name="Thought").click()
        await window.shows("hm, the blanks")
        await details(window, size)
        await expect(page.locator(".details")).to_contain_text("Tasks 1/2", timeout=20_000)
        await expect(page.locator(".details")).to_contain_text("tokens", timeout=20_000)
        await expect(page.locator(".turn-end")).to_contain_text("360 tokens")
        await page.locator(".changes .row").click()
        await expect(page.get_by_role("dialog").locator(".diff-add").first).to_contain_text("def slug():")
        await page.get_by_role("button", name="Close").click()
        assert (web.server.work / "slug.py").exists()
        await window.click("Undo last run…")
        await page.get_by_role("dialog").get_by_role("button", name="Undo", exact=True).click()
        await until(lambda: not (web.server.work / "slug.py").exists())
        await window.click("Redo")
        await until((web.server.work / "slug.py").exists)


@pytest.mark.parametrize("size", SIZES)
async def test_an_approval_shows_the_exact_command_and_the_rule_and_a_denial_takes_a_reason(
    open_web: OpenWeb, size: str
) -> None:
    asks = [calls(Call("bash", {"command": f"touch made-{number} && echo 'a  b'"})) for number in (1, 2)]
    async with open_web(*asks, text("All done.")) as web:
        window = await web.window(size)
        await window.new_session()
        await window.send("make it")
        ask = window.page.get_by_role("region", name="Needs your answer")
        await expect(ask.locator(".command")).to_have_text("touch made-1 && echo 'a  b'", timeout=20_000)
        await expect(ask.locator(".rules code")).to_contain_text("bash: touch")
        await window.click("Deny…")
        await window.page.get_by_label("Why not?").fill("use a better name")
        await window.click("Deny")
        await expect(ask.locator(".command")).to_contain_text("made-2", timeout=20_000)
        await window.click("Always here")
        await window.shows("All done.")
        assert not (web.server.work / "made-1").exists()
        assert (web.server.work / "made-2").exists()
        assert "use a better name" in str(web.server.provider.requests[-1].body) or any(
            "use a better name" in str(request.body) for request in web.server.provider.requests
        )
        grants = (await web.server.http.get(f"/v1/workspaces/{web.server.workspace_id}/grants")).ok()
        assert any("touch" in grant["rule"] for grant in grants["items"])


async def test_a_question_is_answered(open_web: OpenWeb) -> None:
    items = [
        {"text": "Which one?", "kind": "single", "options": ["red", "blue"]},
        {"text": "Why?", "kind": "text"},
    ]
    async with open_web(calls(Call("question", {"questions": items})), text("Thank you.")) as web:
        window = await web.window("phone")
        await window.new_session()
        await window.send("ask me")
        await window.page.get_by_label("blue").check(timeout=20_000)
        await window.page.get_by_label("Your answer", exact=True).fill("it is calm")
        await window.click("Answer")
        await window.shows("Thank you.")
        assert "it is calm" in str(web.server.provider.requests[-1].body)


@pytest.mark.parametrize("size", SIZES)
async def test_prompts_are_queued_edited_moved_removed_steered_and_cancelled_with_a_receipt(
    open_web: OpenWeb, size: str
) -> None:
    slow = Answer(pieces=(Say("I begin. "), Gate("go"), Say("too late")))
    async with open_web(slow) as web:
        window = await web.window(size)
        page = window.page
        await window.new_session()
        await window.send("take your time")
        await window.shows("I begin.")
        for prompt in ("first", "second", "third"):
            await window.send(prompt, "Queue")
            await expect(page.locator(".queue li").last).to_contain_text(prompt)
        await page.locator(".queue li").nth(1).get_by_role("button", name="Edit").click()
        await page.get_by_role("dialog").get_by_label("Prompt").fill("second, better")
        await window.click("Save")
        await expect(page.locator(".queue li").nth(1)).to_contain_text("second, better")
        await page.locator(".queue li").nth(1).get_by_role("button", name="Move up").click()
        await expect(page.locator(".queue li").first).to_contain_text("second, better")
        await page.locator(".queue li").last.get_by_role("button", name="Remove").click()
        await expect(page.locator(".queue li")).to_have_count(2)
        await window.send("and mention the docs", "Steer")
        await expect(page.locator(".queue li").first).to_contain_text("and mention the docs")
        await window.click("Stop")
        await window.shows("Cancelled the run")
        await window.shows("Cancelled by you")
        await window.shows("The queue is held.")
        await window.click("Drop all")
        await expect(page.locator(".queue")).to_have_count(0)
        await window.shows("queued prompts dropped")


async def test_files_are_attached_and_mentioned_and_commands_are_completed(open_web: OpenWeb, tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "parser.py").write_text("x = 1\n")
    async with open_web(text("I see.")) as web:
        window = await web.window("phone")
        page = window.page
        await window.new_session()
        async with page.expect_file_chooser() as chooser:
            await page.get_by_role("button", name="Attach files or photos").click()
        photo = {"name": "photo.png", "mimeType": "image/png", "buffer": PIXEL}
        notes = {"name": "notes.txt", "mimeType": "text/plain", "buffer": b"remember the milk"}
        await (await chooser.value).set_files([notes, photo])
        await expect(page.locator(".composer .files li")).to_have_count(2)
        await page.get_by_role("button", name="Remove photo.png").click()
        area = page.locator(".composer textarea")
        await area.press_sequentially("look at @pars")
        await expect(page.locator(".choices li").first).to_contain_text("parser.py", timeout=20_000)
        await area.press("Enter")
        await expect(area).to_have_value("look at @parser.py ")
        await window.click("Send")
        await window.shows("I see.")
        assert "remember the milk" in str(web.server.provider.requests)
        await area.press_sequentially("/ren")
        await expect(page.locator(".choices li").first).to_contain_text("rename")
        await area.press("Tab")
        await area.press_sequentially("A better name")
        await window.click("Send")
        await expect(page.locator(".titles h1")).to_have_text("A better name", timeout=20_000)


async def test_text_that_is_typed_while_a_prompt_is_sent_stays(open_web: OpenWeb) -> None:
    async with open_web(text("First."), text("Second.")) as web:
        window = await web.window("desktop")
        page = window.page
        await window.new_session()
        area = page.locator(".composer textarea")
        await area.press_sequentially("one")
        await window.click("Send")
        await window.shows("First.")
        held, release = asyncio.Event(), asyncio.Event()

        async def hold(route: Any) -> None:
            held.set()
            await release.wait()
            await route.continue_()

        await page.route("**/runs", hold)
        await area.press_sequentially("two")
        await area.press("Enter")
        await held.wait()
        await area.press_sequentially(" three")
        release.set()
        await window.shows("Second.")
        await expect(area).to_have_value(" three")


async def test_two_browsers_and_the_command_line_see_one_session_and_the_first_answer_wins(
    open_web: OpenWeb, tmp_path: Path
) -> None:
    command = "touch both-see-it"
    answers = (calls(Call("bash", {"command": command})), text("Done for all."), text("For the command line."))
    async with open_web(*answers) as web:
        desk, phone = await web.window("desktop"), await web.window("phone")
        session = await web.server.session()
        await web.server.prompt(session, "make it")
        for window in (desk, phone):
            await window.shows("needs your answer")
            await window.page.locator("a.session").first.click()
            await expect(window.page.locator(".ask .command")).to_have_text(command, timeout=20_000)
        cli = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "holdfast", "run", "--session", session, "and then this"),
            cwd=web.server.work,
            env={**os.environ, "HOLDFAST_HOME": str(tmp_path / "home")},
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        for window in (desk, phone):
            await expect(window.page.locator(".queue li")).to_contain_text("and then this", timeout=20_000)
            await expect(window.button("Allow once")).to_be_enabled()
        await phone.click("Allow once")
        await desk.shows("allowed once, by phone")
        for window in (desk, phone):
            await expect(window.page.locator(".ask")).to_have_count(0)
            await window.shows("Done for all.")
            await window.shows("For the command line.")
        output, _ = await asyncio.wait_for(cli.communicate(), 30)
        assert (cli.returncode, b"For the command line." in output) == (0, True)


async def test_a_watching_browser_cannot_answer_or_prompt_and_a_revoked_one_sees_nothing_more(
    open_web: OpenWeb,
) -> None:
    async with open_web(calls(Call("bash", {"command": "touch x"})), text("Done.")) as web:
        session = await web.server.session()
        await web.server.prompt(session, "make it")
        window = await web.window("desktop", scope="watch")
        await window.open_session(session)
        await window.shows("This device may only watch.")
        await expect(window.button("Allow once")).to_be_disabled()
        await expect(window.page.locator(".composer textarea")).to_have_count(0)
        (device,) = (await web.server.http.get("/v1/devices")).ok()["items"]
        (await web.server.http.send("DELETE", f"/v1/devices/{device['id']}", {})).ok()
        await window.shows("This browser is not paired yet.")
        await window.page.goto(f"{web.address}/#pair=WRONG-CODE")
        await window.page.reload()
        await expect(window.page.get_by_role("alert")).to_be_visible(timeout=20_000)


async def test_sub_agents_are_shown_below_their_call_and_a_draft_survives_a_reload(open_web: OpenWeb) -> None:
    async with open_web(
        calls(Call("agent", {"prompt": "look around", "title": "looking"})),
        calls(Call("bash", {"command": "ls"})),
        text("It is empty here."),
        text("The sub-agent found nothing."),
    ) as web:
        window = await web.window("desktop")
        await window.new_session()
        await window.send("look")
        await window.shows("The sub-agent found nothing.")
        await window.page.locator(".composer textarea").fill("half a thou")
        await window.page.reload()
        await window.shows("The sub-agent found nothing.")
        await expect(window.page.locator(".composer textarea")).to_have_value("half a thou")
        await window.page.locator(".call-head", has_text="agent").first.click()
        await window.click("Show what the sub-agent did")
        await window.shows("It is empty here.")


async def test_the_keyboard_is_enough(open_web: OpenWeb) -> None:
    slow = Answer(pieces=(Say("I begin. "), Gate("go")))
    async with open_web(slow) as web:
        window = await web.window("desktop")
        page = window.page
        await page.get_by_role("button", name="New").focus()
        await page.keyboard.press("Enter")
        area = page.locator(".composer textarea")
        await area.focus()
        await page.keyboard.type("go on")
        await page.keyboard.press("Enter")
        await window.shows("I begin.")
        await area.focus()
        await page.keyboard.press("Escape")
        await window.shows("Cancelled by you")
        outline = await page.evaluate("getComputedStyle(document.activeElement.closest('.composer')).borderColor")
        assert outline != await page.evaluate("getComputedStyle(document.body).backgroundColor")


async def test_the_title_counts_what_happened_while_the_page_was_not_in_front(open_web: OpenWeb) -> None:
    async with open_web(text("Ready.")) as web:
        window = await web.window("desktop")
        await window.page.evaluate("document.hasFocus = () => false")
        session = await web.server.session()
        await web.server.ended((await web.server.prompt(session))["run"]["id"])
        await expect(window.page).to_have_title("(1) Holdfast", timeout=20_000)
        await window.page.evaluate("dispatchEvent(new Event('focus'))")
        await expect(window.page).to_have_title("Holdfast")
