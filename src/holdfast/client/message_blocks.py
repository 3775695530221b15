"""The blocks that a message or the end of a run is shown as. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Protocol, assert_never

from holdfast.client.view_values import (
    AttachedFile,
    Block,
    CallBlock,
    CallState,
    NoticeBlock,
    PromptBlock,
    QueuedPrompt,
    ShellBlock,
    SummaryBlock,
    TextBlock,
    ThinkingBlock,
    TurnEndBlock,
)
from holdfast.schema.base import Unknown
from holdfast.schema.messages import (
    Context,
    File,
    Finish,
    Message,
    Notice,
    Part,
    Reasoning,
    Shell,
    Summary,
    Text,
    ToolCall,
    ToolResult,
    call_title,
    text_of,
)
from holdfast.schema.open_texts import OpenText
from holdfast.schema.runs import END_STATES, Run


class BlockSources(Protocol):
    """What the blocks of a message show besides the message."""

    @property
    def results(self) -> Mapping[str, ToolResult]:
        """By call."""

    @property
    def asks(self) -> Mapping[str, str]:
        """Ids of open approvals and questions, by call."""

    @property
    def runs(self) -> Mapping[str, Run]: ...

    def output(self, call_id: str) -> str | None: ...


def message_blocks(message: Message, open_parts: Mapping[int, OpenText], sources: BlockSources) -> tuple[Block, ...]:
    """The blocks of a message, in order. Messages with results of calls have none: their calls show them."""
    match message.role:
        case "user":
            return tuple(_user_blocks(message, open_parts, sources))
        case "assistant":
            return tuple(_assistant_blocks(message, open_parts, sources))
        case "tool":
            return ()
        case _ as never:
            assert_never(never)


def _user_blocks(message: Message, open_parts: Mapping[int, OpenText], sources: BlockSources) -> Iterator[Block]:
    run = sources.runs.get(message.run_id)
    files = tuple(_attached(part) for part in message.parts if isinstance(part, File))
    text = text_of(message.parts)
    if text or files:
        yield PromptBlock(
            id=message.id,
            run_id=message.run_id,
            message_id=message.id,
            text=text,
            attachments=files,
            client=run.client if run else "",
            steered=run is not None and run.host_run_id is not None,
            unsent=message.unsent,
        )
    for number, part in enumerate(message.parts):
        block_id = f"{message.id}.{number}"
        match part:
            case Shell():
                yield _shell_block(block_id, message, part, open_parts.get(number))
            case Summary():
                yield SummaryBlock(id=block_id, run_id=message.run_id, text=part.text)
            case Notice():
                yield NoticeBlock(id=block_id, run_id=message.run_id, code=part.code, text=part.text)
            case _:
                pass
    if not message.parts and run is not None and run.kind == "shell":  # the first event of a shell run has no parts
        command = run.arguments.get("command")
        shell = Shell(command if isinstance(command, str) else "")
        yield _shell_block(f"{message.id}.0", message, shell, open_parts.get(0))


def _shell_block(block_id: str, message: Message, part: Shell, live: OpenText | None) -> ShellBlock:
    return ShellBlock(
        id=block_id,
        run_id=message.run_id,
        command=part.command,
        output=part.output or (live.text if live is not None else ""),
        open=part.exit_code is None and not part.output,
        exit_code=part.exit_code,
    )


def _assistant_blocks(message: Message, open_parts: Mapping[int, OpenText], sources: BlockSources) -> Iterator[Block]:
    """A message that is read while it is written contains the text so far. The live text takes its place."""
    written = {number: live for number, live in open_parts.items() if live.of != "output"}
    for number, part in enumerate(message.parts):
        if number in written:
            continue
        if block := _stored_block(f"{message.id}.{number}", message.run_id, part, sources):
            yield block
    for number, live in sorted(written.items()):
        if block := _open_block(f"{message.id}.{number}", message.run_id, live):
            yield block


def _stored_block(block_id: str, run_id: str, part: Part, sources: BlockSources) -> Block | None:
    match part:
        case Text() if part.text.strip():
            return TextBlock(id=block_id, run_id=run_id, text=part.text)
        case Reasoning() if part.text.strip():
            return ThinkingBlock(id=block_id, run_id=run_id, text=part.text, duration_ms=milliseconds(part.duration))
        case ToolCall():
            return _call_block(block_id, run_id, part, sources)
        case Notice():
            return NoticeBlock(id=block_id, run_id=run_id, code=part.code, text=part.text)
        case File():
            return NoticeBlock(id=block_id, run_id=run_id, code="file", text=part.name)
        case Unknown():
            return NoticeBlock(id=block_id, run_id=run_id, code="unknown", text=part.tag)
        case Text() | Reasoning() | ToolResult() | Shell() | Summary() | Context() | Finish():
            return None
        case _ as never:
            assert_never(never)


def _open_block(block_id: str, run_id: str, live: OpenText) -> Block | None:
    match live.of:
        case "text":
            return TextBlock(id=block_id, run_id=run_id, text=live.text, open=True) if live.text.strip() else None
        case "reasoning":
            return ThinkingBlock(id=block_id, run_id=run_id, text=live.text, open=True)
        case "arguments":
            return CallBlock(
                id=block_id,
                run_id=run_id,
                call_id=live.call_id or "",
                name=live.name or "",
                state="writing",
                written=live.text,
            )
        case "output":
            return None
        case _ as never:
            assert_never(never)


def _call_block(block_id: str, run_id: str, call: ToolCall, sources: BlockSources) -> CallBlock:
    result = sources.results.get(call.id)
    ask_id = sources.asks.get(call.id) if result is None else None
    state: CallState = result.status if result else "waiting" if ask_id else "running"
    return CallBlock(
        id=block_id,
        run_id=run_id,
        call_id=call.id,
        name=_own_name(result) or call.name,
        state=state,
        title=call_title(call, result),
        arguments=call.arguments,
        written=call.malformed or "",
        output=result.text if result else sources.output(call.id) or "",
        display=result.display if result else {},
        images=tuple(_attached(file) for file in result.files) if result else (),
        duration_ms=milliseconds(result.duration) if result else None,
        ask_id=ask_id,
        child_session_id=call.child_session_id,
    )


def _own_name(result: ToolResult | None) -> str:
    """Our name of the tool, if the model called it by another one; empty otherwise."""
    name = result.display.get("tool") if result else None
    return name if isinstance(name, str) else ""


def turn_end_block(run: Run, *, model: str) -> TurnEndBlock:
    assert run.state in END_STATES
    return TurnEndBlock(
        id=f"{run.id}.end",
        run_id=run.id,
        kind=run.kind,
        state=run.state,  # type: ignore[arg-type]  # an end state, as asserted
        reason=run.reason,
        error=run.error.message if run.error else "",
        model=model or run.model or "",
        duration_ms=_between(run.started_at, run.finished_at),
        usage=run.usage,
        steps=run.steps,
        left_running=run.left_running,
    )


def queued_prompt(run_id: str, run: Run | None) -> QueuedPrompt:
    if run is None:
        return QueuedPrompt(run_id)
    return QueuedPrompt(
        run_id,
        prompt=run.prompt,
        kind=run.kind,
        delivery=run.delivery,
        client=run.client,
        attachments=tuple(_attached(file) for file in run.attachments),
    )


def milliseconds(seconds: float | None) -> int | None:
    return None if seconds is None else round(seconds * 1000)


def _between(start: str | None, end: str | None) -> int | None:
    """The milliseconds between two times of the protocol."""
    if not start or not end:
        return None
    try:
        return round((datetime.fromisoformat(end) - datetime.fromisoformat(start)).total_seconds() * 1000)
    except (ValueError, TypeError):  # a foreign server's time
        return None


def _attached(file: File) -> AttachedFile:
    return AttachedFile(file.name, file.media_type)
