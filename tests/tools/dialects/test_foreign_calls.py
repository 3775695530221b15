"""Each call of the corpus is understood, or refused with what to do instead; the snapshot has what the model reads."""

import json
import os
import re
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from holdfast.errors import HoldfastError, ToolError
from holdfast.schema.base import to_builtins
from holdfast.schema.messages import ToolCall
from holdfast.tools.process.command_process import CommandLauncher
from holdfast.tools.protocol import PreparedCall, ToolContext
from holdfast.tools.registry import OfferedTools, ToolRegistry
from holdfast.tools.view import ViewTool
from tests.support.file_sessions import FileWorkspace
from tests.support.snapshots import check_snapshot
from tests.support.tool_contexts import ToolWorkspace, settings_of
from tests.tools.dialects.foreign_calls import CALLS, FILES, ForeignCall

SNAPSHOT = Path(__file__).with_name("foreign_calls.txt")
_SETTINGS = settings_of(server={"sandbox": "off"}, web_search={"provider": "brave"})
_NOT_RUN = ("fetch", "download", "web_search")
"""Only planned, because they need the network."""
_TIME = re.compile(r"\d+\.\d s\]")


async def test_what_becomes_of_every_call(tmp_path: Path) -> None:
    registry = ToolRegistry(CommandLauncher())
    offered = registry.offer(_SETTINGS, mode="ask", interactive=True, depth=0, agent=None)
    sections = [
        "\n".join([f"## {call.agent}: {call.name}", *await told(offered, call, tmp_path / str(number))])
        for number, call in enumerate(CALLS, start=1)
    ]
    await registry.get("bash").launcher.close()  # type: ignore[attr-defined]
    check_snapshot(SNAPSHOT, "\n\n".join(sections) + "\n")


def test_the_corpus_is_large_enough() -> None:
    assert len(CALLS) >= 120
    assert len({call.agent for call in CALLS}) >= 10


async def told(offered: OfferedTools, call: ForeignCall, directory: Path) -> list[str]:
    """The call as it was sent, as it was understood, and what the model reads."""
    raw = call.arguments if isinstance(call.arguments, str) else None
    sent = raw if raw is not None else json.dumps(call.arguments, ensure_ascii=False)
    arguments: dict[str, Any] = {} if isinstance(call.arguments, str) else call.arguments
    lines = [f"sent: {sent}"]
    try:
        prepared = offered.prepare(ToolCall("call_1", call.name, arguments, malformed=raw))
    except ToolError as error:
        return [*lines, f"refused: {error.message}"]
    understood = {key: value for key, value in to_builtins(prepared.arguments).items() if value is not None}
    lines.append(f"means: {prepared.tool.name} {json.dumps(understood, ensure_ascii=False)}")
    lines += [f"note: {note}" for note in prepared.notes]
    return [*lines, "reads:", *(f"  | {line}" for line in (await result(prepared, directory)).splitlines())]


async def result(prepared: PreparedCall, directory: Path) -> str:
    """Run the call in a new workspace whose files the session has read."""
    files = FileWorkspace(directory / "files")
    for age, (name, content) in enumerate(FILES.items()):
        os.utime(files.put(name, content), (age, age))  # searches sort by it
    session = files.session()
    for name in FILES:
        await session.call(ViewTool(), path=name)
    tools = ToolWorkspace(directory / "tools")
    context: ToolContext = tools.context(settings=_SETTINGS, files=session.context().files)
    context = replace(context, workspace=files.directory)
    try:
        plan = await prepared.tool.plan(prepared.arguments, context)
        if prepared.tool.name in _NOT_RUN:
            return f"(planned: {plan.subject.title})"
        text = (await prepared.tool.run(prepared.arguments, context, plan)).text
    except HoldfastError as error:
        text = f"error: {error.message}"
    return _TIME.sub("0.0 s]", text).replace(str(files.directory), "/workspace")
