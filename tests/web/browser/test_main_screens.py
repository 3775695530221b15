"""The main screens: axe finds nothing serious in them, and `HOLDFAST_TEST_PICTURES=1` stores them in docs/images."""

from __future__ import annotations

import asyncio
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from holdfast.testing import Answer, Call, Say, Think, calls, text
from tests.web.browser.page_harness import WebPage, open_web_at, playwright

pytestmark = [pytest.mark.timeout(120), pytest.mark.asyncio(loop_scope="session")]
expect = playwright.expect

ROOT = Path(__file__).parents[3]
AXE = ROOT / "web/node_modules/axe-core/axe.min.js"
IMAGES = ROOT / "docs/images"

TEST = "from slug import slug\n\n\ndef test_double_blank():\n    assert slug('hold  fast') == 'hold-fast'\n"
BEFORE = 'def slug(text):\n    kept = text.strip().lower()\n    return "-".join(kept.split(" "))\n'
TODOS = [
    {"text": "Read the failing test", "status": "completed"},
    {"text": "Fix slug()", "status": "in_progress"},
    {"text": "Run the whole suite", "status": "pending"},
]
SUMMARY = """`slug()` split at every single blank, so two blanks left an empty word between them:

```python
"-".join("hold  fast".split(" "))  # 'hold--fast'
```

Without an argument, `split` treats **any run of white space** as one separator. The test passes now.
"""


async def check(window: WebPage, name: str) -> None:
    """No serious finding of axe; store the picture if asked to."""
    if os.environ.get("HOLDFAST_TEST_PICTURES"):
        IMAGES.mkdir(parents=True, exist_ok=True)
        await window.page.screenshot(path=IMAGES / f"{name}.png", animations="disabled")
    if not AXE.exists():
        return
    await window.page.evaluate(AXE.read_text())
    found = await window.page.evaluate("axe.run()")
    serious = [
        f"{violation['id']}: {node['html'][:200]} {node['failureSummary'][:200]}"
        for violation in found["violations"]
        if violation["impact"] in ("serious", "critical")
        for node in violation["nodes"]
    ]
    assert serious == [], name


def make_project(work: Path) -> None:
    work.mkdir()
    (work / "slug.py").write_text(BEFORE)
    (work / "test_slug.py").write_text(TEST)
    for command in (("init", "-q"), ("config", "user.name", "Ada"), ("config", "user.email", "ada@example.org")):
        subprocess.run(("git", *command), cwd=work, check=True, timeout=30)


async def test_the_main_screens_are_accessible(browser: Any, home: Path) -> None:
    await asyncio.to_thread(make_project, home / "slug")
    edit = {"path": "slug.py", "old_text": 'kept.split(" ")', "new_text": "kept.split()"}
    answers = (
        Answer(
            pieces=(
                Think("The test has two blanks. Probably split is called with an argument."),
                Say("I look at the test and at the function that it calls."),
                Call("grep", {"pattern": "slug\\("}),
                Call("view", {"path": "slug.py"}),
                Call("todos", {"todos": TODOS}),
            )
        ),
        Answer(pieces=(Say("The blanks are the problem."), Call("edit", edit))),
        calls(Call("bash", {"command": "git add slug.py && git commit -m 'slug: any white space separates words'"})),
        text(SUMMARY),
        text("The changelog has an entry for it now."),
    )
    async with open_web_at(browser, home, *answers, work_name="slug") as web:
        for title in ("Upgrade the dependencies", "Why is the import slow?"):
            await web.server.session(title=title)
        desk = await web.window("desktop")
        await check(desk, "web-list")
        await desk.new_session()
        await desk.page.get_by_label("When to ask").select_option("accept_edits")
        await check(desk, "web-new")
        await desk.send("why does test_slug.py fail? fix it and commit")
        await expect(desk.button("Allow once")).to_be_enabled(timeout=20_000)
        await expect(desk.page.locator(".titles h1")).to_have_text("A title", timeout=20_000)
        title = {"title": "Two blanks in slug()"}
        (await web.server.http.send("PATCH", f"/v1/sessions/{await desk.session_id()}", title)).ok()
        await expect(desk.page.locator(".titles h1")).to_have_text(title["title"], timeout=20_000)
        await desk.send("then update the changelog", "Queue")
        await expect(desk.page.locator(".queue li")).to_have_count(1)
        await check(desk, "web-approval")
        phone = await web.window("phone", dark=True)
        await check(phone, "web-phone-list")
        await phone.open_session(await desk.session_id())
        await expect(phone.button("Allow once")).to_be_enabled(timeout=20_000)
        await check(phone, "web-phone-approval")
        await phone.page.get_by_role("button", name="Details").click()
        await check(phone, "web-phone-details")
        await phone.page.get_by_role("button", name="Back to the session").click()
        await phone.click("Allow once")
        await phone.shows("The changelog has an entry for it now.")
        await desk.shows("The changelog has an entry for it now.")
        await expect(desk.page.locator(".changes .row")).to_have_count(1, timeout=20_000)
        await expect(desk.page.locator(".toast")).to_have_count(0, timeout=20_000)
        await desk.page.locator(".call-head", has_text="edit").scroll_into_view_if_needed()
        await check(desk, "web-session")
        await check(phone, "web-phone-session")
        light = await web.window("phone")
        await light.open_session(await desk.session_id())
        await check(light, "web-phone-session-light")
        night = await web.window("desktop", dark=True)
        await night.open_session(await desk.session_id())
        await check(night, "web-session-dark")
