"""The model is asked while the row of its answer is committed (R14)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from types import SimpleNamespace
from typing import Any

import pytest

from holdfast.agent.message_builder import MessageBuilder
from holdfast.agent.model_answer import ModelAnswer
from holdfast.errors import StoreUnwritable
from holdfast.models.protocol import ModelDelta, ModelInfo, ModelRequest, Stop, TextDelta

REQUEST = ModelRequest(system=(), messages=(), tools=())


class WaitingModel:
    """Sends its deltas after `go`, and notes when it is asked and when its stream is closed."""

    def __init__(self) -> None:
        self.info = ModelInfo("offline/test")
        self.asked, self.go, self.closed = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelDelta, None]:
        self.asked.set()
        try:
            await self.go.wait()
            yield TextDelta("hello")
            yield Stop("end_turn")
        finally:
            self.closed.set()


class Sink:
    def __init__(self) -> None:
        self.attempt = 0
        self.builder = MessageBuilder(lambda: "call_1")
        self.added: list[ModelDelta] = []

    async def begin_attempt(self) -> None:
        self.attempt += 1

    def add(self, delta: ModelDelta) -> bool:
        self.added.append(delta)
        self.builder.add(delta)
        return False

    async def save(self) -> None:
        raise AssertionError("nothing asks for it")


def answer_of(model: WaitingModel) -> ModelAnswer:
    handle: Any = SimpleNamespace(progress=lambda *arguments: None)
    dependencies: Any = SimpleNamespace(model=model)
    return ModelAnswer(handle, dependencies)


@pytest.mark.promise("R14")
async def test_the_model_is_asked_before_the_commit_and_nothing_is_taken_before_it() -> None:
    model, sink, written = WaitingModel(), Sink(), asyncio.Event()
    opening = asyncio.create_task(_wait(written))
    streaming = asyncio.create_task(answer_of(model).stream_into(sink, REQUEST, opening=opening))
    await model.asked.wait()
    model.go.set()
    for _ in range(20):
        await asyncio.sleep(0)
    assert sink.added == []
    written.set()
    assert await streaming == Stop("end_turn")
    assert sink.added == [TextDelta("hello"), Stop("end_turn")]


@pytest.mark.promise("R14")
async def test_a_refused_commit_closes_the_request_also_if_the_model_sends_nothing() -> None:
    model, sink, refused = WaitingModel(), Sink(), asyncio.Event()

    async def refuse() -> None:
        await refused.wait()
        raise StoreUnwritable("the disk is full")

    streaming = asyncio.create_task(answer_of(model).stream_into(sink, REQUEST, opening=asyncio.create_task(refuse())))
    await model.asked.wait()
    refused.set()
    with pytest.raises(StoreUnwritable):
        await streaming
    assert model.closed.is_set()
    assert sink.added == []


@pytest.mark.promise("C7")
async def test_a_cancel_closes_the_request_and_waits_for_the_opening() -> None:
    model, sink = WaitingModel(), Sink()
    opening = asyncio.create_task(_wait(asyncio.Event()))
    streaming = asyncio.create_task(answer_of(model).stream_into(sink, REQUEST, opening=opening))
    await model.asked.wait()
    streaming.cancel()
    with pytest.raises(asyncio.CancelledError):
        await streaming
    assert model.closed.is_set()
    assert opening.done()


async def _wait(event: asyncio.Event) -> None:
    await event.wait()
