"""Session titles from the small model, made in the background. If that fails, the first words of the prompt remain."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import aclosing
from datetime import datetime

from msgspec.structs import replace

from holdfast.agent.conversation import first_words
from holdfast.agent.message_builder import MessageBuilder
from holdfast.agent.prompts import read_prompt
from holdfast.errors import HoldfastError
from holdfast.models.pricing import add_cost
from holdfast.models.protocol import Model, ModelRequest
from holdfast.schema.events import SessionUpdated
from holdfast.schema.messages import Message, Text, text_of
from holdfast.schema.usage import Usage
from holdfast.store import Batch, Store
from holdfast.store.writes import AddUsage, UpdateSession

_TITLE_PROMPT = read_prompt("session_title")
_MAX_PROMPT_CHARACTERS = 2_000
_MAX_TITLE_CHARACTERS = 80
_MAX_OUTPUT_TOKENS = 200
_TIMEOUT_SECONDS = 30.0

_log = logging.getLogger(__name__)


class SessionTitles:
    """The title requests of one workspace. Closing it cancels them."""

    def __init__(self, store: Store, *, now: Callable[[], str]) -> None:
        self._store = store
        self._now = now
        self._tasks: set[asyncio.Task[None]] = set()

    def using(self, model: Model) -> RunTitler:
        return RunTitler(self, model)

    def suggest(self, session_id: str, prompt: str, model: Model) -> None:
        task = asyncio.create_task(self._suggest(session_id, prompt, model), name=f"title:{session_id}")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    @property
    def is_busy(self) -> bool:
        return bool(self._tasks)

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _suggest(self, session_id: str, prompt: str, model: Model) -> None:
        try:
            async with asyncio.timeout(_TIMEOUT_SECONDS):
                title, usage = await _request_title(model, session_id, prompt)
                await self._store_title(session_id, title, model, usage, replaces=first_words(prompt))
        except (HoldfastError, TimeoutError) as error:
            _log.info("session %s keeps its first words as its title: %s", session_id, error)

    async def _store_title(self, session_id: str, title: str, model: Model, usage: Usage, *, replaces: str) -> None:
        """Store the title, unless the user changed it meanwhile. The usage is counted in any case."""
        now = self._now()
        day = datetime.fromisoformat(now).date().isoformat()
        spent = AddUsage(session_id=session_id, day=day, model=model.info.name, usage=add_cost(usage, model.info.price))
        session = await self._store.session(session_id)
        if not title or session.title != replaces:
            await self._store.commit(Batch((spent,)))
            return
        renamed = replace(session, title=title, updated_at=now)
        update = UpdateSession(session_id=session_id, title=title, updated_at=now)
        await self._store.commit(Batch((update, spent), (SessionUpdated(now, session_id, renamed),)))


class RunTitler:
    """The `Titler` of one run: asks the small model that goes with the run's model."""

    def __init__(self, titles: SessionTitles, model: Model) -> None:
        self._titles = titles
        self._model = model

    def suggest(self, session_id: str, prompt: str) -> None:
        self._titles.suggest(session_id, prompt, self._model)


async def _request_title(model: Model, session_id: str, prompt: str) -> tuple[str, Usage]:
    message = Message("msg_title", session_id, "run_title", "user", 1, "", (Text(prompt[:_MAX_PROMPT_CHARACTERS]),))
    request = ModelRequest(system=(_TITLE_PROMPT,), messages=(message,), max_output=_MAX_OUTPUT_TOKENS)
    builder = MessageBuilder(lambda: "call_ignored")
    async with aclosing(model.stream(request)) as stream:
        async for delta in stream:
            builder.add(delta)
    answer = text_of(builder.parts()).strip()
    title = answer.splitlines()[0].strip(" \"'`#*.")[:_MAX_TITLE_CHARACTERS] if answer else ""
    return title, builder.usage or Usage()
