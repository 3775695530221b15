"""What the turn of a prompt reads first, read while its other parts are made."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from holdfast.agent.system_prompt import PromptContext
from holdfast.schema.messages import Message
from holdfast.schema.runs import Run
from holdfast.store import Store
from holdfast.workspace.context_gatherer import DirectoryContextGatherer, DirectoryFacts

T = TypeVar("T")


class EarlyReads:
    """Begins to read the directory and the messages when it is made. Its owner closes it when the turn is over.

    It is the `ContextGatherer` of the turn. Each early read is used once, and not kept.
    """

    def __init__(
        self,
        gatherer: DirectoryContextGatherer,
        store: Store,
        run: Run,
        *,
        with_messages: bool,
        known_messages: tuple[Message, ...] | None = None,
    ) -> None:
        """``known_messages``: all messages of the session, if they need not be read."""
        self._gatherer = gatherer
        self._store = store
        self._run = run
        self._reading: set[asyncio.Task[Any]] = set()
        self._known_messages = known_messages
        self._messages: asyncio.Task[tuple[Message, ...]] | None = None
        if with_messages and known_messages is None:
            self._messages = self._begin(self._read_messages(), name=f"messages:{run.id}")
        self._files = self._begin(gatherer.read_files(), name=f"files:{run.id}")
        self._facts: asyncio.Task[DirectoryFacts] | None = self._files
        if gatherer.needs_git:
            self._facts = self._begin(gatherer.read_directory(self._files), name=f"directory:{run.id}")

    async def files_read(self) -> None:
        """Wait until the skills, commands and agents in files are read."""
        await self._finish(self._files)

    async def gather(self) -> PromptContext:
        facts, self._facts = self._facts, None
        return await self._gatherer.gather(None if facts is None else await self._finish(facts))

    async def messages(self) -> tuple[Message, ...]:
        """The messages of the session since its last summary."""
        known, self._known_messages = self._known_messages, None
        if known is not None:
            return known
        messages, self._messages = self._messages, None
        return await (self._read_messages() if messages is None else self._finish(messages))

    async def close(self) -> None:
        """End the reads that the turn did not wait for."""
        for task in self._reading:
            task.cancel()
        if self._reading:
            await asyncio.gather(*self._reading, return_exceptions=True)

    def _begin(self, work: Coroutine[Any, Any, T], *, name: str) -> asyncio.Task[T]:
        task = asyncio.create_task(work, name=name)
        self._reading.add(task)
        return task

    async def _finish(self, task: asyncio.Task[T]) -> T:
        try:
            return await task
        finally:
            self._reading.discard(task)

    async def _read_messages(self) -> tuple[Message, ...]:
        return await self._store.messages_since_summary(self._run.session_id)
