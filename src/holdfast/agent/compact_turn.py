"""The turn of a run that only compacts: what `/compact` does."""

from __future__ import annotations

import asyncio

from holdfast.agent.conversation import Conversation
from holdfast.agent.protocol import Ending, TurnHandle
from holdfast.agent.run_outcome import outcome_of, stopped
from holdfast.agent.summarizer import Summarizer
from holdfast.agent.turn_dependencies import TurnDependencies
from holdfast.errors import HoldfastError
from holdfast.schema.runs import Outcome


class CompactTurn:
    """Replaces the conversation so far by its summary, for the models; people keep seeing all of it."""

    def __init__(self, dependencies: TurnDependencies) -> None:
        self._dependencies = dependencies

    async def run(self, handle: TurnHandle) -> Ending:
        talk = Conversation(handle, self._dependencies)
        await talk.load()
        if talk.is_empty():
            return Ending(Outcome("completed", "end_turn", text="There is nothing to compact yet."))
        summarizer = Summarizer(handle, self._dependencies, talk)
        try:
            return Ending(Outcome("completed", "end_turn", text=await summarizer.run()))
        except asyncio.CancelledError:
            if handle.stopping is None:
                raise
            return Ending(stopped(handle.stopping), spent=summarizer.spent())
        except HoldfastError as error:
            return Ending(outcome_of(error), spent=summarizer.spent())
