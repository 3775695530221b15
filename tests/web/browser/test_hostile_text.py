"""Text of others never becomes a script, an image from elsewhere or a link that leaves without a question."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from holdfast.extend.mcp.tool_definitions import tool_name
from holdfast.testing import Answer, Call, Say, Think, calls, text
from tests.support.running_server import until
from tests.web.browser.hostile_mcp_server import TOOL
from tests.web.browser.page_harness import OpenWeb, playwright

pytestmark = [pytest.mark.timeout(120), pytest.mark.asyncio(loop_scope="session")]
expect = playwright.expect

PAYLOADS = (
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(2)>",
    "<svg onload=alert(3)><svg>",
    "<svg><animate onbegin=alert(4) attributeName=x dur=1s>",
    "<iframe srcdoc='<script>alert(5)</script>'></iframe>",
    "<details open ontoggle=alert(6)>x</details>",
    "<math><mtext><table><mglyph><style><!--</style><img title='--&gt;&lt;img src=1 onerror=alert(7)&gt;'>",
    "<a href='javascript:alert(8)'>a</a>",
    "[b](javascript:alert(9))",
    "[c](  JaVaScRiPt:alert(10))",
    "[d](data:text/html;base64,PHNjcmlwdD5hbGVydCgxMSk8L3NjcmlwdD4=)",
    "![e](https://evil.example/pixel.png)",
    '![f](x "onerror=alert(12)")',
    "<form action=https://evil.example><button>x</button></form>",
    "<style>*{background:url(https://evil.example/css)}</style>",
    "<base href=https://evil.example/>",
    "<meta http-equiv=refresh content='0;url=https://evil.example'>",
    "<object data=javascript:alert(13)></object>",
    "<noscript><p title='</noscript><img src=x onerror=alert(14)>'>",
    "```html\n</code></pre><script>alert(15)</script>\n```",
    '```"><img/src=x/onerror=alert(16)>\ncode\n```',
    "<https://evil.example/auto>",
    "| a |\n|---|\n| <img src=x onerror=alert(17)> |",
    "`</code><script>alert(18)</script>`",
    "{{constructor.constructor('alert(19)')()}}",
    "\u202egnp.exe <b onmouseover=alert(20)>bold</b>",
)
LIST = "\n\n".join(PAYLOADS)
ONE_LINE = " ".join(payload.replace("\n", " ") for payload in PAYLOADS)
FILE_NAME = "<img src=x onerror=alert(30)>.py"


async def test_no_payload_runs_wherever_text_of_others_appears(open_web: OpenWeb) -> None:
    name = "mcp_<img src=x onerror=alert(31)>"
    answers = (
        Answer(pieces=(Think(LIST), Say(LIST), Call("bash", {"command": f"echo '{PAYLOADS[1]}'; false"}))),
        calls(Call("write", {"path": FILE_NAME, "content": LIST})),
        calls(Call(name, {"<b>key</b>": ONE_LINE})),
        calls(Call("todos", {"todos": [{"text": payload, "status": "pending"} for payload in PAYLOADS[:8]]})),
        calls(Call("bash", {"command": f"touch a; : {PAYLOADS[0]!r}"})),
        calls(
            Call("question", {"questions": [{"text": ONE_LINE[:900], "kind": "single", "options": [*PAYLOADS[:4]]}]})
        ),
        text(LIST),
    )
    async with open_web(*answers) as web:
        outside: list[str] = []
        window = await web.window("desktop")
        page = window.page
        page.on("request", lambda request: None if request.url.startswith(web.address) else outside.append(request.url))
        session = await web.server.session(title=ONE_LINE[:450])
        await web.server.prompt(session, LIST, mode="accept_edits")
        await web.server.prompt(session, PAYLOADS[1])
        await window.open_session(session)
        await window.click("Allow once")
        await page.locator(".ask .option").first.click(timeout=20_000)
        await window.click("Answer")
        await expect(page.locator(".queue")).to_have_count(0, timeout=20_000)
        await expect(page.locator(".active-line")).to_have_count(0, timeout=20_000)
        await page.evaluate("document.querySelectorAll('.call-head, .fold').forEach(head => head.click())")
        await page.locator(".changes .row").first.click()
        await page.get_by_role("button", name="Close").click()
        await page.mouse.wheel(0, -5000)
        await page.reload()
        await expect(page.get_by_role("log")).to_be_visible(timeout=20_000)
        await expect(page.locator(".markdown").first).to_be_visible(timeout=20_000)
        inside = "script, img, iframe, svg, form, style, object, base, meta, [onerror], [onload], [style]"
        assert await page.locator(f".markdown :is({inside})").count() == 0
        assert await page.locator(".scroll a[href]:not([href^='http'])").count() == 0
        assert outside == []
        # Scripts that ran would have opened a dialog, and refused ones are violations: both fail in `open_web`.


async def test_a_violation_of_the_policy_is_seen_by_these_tests(open_web: OpenWeb) -> None:
    async with open_web() as web:
        window = await web.window("desktop")
        await window.page.evaluate("document.body.append(Object.assign(new Image(), {src: 'https://evil.example/x'}))")
        inline = "document.body.append(Object.assign(document.createElement('script'), {textContent: 'alert(1)'}))"
        await window.page.evaluate(inline)
        await until(lambda: len([one for one in window.problems if "refused by the policy" in one]) == 2)
        assert not [one for one in window.problems if "dialog" in one]
        window.problems.clear()


async def test_names_and_results_of_an_mcp_server_are_only_text(open_web: OpenWeb) -> None:
    server = Path(__file__).parent / "hostile_mcp_server.py"
    config = f"[mcp.docs]\ncommand = {json.dumps([sys.executable, '-I', '-S', str(server)])}\n"
    name = tool_name("docs", TOOL)
    answers = (calls(Call(name, {"<b>text</b>": ONE_LINE})), text("Called it."))
    async with open_web(*answers, config=config) as web:
        outside: list[str] = []
        window = await web.window("desktop")
        page = window.page
        page.on("request", lambda request: None if request.url.startswith(web.address) else outside.append(request.url))
        await web.server.http.get(f"/v1/workspaces/{web.server.workspace_id}/extensions?wait=30")
        await window.new_session()
        await window.send("call it")
        ask = page.get_by_role("region", name="Needs your answer")
        await expect(ask).to_contain_text("docs", timeout=20_000)
        await expect(ask).to_contain_text("<b>text</b>")
        await window.click("Allow once")
        await window.shows("Called it.")
        await page.locator(".call-head").first.click()
        await expect(page.locator(".call-body .output")).to_contain_text("<script>alert(42)</script>", timeout=20_000)
        await page.reload()
        await window.shows("Called it.")
        await page.locator(".composer textarea").press_sequentially("/docs")
        await expect(page.locator(".choices li").first).to_contain_text("<svg onload=alert(41)>", timeout=20_000)
        assert await page.locator(".choices :is(svg, img), .call :is(script, img, b), .ask :is(img, b)").count() == 0
        assert outside == []


async def test_a_link_of_the_model_leaves_only_after_its_address_was_confirmed(open_web: OpenWeb) -> None:
    async with open_web(text("See [the bank](https://evil.example/path?q=1).")) as web:
        window = await web.window("phone")
        await window.new_session()
        await window.send("where?")
        link = window.page.get_by_role("link", name="the bank")
        await link.click(timeout=20_000)
        await window.shows("https://evil.example/path?q=1")
        assert set((await link.get_attribute("rel")).split()) >= {"noopener", "noreferrer"}
        assert len(window.context.pages) == 1
        await window.click("Not now")
        assert window.page.url.startswith(web.address)
