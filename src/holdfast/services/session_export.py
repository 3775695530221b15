"""A whole session, read page by page: its messages, its runs, and its text as Markdown."""

from __future__ import annotations

from collections.abc import AsyncIterator

from holdfast.schema.base import encode
from holdfast.schema.messages import (
    Context,
    File,
    Finish,
    Message,
    Notice,
    Reasoning,
    Shell,
    Summary,
    Text,
    ToolCall,
    ToolResult,
)
from holdfast.schema.runs import Run
from holdfast.store import Store

_PAGE_SIZE = 500


async def read_messages(store: Store, session_id: str) -> AsyncIterator[Message]:
    """All messages in order."""
    after: int | None = 0
    while after is not None:
        page = await store.messages(session_id, limit=_PAGE_SIZE, after=after)
        for message in page.items:
            yield message
        after = page.next


async def read_runs(store: Store, session_id: str) -> tuple[Run, ...]:
    """All runs in the order of their acceptance."""
    newest_first: list[Run] = []
    before: int | None = None
    while True:
        page = await store.runs(session_id, limit=_PAGE_SIZE, before=before)
        newest_first += page.items
        if page.next is None:
            return tuple(reversed(newest_first))
        before = page.next


async def export_markdown(store: Store, session_id: str) -> str:
    session = await store.session(session_id)
    blocks = [f"# {session.title or session.id}", f"{session.created_at}, session `{session.id}`"]
    async for message in read_messages(store, session_id):
        blocks += _message_blocks(message)
    return "\n\n".join(blocks) + "\n"


def _message_blocks(message: Message) -> list[str]:
    """The parts of a message as blocks, without those that only concern the model."""
    blocks = [f"## {message.role.capitalize()}" + (" (not sent)" if message.unsent else "")] if message.parts else []
    for part in message.parts:
        match part:
            case Text(text, expanded):
                blocks += [text, _code_block(expanded)] if expanded else [text]
            case Summary(text) | Notice(text=text):
                blocks.append(text)
            case Reasoning(text=text):
                blocks.append("\n".join(f"> {line}" for line in text.splitlines()))
            case ToolCall():
                blocks.append(f"`{part.name}`\n{_code_block(encode(part.arguments).decode())}")
            case ToolResult():
                blocks.append(_code_block(part.text))
            case Shell():
                blocks.append(_code_block(f"$ {part.command}\n{part.output}"))
            case File():
                blocks.append(f"[{part.name}]" if part.text is None else f"{part.name}\n{_code_block(part.text)}")
            case Finish():
                if part.reason not in ("end_turn", "tool_use"):
                    blocks.append(f"*{part.reason}{': ' + part.detail if part.detail else ''}*")
            case Context():
                pass
            case _:
                blocks.append(f"*{part.tag}*")
    return blocks if len(blocks) > 1 else []


def _code_block(text: str) -> str:
    fence = "```"
    while fence in text:
        fence += "`"
    return f"{fence}\n{text}\n{fence}"
