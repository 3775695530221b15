"""Converts pages in a process of their own, which can be killed: some pages take a converter minutes or gigabytes.

If Markdown takes too long, the page is converted to plain text, which takes time in proportion to its size.
"""

from __future__ import annotations

from holdfast.errors import ToolError
from holdfast.tools.process.limited_python import call_limited
from holdfast.tools.web.page_text import MAX_HTML_CHARS, PageFormat, html_to_markdown, html_to_text

SECONDS = 8.0


async def convert_page(html: str, wanted: PageFormat, *, seconds: float = SECONDS) -> tuple[str, str]:
    """Return the page in this format, and a note for the model, empty if all is well. Raises `ToolError`."""
    page = html[:MAX_HTML_CHARS].encode("utf-8", "replace")
    note = f"only the first {MAX_HTML_CHARS:,} characters were converted" if len(html) > MAX_HTML_CHARS else ""
    converted = await _convert(page, wanted, seconds=seconds)
    if converted is None and wanted == "markdown":
        note = "the page is too complex for Markdown; this is its plain text"
        converted = await _convert(page, "text", seconds=seconds)
    if converted is None:
        raise ToolError("the page is too complex to convert; fetch it with format 'html', or use download")
    return converted, note


async def _convert(page: bytes, wanted: PageFormat, *, seconds: float) -> str | None:
    """Return None if the process was killed or failed."""
    output = await call_limited("holdfast.tools.web.page_converter:convert_bytes", page, wanted, seconds=seconds)
    return None if output is None else output.decode("utf-8", "replace")


def convert_bytes(page: bytes, wanted: str) -> bytes:
    """Convert a page here and now."""
    html = page.decode("utf-8", "replace")
    text = html_to_markdown(html) if wanted == "markdown" else html_to_text(html)
    return text.encode("utf-8", "replace")
