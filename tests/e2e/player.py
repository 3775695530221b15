"""A person at a client, in short words."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

from holdfast.client import AsyncClient
from holdfast.client.async_client import AsyncEventStream
from holdfast.schema.events import Delta, Event, MessageUpdated, RunFinished, Snapshot
from holdfast.schema.messages import Message
from holdfast.schema.runs import Accepted, Run, RunRequest
from holdfast.schema.sessions import Session

E = TypeVar("E")


class Player:
    """One client in one workspace."""

    def __init__(self, client: AsyncClient, directory: Path) -> None:
        self.client = client
        self.directory = directory

    async def session(self) -> Session:
        """A new one."""
        workspace = await self.client.open_workspace(str(self.directory))
        return await self.client.create_session(workspace.id)

    async def prompt(self, session_id: str, prompt: str, **fields: Any) -> Accepted:
        return await self.client.start_run(session_id, RunRequest(prompt=prompt, **fields))

    async def run(self, session_id: str, prompt: str, **fields: Any) -> Run:
        """To its end."""
        accepted = await self.prompt(session_id, prompt, **fields)
        return await self.client.wait_run(accepted.run.id)

    async def messages(self, session_id: str) -> list[Message]:
        return (await self.client.all_messages(session_id))[0]

    @asynccontextmanager
    async def watching(self, session_id: str) -> AsyncIterator["Watch"]:
        """The session's stream, from before anything that happens inside."""
        cursor = (await self.client.session(session_id)).cursor
        async with self.client.events(session_id=session_id, viewing=session_id, after=cursor) as stream:
            yield Watch(stream)

    async def leave(self) -> None:
        await self.client.aclose()


class Watch:
    def __init__(self, stream: AsyncEventStream) -> None:
        self.stream = stream
        self.seen: list[Event] = []

    async def until(self, kind: type[E], condition: Callable[[E], bool] = lambda event: True) -> E:
        """The next event of a kind."""
        async for event in self.stream:
            self.seen.append(event)
            if isinstance(event, kind) and condition(event):
                return event
        raise AssertionError("the stream has ended")

    async def until_text(self, text: str) -> None:
        """Until a message has exactly this text, by deltas, a snapshot or a stored part."""
        transcript = self.stream.transcript
        async for event in self.stream:
            self.seen.append(event)
            match event:
                case Delta(message_id=message_id) | Snapshot(message_id=message_id):
                    if transcript.text(message_id) == text:
                        return
                case MessageUpdated():
                    if transcript.text(event.message.id) == text:
                        return

    async def end_of(self, run_id: str) -> Run:
        return (await self.until(RunFinished, lambda event: event.run.id == run_id)).run
