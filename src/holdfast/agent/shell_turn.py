"""The turn of a shell run: runs the user's own command like the `bash` tool, without approval, and records it."""

from __future__ import annotations

from msgspec.structs import replace

from holdfast.agent.protocol import Ending, Subagent, TurnHandle, new_message
from holdfast.agent.run_outcome import stopped_outcome
from holdfast.agent.turn_dependencies import ToolContexts
from holdfast.schema.events import MessageCreated
from holdfast.schema.messages import Shell, ToolCall
from holdfast.schema.runs import Outcome
from holdfast.store.writes import PutMessage
from holdfast.tools.bash import BashArguments
from holdfast.tools.protocol import Tool


class ShellTurn:
    """Stores the command and its output as a message. The model sees it with the next prompt."""

    def __init__(self, tool_contexts: ToolContexts, bash: Tool[BashArguments], command: str) -> None:
        self._tool_contexts = tool_contexts
        self._bash = bash
        self._command = command

    async def run(self, handle: TurnHandle) -> Ending:
        message = new_message(handle, "user", (Shell(self._command),))
        created = MessageCreated(at=handle.now(), session_id=message.session_id, message=replace(message, parts=()))
        await handle.commit([PutMessage(message)], [created])
        handle.progress("tool", f"bash: {self._command}")
        call = ToolCall(id=handle.new_id("call"), name="bash", arguments={"command": self._command})
        context = self._tool_contexts.context(
            handle,
            call,
            emit=lambda text: handle.delta(message.id, 0, text=text, of="output", call_id=call.id, name="bash"),
            progress=lambda phase: handle.progress(phase, self._command),
            on_subagent=_reject_subagent,
        )
        arguments = BashArguments(self._command)
        output = await self._bash.run(arguments, context, await self._bash.plan(arguments, context))
        handle.report(killed=output.killed, left_running=output.left_running)
        shell = Shell(self._command, self._tool_contexts.redact(output.text), output.display.get("exit_code"))
        outcome = Outcome("completed", "end_turn") if handle.stopping is None else stopped_outcome(handle.stopping)
        return Ending(
            replace(outcome, text=shell.output, message_id=message.id), messages=(replace(message, parts=(shell,)),)
        )


async def _reject_subagent(subagent: Subagent) -> None:
    raise AssertionError(f"a shell run started a sub-agent: {subagent.run_id}")
