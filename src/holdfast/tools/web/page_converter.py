"""Converts pages in a process of their own, which can be killed: some pages take a converter minutes or gigabytes.

The process gets the page on its standard input and has an empty environment. The kernel limits its time and memory, so
it ends even if the server dies. If Markdown takes too long, the page is converted to plain text, which takes time in
proportion to its size.
"""

from __future__ import annotations

import asyncio
import sys
from contextlib import suppress
from pathlib import Path

import holdfast
from holdfast.errors import ToolError
from holdfast.tools.web.page_text import MAX_HTML_CHARS, PageFormat, html_to_markdown, html_to_text

SECONDS = 8.0
_MEMORY_BYTES = 1 << 30


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
    root = str(Path(holdfast.__file__).parents[1])
    start = f"import sys; sys.path.append({root!r}); from holdfast.tools.web.page_converter import main; main()"
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-I",
        "-c",
        start,
        wanted,
        str(max(1, round(seconds))),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        env={},
        start_new_session=True,
    )
    try:
        async with asyncio.timeout(seconds):
            output, _ = await process.communicate(page)
    except TimeoutError:
        return None
    finally:
        if process.returncode is None:
            with suppress(ProcessLookupError):
                process.kill()
            await process.wait()
    return output.decode("utf-8", "replace") if process.returncode == 0 else None


def main() -> None:
    """Convert standard input to standard output. Arguments: the format, and the seconds of processor time."""
    import resource

    wanted, seconds = sys.argv[1], int(sys.argv[2])
    for limit, value in ((resource.RLIMIT_CPU, seconds), (resource.RLIMIT_AS, _MEMORY_BYTES)):
        with suppress(ValueError, OSError):  # a lower limit is already set, or the system has none
            resource.setrlimit(limit, (value, value))
    html = sys.stdin.buffer.read().decode("utf-8", "replace")
    text = html_to_markdown(html) if wanted == "markdown" else html_to_text(html)
    sys.stdout.buffer.write(text.encode("utf-8", "replace"))
