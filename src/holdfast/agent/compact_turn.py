"""The turn of a run that only compacts: what `/compact` does."""

from __future__ import annotations

import asyncio

from holdfast.agent.conversation import Conversation
from holdfast.agent.failures import outcome_of, stopped
from holdfast.agent.kit import Kit
from holdfast.agent.protocol import Ending, Seat
from holdfast.agent.summary import Summarizer
from holdfast.errors import HoldfastError
from holdfast.schema.runs import Outcome


class CompactTurn:
    """Replaces the conversation so far by its summary, for the models; people keep seeing all of it."""

    def __init__(self, kit: Kit) -> None:
        self._kit = kit

    async def run(self, seat: Seat) -> Ending:
        talk = Conversation(seat, self._kit)
        await talk.load()
        if talk.is_empty():
            return Ending(Outcome("completed", "end_turn", text="There is nothing to compact yet."))
        summarizer = Summarizer(seat, self._kit, talk)
        try:
            return Ending(Outcome("completed", "end_turn", text=await summarizer.run()))
        except asyncio.CancelledError:
            if seat.stopping is None:
                raise
            return Ending(stopped(seat.stopping), spent=summarizer.spent())
        except HoldfastError as error:
            return Ending(outcome_of(error), spent=summarizer.spent())
