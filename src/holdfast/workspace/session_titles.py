"""Titles, found by the small model in the background. A failure leaves the first words of the prompt."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import aclosing
from datetime import datetime

from msgspec.structs import replace

from holdfast.agent.conversation import first_words
from holdfast.agent.message_builder import MessageBuilder
from holdfast.errors import HoldfastError
from holdfast.models.pricing import priced
from holdfast.models.protocol import Model, ModelRequest
from holdfast.schema.events import SessionUpdated
from holdfast.schema.messages import Message, Text, text_of
from holdfast.schema.usage import Usage
from holdfast.store import Batch, Store
from holdfast.store.writes import AddUsage, UpdateSession

_ASK = (
    "Give this coding task a title of three to six words, in the task's language. Answer with the title alone: no "
    "quotes, no full stop, no explanation."
)
_MOST_PROMPT = 2_000
_MOST_TITLE = 80
_SECONDS = 30.0

_log = logging.getLogger(__name__)


class Titles:
    """Of one workspace, which waits for its tasks when it closes."""

    def __init__(self, store: Store, *, now: Callable[[], str]) -> None:
        self._store = store
        self._now = now
        self._tasks: set[asyncio.Task[None]] = set()

    def asking(self, model: Model) -> RunTitler:
        """For one run: the small model beside its own."""
        return RunTitler(self, model)

    def suggest(self, session_id: str, prompt: str, model: Model) -> None:
        task = asyncio.create_task(self._suggest(session_id, prompt, model), name=f"title:{session_id}")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    @property
    def is_busy(self) -> bool:
        """Whether a title is being looked for."""
        return bool(self._tasks)

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _suggest(self, session_id: str, prompt: str, model: Model) -> None:
        try:
            async with asyncio.timeout(_SECONDS):
                title, usage = await _ask(model, session_id, prompt)
                await self._store_title(session_id, title, model, usage, instead_of=first_words(prompt))
        except (HoldfastError, TimeoutError) as error:
            _log.info("session %s keeps its first words as title: %s", session_id, error)

    async def _store_title(self, session_id: str, title: str, model: Model, usage: Usage, *, instead_of: str) -> None:
        """What it cost is counted in any case; a title that a person gave meanwhile stays."""
        now = self._now()
        day = datetime.fromisoformat(now).date().isoformat()
        spent = AddUsage(session_id=session_id, day=day, model=model.info.name, usage=priced(usage, model.info.price))
        session = await self._store.session(session_id)
        if not title or session.title != instead_of:
            await self._store.commit(Batch((spent,)))
            return
        named = replace(session, title=title, updated_at=now)
        update = UpdateSession(session_id=session_id, title=title, updated_at=now)
        await self._store.commit(Batch((update, spent), (SessionUpdated(now, session_id, named),)))


class RunTitler:
    """Implements `Titler`."""

    def __init__(self, titles: Titles, model: Model) -> None:
        self._titles = titles
        self._model = model

    def suggest(self, session_id: str, prompt: str) -> None:
        self._titles.suggest(session_id, prompt, self._model)


async def _ask(model: Model, session_id: str, prompt: str) -> tuple[str, Usage]:
    message = Message("msg_title", session_id, "run_title", "user", 1, "", (Text(prompt[:_MOST_PROMPT]),))
    fold = MessageBuilder(lambda: "call_ignored")
    async with aclosing(model.stream(ModelRequest(system=(_ASK,), messages=(message,), max_output=200))) as stream:
        async for delta in stream:
            fold.add(delta)
    said = text_of(fold.parts()).strip()
    return (said.splitlines()[0].strip(" \"'`#*.")[:_MOST_TITLE] if said else ""), fold.usage or Usage()
