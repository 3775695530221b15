"""`fetch`: read a web page or document as text."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Annotated, Any, ClassVar

import msgspec
from msgspec import Meta

from holdfast.config import Settings
from holdfast.errors import ToolError
from holdfast.schema.approvals import Effect, Subject
from holdfast.schema.base import repair_text
from holdfast.tools.long_output import ANSWER_LIMIT, store_output
from holdfast.tools.protocol import ToolContext, ToolOutput, ToolPlan
from holdfast.tools.web.page_converter import convert_page
from holdfast.tools.web.page_text import PageFormat, decode_page
from holdfast.tools.web.web_requests import WebClient

SECONDS = 30.0
MAX_BODY_BYTES = 5 << 20

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
        permits = partial(context.permits_url, self.name)
        async with self._web(context.settings).request(arguments.url, seconds=SECONDS, permits=permits) as response:
            if response.status >= 400:
                raise ToolError(f"{response.url} responded with {response.status} {response.reason}".rstrip())
            body, cut = await response.read(MAX_BODY_BYTES)
        if not _is_text(response.content_type, body):
            kind = response.content_type.partition(";")[0] or "unknown"
            raise ToolError(f"{response.url} is not text (its type is {kind}); use download to save it as a file")
        page = await asyncio.to_thread(decode_page, body, response.content_type, cut=cut)
        notes = [f"[{response.url}]"]
        if arguments.format == "html" or not _is_html(response.content_type, page):
            text = page
        else:
            text, note = await convert_page(page, arguments.format)
            notes += [f"[{note}]"] if note else []
        text = context.redact(repair_text(text))
        if cut:
            notes.append(f"[only the first {MAX_BODY_BYTES >> 20} MiB were read]")
        if len(text) > ANSWER_LIMIT:
            path = context.outputs / f"{context.call_id}.txt"
            await asyncio.to_thread(store_output, path, text)
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


def _is_html(content_type: str, text: str) -> bool:
    return "html" in content_type.lower() or (
        not content_type and text.lstrip()[:15].lower().startswith(("<!doc", "<html"))
    )
