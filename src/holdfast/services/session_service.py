"""What is done with a session outside of its runs: made, named, archived, forked, exported, looked through."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Literal

from msgspec.structs import replace

from holdfast.errors import Conflict, NotFound
from holdfast.schema.base import encode
from holdfast.schema.events import MessageCreated, SessionCreated, SessionUpdated
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
    public_message,
)
from holdfast.schema.sessions import FileChange, Session
from holdfast.store import Batch, FileSnapshot
from holdfast.store.writes import PutMessage, PutSession, UpdateSession
from holdfast.tools.files.file_access import ABSENT, hash_file
from holdfast.tools.files.file_access import display_path as shown_path
from holdfast.tools.files.file_changes import diff_contents
from holdfast.workspace.open_workspace import SharedParts
from holdfast.workspace.undo.undo_plan import effective_snapshots

_PAGE = 500


class SessionService:
    """Of all workspaces. Runs of a session go through its lane, not through here."""

    def __init__(self, shared: SharedParts) -> None:
        self._shared = shared

    async def create(self, workspace_id: str, *, title: str = "") -> Session:
        await self._shared.store.workspace(workspace_id)
        session = self._new(workspace_id, title=title)
        event = SessionCreated(session.created_at, session.id, session)
        await self._shared.store.commit(Batch((PutSession(session),), (event,)))
        return session

    async def change(self, session_id: str, *, title: str | None = None, archived: bool | None = None) -> Session:
        now = self._shared.now()
        session = await self._shared.store.session(session_id)
        changed = replace(
            session,
            title=session.title if title is None else title,
            archived=session.archived if archived is None else archived,
            updated_at=now,
        )
        write = UpdateSession(session_id=session_id, title=changed.title, archived=changed.archived, updated_at=now)
        await self._shared.store.commit(Batch((write,), (SessionUpdated(now, session_id, changed),)))
        return changed

    async def fork(self, session_id: str, *, message_id: str | None = None) -> Session:
        """A new session with the messages up to and including one (or all), in one commit. Files are not touched."""
        source = await self._shared.store.session(session_id)
        if message_id is None and source.busy:
            raise Conflict("the session is busy; name the message to fork from, or wait", code="session_busy")
        session = replace(self._new(source.workspace_id, title=f"{source.title} (fork)".strip()), forked_from=source.id)
        writes: list[PutSession | PutMessage] = [PutSession(session)]
        events: list[SessionCreated | MessageCreated] = [SessionCreated(session.created_at, session.id, session)]
        found = message_id is None
        async for message in self.messages(session_id):
            copy = replace(message, id=self._shared.ids.new("msg"), session_id=session.id, seq=0)
            writes.append(PutMessage(copy))
            events.append(MessageCreated(session.created_at, session.id, copy))
            if message.id == message_id:
                found = True
                break
        if not found:
            raise NotFound(f"message {message_id!r} is not in session {session_id!r}", code="message_not_found")
        await self._shared.store.commit(Batch(tuple(writes), tuple(events)))
        return session

    async def messages(self, session_id: str) -> AsyncIterator[Message]:
        """All of them, in order, page by page."""
        after: int | None = 0
        while after is not None:
            page = await self._shared.store.messages(session_id, limit=_PAGE, after=after)
            for message in page.items:
                yield message
            after = page.next

    async def changes(self, session_id: str) -> tuple[FileChange, ...]:
        """The files that the agent changed, with diffs; named from the workspace where they are in it."""
        session = await self._shared.store.session(session_id)
        workspace = await self._shared.store.workspace(session.workspace_id)
        records = await self._shared.store.snapshots(session_id)
        return await asyncio.to_thread(self._changes, records, Path(workspace.path))

    def _changes(self, records: tuple[FileSnapshot, ...], workspace: Path) -> tuple[FileChange, ...]:
        by_path: dict[str, list[FileSnapshot]] = {}
        for record in effective_snapshots(records):
            by_path.setdefault(record.path, []).append(record)
        found = (self._change(path, changes, workspace) for path, changes in by_path.items())
        return tuple(change for change in found if change is not None)

    def _change(self, path: str, records: list[FileSnapshot], workspace: Path) -> FileChange | None:
        first, last = records[0], records[-1]
        applied = [record for record in records if record.state == "applied"]
        state: Literal["applied", "undone", "changed_since"] = "applied" if applied else "undone"
        if first.before == last.after:
            return None
        if state == "applied" and hash_file(Path(path)) != (last.after or ABSENT):
            state = "changed_since"
        before, after = (self._shared.blobs.get(name) if name else None for name in (first.before, last.after))
        after = after if after is not None or last.after is None else _on_disk(path, last.after)
        shown = shown_path(Path(path), workspace)
        diff = diff_contents(shown, before, after).text if after is not None or last.after is None else ""
        change: Literal["created", "modified", "deleted"] = "modified"
        if first.before is None:
            change = "created"
        elif last.after is None:
            change = "deleted"
        return FileChange(shown, change, self._shared.redact(diff), state)

    async def export_markdown(self, session_id: str) -> str:
        session = await self._shared.store.session(session_id)
        blocks = [f"# {session.title or session.id}", f"{session.created_at}, session `{session.id}`"]
        async for message in self.messages(session_id):
            blocks += _markdown(message)
        return "\n\n".join(blocks) + "\n"

    async def export_messages(self, session_id: str) -> tuple[Message, ...]:
        return tuple([public_message(message) async for message in self.messages(session_id)])

    def _new(self, workspace_id: str, *, title: str) -> Session:
        now = self._shared.now()
        new_id = self._shared.ids.new("ses")
        return Session(id=new_id, workspace_id=workspace_id, title=title, created_at=now, updated_at=now)


def _on_disk(path: str, expected: str) -> bytes | None:
    """What the agent left is not kept when nothing came after it; it is the file itself, if nobody changed it."""
    file = Path(path)
    return file.read_bytes() if hash_file(file) == expected else None


def _markdown(message: Message) -> list[str]:
    """A message's parts as blocks; what a person would not miss is left out."""
    blocks = [f"## {message.role.capitalize()}" + (" (not sent)" if message.unsent else "")] if message.parts else []
    for part in message.parts:
        match part:
            case Text(text) | Summary(text) | Notice(text=text):
                blocks.append(text)
            case Reasoning(text=text):
                blocks.append("\n".join(f"> {line}" for line in text.splitlines()))
            case ToolCall():
                blocks.append(f"`{part.name}`\n{_fenced(encode(part.arguments).decode())}")
            case ToolResult() | Shell():
                said = part.text if isinstance(part, ToolResult) else f"$ {part.command}\n{part.output}"
                blocks.append(_fenced(said))
            case File():
                blocks.append(f"[{part.name}]" if part.text is None else f"{part.name}\n{_fenced(part.text)}")
            case Finish():
                if part.reason not in ("end_turn", "tool_use"):
                    blocks.append(f"*{part.reason}{': ' + part.detail if part.detail else ''}*")
            case Context():
                pass
            case _:
                blocks.append(f"*{part.tag}*")
    return blocks if len(blocks) > 1 else []


def _fenced(text: str) -> str:
    fence = "```"
    while fence in text:
        fence += "`"
    return f"{fence}\n{text}\n{fence}"
