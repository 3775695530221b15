"""Pages are converted in a process that can be killed."""

from __future__ import annotations

import pytest

from holdfast.errors import ToolError
from holdfast.tools.web import page_converter
from holdfast.tools.web.page_converter import convert_page
from holdfast.tools.web.page_text import html_to_markdown, tidy_html


async def test_a_page_is_converted_as_in_this_process() -> None:
    html = "<h1>Title</h1><p>A <b>bold</b> w\u00f6rd</p><table><tr><td>1</td></tr></table>"
    assert await convert_page(html, "markdown") == (html_to_markdown(html), "")
    assert await convert_page(html, "text") == ("Title\n\nA bold w\u00f6rd\n\n1", "")


async def test_nested_tables_are_converted_within_the_limit() -> None:
    text, note = await convert_page("<table><tr><td>" * 30_000 + "deep", "markdown")
    assert "deep" in text
    assert note == ""
    assert tidy_html("<table><tr><td>" * 50).count("<table>") == 3


def test_cells_after_a_dropped_table_are_kept() -> None:
    inner = "<table><tr><td>x</td></tr></table>"
    html = f"<table><tr><td>{inner.replace('x', inner.replace('x', inner))}</td><td>after</td></tr></table>"
    assert "<td>after</td></tr></table>" in tidy_html(html)


async def test_a_page_that_takes_too_long_is_refused_and_its_process_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ToolError, match="too complex to convert"):
        await convert_page("<p>x</p>", "text", seconds=0.0)
    tried: list[str] = []

    async def convert(page: bytes, wanted: str, *, seconds: float) -> str | None:
        tried.append(wanted)
        return "plain" if wanted == "text" else None

    monkeypatch.setattr(page_converter, "_convert", convert)
    assert await convert_page("<p>x</p>", "markdown") == (
        "plain",
        "the page is too complex for Markdown; this is its plain text",
    )
    assert tried == ["markdown", "text"]
