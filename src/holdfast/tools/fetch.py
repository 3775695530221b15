"""`fetch`: read a web page or document as text."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, ClassVar

import msgspec
from msgspec import Meta

from holdfast.config import Settings
from holdfast.errors import ToolError
from holdfast.schema.approvals import Effect, Subject
from holdfast.schema.base import repair_text
from holdfast.tools.protocol import ToolContext, ToolOutput, ToolPlan
from holdfast.tools.web.page_text import PageFormat, decode_page, html_to_markdown, html_to_text
from holdfast.tools.web.web_requests import WebClient

SECONDS = 30.0
MAX_BODY_BYTES = 5 << 20
ANSWER_LIMIT = 30_000
"""Characters of a page that the model gets; the whole text is in a file."""

_TEXT_TYPES = ("text/", "application/json", "application/xml", "application/javascript", "application/x-")
_TEXT_ENDINGS = ("+json", "+xml", "/yaml", "/toml", "/graphql", "/sql")


class FetchArguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    url: Annotated[str, Meta(description="An http or https URL.", min_length=1)]
    format: Annotated[PageFormat, Meta(description="The format to which HTML is converted.")] = "markdown"


class FetchTool:
    """`web` makes the client; tests pass their own."""

    name: ClassVar[str] = "fetch"
    description: ClassVar[str] = (
        "Read a web page or text document as Markdown, plain text or HTML. For other files use download."
    )
    arguments: ClassVar[type[Any]] = FetchArguments
    effect: ClassVar[Effect] = "network"
    parallel: ClassVar[bool] = True

    def __init__(self, *, web: Callable[[Settings], WebClient] = WebClient) -> None:
        self._web = web

    async def plan(self, arguments: FetchArguments, context: ToolContext) -> ToolPlan:
        return ToolPlan(Subject(tool=self.name, effect="network", title=arguments.url, url=arguments.url))

    async def run(self, arguments: FetchArguments, context: ToolContext, plan: ToolPlan) -> ToolOutput:
        async with self._web(context.settings).request(arguments.url, seconds=SECONDS) as response:
            if response.status >= 400:
                raise ToolError(f"{response.url} responded with {response.status} {response.reason}".rstrip())
            body, cut = await response.read(MAX_BODY_BYTES)
        if not _is_text(response.content_type, body):
            kind = response.content_type.partition(";")[0] or "unknown"
            raise ToolError(f"{response.url} is not text (its type is {kind}); use download to save it as a file")
        text = await asyncio.to_thread(_convert, body, response.content_type, arguments.format, cut=cut)
        text = context.redact(repair_text(text))
        notes = [f"[{response.url}]"]
        if cut:
            notes.append(f"[only the first {MAX_BODY_BYTES >> 20} MiB were read]")
        if len(text) > ANSWER_LIMIT:
            path = context.outputs / f"{context.call_id}.txt"
            await asyncio.to_thread(_store, path, text)
            notes.append(f"[the first {ANSWER_LIMIT:,} of {len(text):,} characters; the whole text is in {path}]")
            text = text[:ANSWER_LIMIT]
        display = {"url": response.url, "status": response.status, "bytes": len(body)}
        return ToolOutput(context.redact("\n".join(notes)) + "\n\n" + (text or "(empty)"), display=display)


def _is_text(content_type: str, body: bytes) -> bool:
    kind = content_type.partition(";")[0].strip().lower()
    if (
        b"\0" in body[:4_096]
        and not body.startswith((b"\xff\xfe", b"\xfe\xff"))
        and "utf-16" not in content_type.lower()
    ):
        return False
    return not kind or kind.startswith(_TEXT_TYPES) or kind.endswith(_TEXT_ENDINGS)


def _convert(body: bytes, content_type: str, wanted: PageFormat, *, cut: bool) -> str:
    text = decode_page(body, content_type, cut=cut)
    is_html = "html" in content_type.lower() or (
        not content_type and text.lstrip()[:15].lower().startswith(("<!doc", "<html"))
    )
    if not is_html or wanted == "html":
        return text
    return html_to_markdown(text) if wanted == "markdown" else html_to_text(text)


def _store(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    path.write_text(text, encoding="utf-8", errors="replace")
    path.chmod(0o600)
