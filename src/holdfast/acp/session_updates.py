"""What an editor is told about a session: the changes of its view as updates of the protocol. Pure.

::

    translator = SessionTranslator(directory)
    translator.updates(fold)          # everything that the editor does not have yet
    fold.apply(event)
    translator.updates(fold)          # what this event added

The protocol can only add text. So a text that was replaced, as by a retry, begins a new message.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import assert_never

from holdfast.acp.tool_updates import JsonObject, call_fields, shell_fields
from holdfast.client.transcript_fold import TranscriptFold
from holdfast.client.view_values import (
    Block,
    CallBlock,
    NoticeBlock,
    PromptBlock,
    ShellBlock,
    SummaryBlock,
    TextBlock,
    ThinkingBlock,
    TurnEndBlock,
)
from holdfast.schema.messages import File
from holdfast.schema.runs import EndReason, Run
from holdfast.schema.sessions import Todo
from holdfast.schema.usage import Usage

_SAID_ENDS: dict[EndReason, str] = {
    "limit_steps": "The run reached its limit of steps.",
    "limit_time": "The run reached its limit of time.",
    "limit_cost": "The run reached its limit of cost.",
    "loop": "The run was ended because it repeated the same calls.",
    "max_tokens": "The answer was cut off at the model's limit.",
    "refused": "The model refused to answer.",
    "server_stop": "The run was interrupted, because the server was stopped.",
    "server_crash": "The run was interrupted, because the server ended.",
}


class SessionTranslator:
    """Knows what the editor has been sent of one session."""

    def __init__(self, directory: str) -> None:
        self._directory = directory
        self._texts: dict[str, str] = {}
        """The text that was sent, by block."""
        self._restarts: dict[str, int] = {}
        self._calls: dict[str, JsonObject] = {}
        """The fields that were sent, by call."""
        self._terminals: dict[str, str] = {}
        """Terminals of the editor, by the call whose command runs there."""
        self._done: set[str] = set()
        """Blocks that are sent once."""
        self._todos: tuple[Todo, ...] = ()
        self._last_message = ""
        """The message of the last chunk, if nothing else was sent since."""

    def updates(self, fold: TranscriptFold, *, own_runs: Collection[str] = ()) -> list[JsonObject]:
        """The updates for what changed. The prompts of ``own_runs`` were typed in this editor, which shows them."""
        return self._translate((b for entry in fold.take_changed() for b in entry.blocks), fold, own_runs)

    def replay(self, fold: TranscriptFold) -> list[JsonObject]:
        """The updates for the whole session, as it is now."""
        fold.take_changed()
        return self._translate((block for entry in fold.entries for block in entry.blocks), fold, ())

    def skip(self, fold: TranscriptFold) -> None:
        """Go on after what there is now: the editor has it."""
        self.replay(fold)
        self._last_message = ""

    def _translate(self, blocks: Iterable[Block], fold: TranscriptFold, own_runs: Collection[str]) -> list[JsonObject]:
        found: list[JsonObject] = []
        for block in blocks:
            found += self._block(block, fold, own_runs)
        if fold.todos != self._todos:
            self._todos = fold.todos
            found.append(plan_update(fold.todos))
            self._last_message = ""
        return found

    def _block(self, block: Block, fold: TranscriptFold, own_runs: Collection[str]) -> list[JsonObject]:
        match block:
            case PromptBlock():
                return self._prompt(block, shown=block.run_id in own_runs)
            case TextBlock():
                return self._chunk("agent_message_chunk", block.id, block.text)
            case ThinkingBlock():
                return self._chunk("agent_thought_chunk", block.id, block.text)
            case CallBlock():
                if not block.call_id:
                    return []
                result = fold.results.get(block.call_id)
                files: tuple[File, ...] = result.files if result else ()
                return self._call(block.call_id, call_fields(block, files, directory=self._directory))
            case ShellBlock():
                return self._call(block.id, shell_fields(block))
            case SummaryBlock():
                return self._once(block.id, "agent_thought_chunk", f"The conversation was compacted.\n\n{block.text}")
            case NoticeBlock():
                return self._once(block.id, "agent_message_chunk", block.text)
            case TurnEndBlock():
                text = "" if block.run_id in own_runs and block.state == "failed" else end_text(block)
                return self._once(block.id, "agent_message_chunk", text)
            case _ as never:
                assert_never(never)

    def show_terminal(self, call_id: str, terminal_id: str) -> list[JsonObject]:
        """The command of a call runs in a terminal of the editor, which shows its output from now on."""
        self._terminals[call_id] = terminal_id
        fields = self._calls.get(call_id)
        return [] if fields is None else self._call(call_id, fields)

    def _prompt(self, block: PromptBlock, *, shown: bool) -> list[JsonObject]:
        if block.id in self._done:
            return []
        self._done.add(block.id)
        self._last_message = ""
        if shown:
            return []
        names = "".join(f"\n[{file.name}]" for file in block.attachments)
        return [_text_chunk("user_message_chunk", (block.text + names).strip() or " ", block.id)]

    def _once(self, block_id: str, kind: str, text: str) -> list[JsonObject]:
        if block_id in self._done:
            return []
        self._done.add(block_id)
        return self._chunk(kind, block_id, text)

    def _chunk(self, kind: str, block_id: str, text: str) -> list[JsonObject]:
        sent = self._texts.get(block_id, "")
        if sent.startswith(text):  # nothing new; or less, which cannot be taken back
            return []
        if text.startswith(sent):
            added = text[len(sent) :]
        else:
            self._restarts[block_id] = self._restarts.get(block_id, 0) + 1
            added = text
        self._texts[block_id] = text
        message_id = f"{block_id}{'r' * self._restarts.get(block_id, 0)}"
        parted = self._last_message.startswith(kind) and self._last_message != f"{kind} {message_id}"
        self._last_message = f"{kind} {message_id}"
        return [_text_chunk(kind, f"\n\n{added}" if parted else added, message_id)]

    def _call(self, call_id: str, fields: JsonObject) -> list[JsonObject]:
        sent = self._calls.get(call_id)
        if (terminal := self._terminals.get(call_id)) is not None:
            fields = {**fields, "content": [{"type": "terminal", "terminalId": terminal}]}
        if sent == fields:
            return []
        self._calls[call_id] = fields
        self._last_message = ""
        if sent is None:
            return [{"sessionUpdate": "tool_call", "toolCallId": call_id, **fields}]
        changed = {name: value for name, value in fields.items() if sent.get(name) != value}
        return [{"sessionUpdate": "tool_call_update", "toolCallId": call_id, **changed}]


def plan_update(todos: tuple[Todo, ...]) -> JsonObject:
    entries = [{"content": todo.text, "priority": "medium", "status": todo.status} for todo in todos]
    return {"sessionUpdate": "plan", "entries": entries}


def usage_update(*, used: int, size: int, cost: float) -> JsonObject:
    """How full the context is, and what the session has cost."""
    found: JsonObject = {"sessionUpdate": "usage_update", "used": used, "size": max(size, used)}
    return {**found, "cost": {"amount": cost, "currency": "USD"}} if cost else found


def notice(text: str, *, message_id: str) -> JsonObject:
    """A message of ours between those of the model."""
    return _text_chunk("agent_message_chunk", text, message_id)


def end_text(end: TurnEndBlock) -> str:
    """What is said about the end of a run; empty if it completed."""
    if end.state == "completed" or end.state == "cancelled":
        return ""
    said = _SAID_ENDS.get(end.reason) if end.reason else None
    return said or f"The run {end.state}: {end.error or end.reason or 'no reason is known'}"


def stop_reason(run: Run) -> str | None:
    """The protocol's reason for the end of a run; ``None`` if it is an error."""
    if run.state == "cancelled":
        return "cancelled"
    match run.reason:
        case "max_tokens":
            return "max_tokens"
        case "limit_steps" | "limit_time" | "limit_cost" | "loop":
            return "max_turn_requests"
        case "refused":
            return "refusal"
    return "end_turn" if run.state == "completed" else None


def usage_of(usage: Usage) -> JsonObject:
    """The tokens of a run."""
    return {
        "totalTokens": usage.context,
        "inputTokens": usage.input,
        "outputTokens": usage.output,
        "cachedReadTokens": usage.cache_read,
        "cachedWriteTokens": usage.cache_write,
    }


def _text_chunk(kind: str, text: str, message_id: str) -> JsonObject:
    return {"sessionUpdate": kind, "content": {"type": "text", "text": text}, "messageId": message_id}
