"""The tools of clients, as the agent uses them in a run (see `client_calls`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, cast

from holdfast.errors import ToolError
from holdfast.extend.client_calls import ClientCalls
from holdfast.schema.approvals import Effect, Subject
from holdfast.schema.base import encode
from holdfast.schema.client_tools import ClientTool
from holdfast.tools.long_output import shorten_output
from holdfast.tools.protocol import Tool, ToolContext, ToolOutput, ToolPlan

_MAX_TITLE = 300


class ClientRunTools:
    """The tools of clients for one run. Those that are attached while it runs join at its next step."""

    def __init__(self, calls: ClientCalls, *, root_session_id: str) -> None:
        self._calls = calls
        self._root_session_id = root_session_id
        self._joined: set[str] = set()

    def join(self) -> Sequence[Tool[Any]]:
        """Return the tools that were attached since the last call."""
        tools: list[Any] = []
        for attached in self._calls.attached(self._root_session_id):
            for tool in attached.tools:
                if tool.for_model and tool.name not in self._joined:
                    self._joined.add(tool.name)
                    tools.append(ClientToolAdapter(self._calls, tool, root_session_id=self._root_session_id))
        return cast("Sequence[Tool[Any]]", tools)


class ClientToolAdapter:
    """A client's tool, as the agent uses it."""

    arguments: ClassVar[type[Any]] = dict

    def __init__(self, calls: ClientCalls, tool: ClientTool, *, root_session_id: str) -> None:
        self._calls = calls
        self._root_session_id = root_session_id
        self.name = tool.name
        self.description = tool.description
        self.parameters = {"type": "object", "properties": {}, **tool.parameters}
        self.effect: Effect = tool.effect
        self.parallel = tool.parallel

    async def plan(self, arguments: dict[str, Any], context: ToolContext) -> ToolPlan:
        """Plan with the tool as it is attached now: another program may have attached it again."""
        now = self._calls.find(self._root_session_id, self.name)
        effect = self.effect if now is None else now.effect
        title = _title(self.name, arguments)
        return ToolPlan(Subject(tool=self.name, effect=effect, title=title), display={"arguments": arguments})

    async def run(self, arguments: dict[str, Any], context: ToolContext, plan: ToolPlan) -> ToolOutput:
        now = self._calls.find(self._root_session_id, self.name)
        if now is not None and now.effect != plan.subject.effect:
            raise ToolError(f"the tool {self.name!r} was changed after the approval; call it again")
        result = await self._calls.call(self.name, arguments, root_session_id=self._root_session_id, context=context)
        text, path = await shorten_output(result.text, context)
        files = result.files if context.can_see_images else ()
        return ToolOutput(text, status=result.status, files=files, output_path=path)


def _title(name: str, arguments: dict[str, Any]) -> str:
    whole = f"{name} {encode(arguments).decode()}" if arguments else name
    return whole if len(whole) <= _MAX_TITLE else f"{whole[:_MAX_TITLE]}…"
