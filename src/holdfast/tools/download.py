"""`download`: save a file from the web as a new file."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Annotated, Any, ClassVar

import msgspec
from msgspec import Meta

from holdfast.config import Settings
from holdfast.config.redaction import MARK
from holdfast.errors import ToolError
from holdfast.schema.approvals import Effect, Subject
from holdfast.tools.files.file_access import ABSENT, MAX_FILE_BYTES
from holdfast.tools.files.file_changes import (
    clean_text,
    hidden_paths,
    load_saved_file,
    make_draft,
    plan_unseen,
    redacted_errors,
    write_drafts,
)
from holdfast.tools.protocol import ToolContext, ToolOutput, ToolPlan
from holdfast.tools.web.web_requests import WebClient

SECONDS = 300.0


class DownloadArguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    url: Annotated[str, Meta(description="An http or https URL.", min_length=1)]
    path: Annotated[str, Meta(description="Path of the new file; it must not exist.", min_length=1)]


class DownloadTool:
    name: ClassVar[str] = "download"
    description: ClassVar[str] = "Download a file from the web and save it as a new file."
    arguments: ClassVar[type[Any]] = DownloadArguments
    effect: ClassVar[Effect] = "writes"
    parallel: ClassVar[bool] = True

    def __init__(self, *, web: Callable[[Settings], WebClient] = WebClient) -> None:
        self._web = web

    async def plan(self, arguments: DownloadArguments, context: ToolContext) -> ToolPlan:
        with redacted_errors(context):
            if MARK in arguments.url or MARK in arguments.path:
                raise ToolError(
                    f"the address or the path contains {MARK!r}, which stands for a secret that you cannot see"
                )
            if await hidden_paths([arguments.path], context):
                return await plan_unseen(self.name, [arguments.path], context, diff="", url=arguments.url)
            found = await load_saved_file(arguments.path, context)
            if found.data is not None:
                raise ToolError(f"{found.name!r} already exists; choose another path")
        subject = Subject(
            tool=self.name,
            effect="writes",
            title=clean_text(context, f"{arguments.url} → {found.name}"),
            cwd=str(context.workspace),
            paths=(str(found.path),),
            url=arguments.url,
        )
        return ToolPlan(subject, expected={str(found.path): ABSENT})

    async def run(self, arguments: DownloadArguments, context: ToolContext, plan: ToolPlan) -> ToolOutput:
        with redacted_errors(context):
            permits = partial(context.permits_url, self.name)
            async with self._web(context.settings).request(arguments.url, seconds=SECONDS, permits=permits) as response:
                if response.status >= 400:
                    raise ToolError(f"{response.url} responded with {response.status} {response.reason}".rstrip())
                body, cut = await response.read(MAX_FILE_BYTES)
            if cut:
                raise ToolError(
                    f"{response.url} is larger than the limit of {MAX_FILE_BYTES >> 20} MiB; nothing was written"
                )
            found = await load_saved_file(arguments.path, context)
            if found.data is not None and plan.expected.get(str(found.path)) != ABSENT:
                raise ToolError(f"{found.name!r} already exists; choose another path")
            await write_drafts([make_draft(found, body)], context, plan)
        text = f"saved {len(body):,} bytes from {response.url} as {found.name}"
        return ToolOutput(
            clean_text(context, text), display={"path": found.name, "url": response.url, "bytes": len(body)}
        )
