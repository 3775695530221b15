"""Measure the web page in Chromium: the first paint, a long session, and an answer of 10,000 deltas.

``python -m dev.web_figures`` prints the figures beside their aims; `make test-web` runs it. Without Chromium it says so.

A task is what the main thread does between two events of the browser, from Chromium's own trace. Longer tasks than 50 ms
are what a person feels as a pause.
"""

from __future__ import annotations

import asyncio
import os
import statistics
import sys
import tempfile
from pathlib import Path
from typing import Any

import msgspec

from holdfast.testing import Answer, Say

MESSAGES = 2_000
DELTAS = 10_000
TEXT = "The function `slug()` splits at **every** blank, so two blanks leave an empty word.\n\n"
CODE = "```python\ndef slug(text):\n    return '-'.join(text.split())\n```\n\n- one\n- two\n\n"


def percentile(values: list[float], share: float) -> float:
    ordered = sorted(values) or [0.0]
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]


async def traced(browser: Any, page: Any, work: Any) -> list[float]:
    """The durations of the page's tasks in milliseconds, while something happens."""
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "trace.json"
        await browser.start_tracing(page=page, path=path, categories=["toplevel", "devtools.timeline"])
        await work
        await browser.stop_tracing()
        events = msgspec.json.decode(path.read_bytes())["traceEvents"]
    names = {(e["pid"], e["tid"]) for e in events if e.get("args", {}).get("name") == "CrRendererMain"}
    frames = [
        e for e in events if e["name"] in ("RunTask", "ThreadControllerImpl::RunTask") and (e["pid"], e["tid"]) in names
    ]
    busy: dict[int, float] = {}
    for event in frames:
        busy[event["pid"]] = busy.get(event["pid"], 0.0) + event.get("dur", 0)
    ours = max(busy, key=lambda pid: busy[pid], default=0)
    return [event.get("dur", 0) / 1000 for event in frames if event["pid"] == ours]


def show(name: str, value: float, aim: float, unit: str = "ms") -> None:
    print(f"{name:<52} {value:8.1f} {unit}   aim {aim:g} {unit}{'' if value <= aim else '   MISSED'}", flush=True)


async def first_paint(web: Any, window: Any) -> None:
    found = []
    for _ in range(5):
        await window.page.goto("about:blank")
        await window.page.goto(web.address)
        await window.page.locator(".brand").wait_for()
        await asyncio.sleep(0.3)
        script = "performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? 0"
        found.append(float(await window.page.evaluate(script)))
    show("first contentful paint on loopback, median of 5", statistics.median(found), 300)


async def long_session(web: Any, window: Any) -> None:
    session = await web.server.session(title="A long session")
    for _ in range(MESSAGES // 2):
        accepted = await web.server.prompt(session, "why?")
        await web.server.ended(accepted["run"]["id"])
    page = window.page

    async def scroll() -> None:
        await window.open_session(session)
        box = page.locator(".scroll")
        for _ in range(400):
            await box.evaluate("box => { box.scrollTop -= 700 }")
            await asyncio.sleep(0.016)
            if await box.evaluate("box => box.scrollTop") == 0:
                await asyncio.sleep(0.2)
                if await box.evaluate("box => box.scrollTop") == 0:
                    break

    tasks = await traced(web.browser, page, scroll())
    show(f"{MESSAGES} messages: open and scroll to the start, p99 task", percentile(tasks, 0.99), 50)
    show(f"{MESSAGES} messages: longest task", max(tasks, default=0.0), 50)
    print(f"{'elements in the document':<52} {await page.evaluate('document.querySelectorAll(`*`).length'):8}")


async def long_answer(web: Any, window: Any) -> None:
    session = await web.server.session(title="A long answer")
    await window.open_session(session)

    async def stream() -> None:
        accepted = await web.server.prompt(session, "at length, please")
        await web.server.ended(accepted["run"]["id"])
        await window.shows("The very end.")

    tasks = await traced(web.browser, window.page, stream())
    show(f"an answer of {DELTAS} deltas: p99 task", percentile(tasks, 0.99), 50)
    show(f"an answer of {DELTAS} deltas: longest task", max(tasks, default=0.0), 50)


async def measure() -> None:
    from tests.web.browser.page_harness import open_web  # needs Playwright

    short = Answer(pieces=(Say(TEXT + CODE, chunk=10_000),))
    whole = (TEXT + CODE) * 450
    size = len(whole) // DELTAS
    deltas = tuple(whole[at : at + size] for at in range(0, len(whole), size))
    long = Answer(pieces=(Say(deltas=(*deltas, "\n\nThe very end.")),))
    os.environ["HOME"] = tempfile.mkdtemp(prefix="hf-")
    with tempfile.TemporaryDirectory(prefix="hf-") as directory:
        async with open_web(Path(directory), *[short] * (MESSAGES // 2), long) as web:
            window = await web.window("desktop")
            await first_paint(web, window)
            await long_session(web, window)
            await long_answer(web, window)


def main() -> int:
    import pytest

    try:
        asyncio.run(measure())
    except pytest.skip.Exception as reason:
        print(f"not measured: {reason}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
