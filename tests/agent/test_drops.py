"""A provider that cuts the connection after k bytes, for every k of an answer with calls in it, over real HTTP (R13).

The answer is asked for again: one end, the right text once, and each tool runs once.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from holdfast.config.settings import NetworkSettings
from holdfast.models.http_model import HttpModel
from holdfast.models.http_transport import HttpTransport
from holdfast.models.model_factory import load_wire
from holdfast.models.protocol import ModelInfo
from holdfast.models.stall_timeout import StallLimits
from holdfast.schema.events import RunFinished, RunRetrying
from holdfast.schema.messages import Finish, Reasoning, Text, ToolCall, ToolResult
from holdfast.testing import WIRES, Answer, Call, ReceivedRequest, Say, TestProvider, Think, WireName, text
from holdfast.testing.provider_wires import events
from tests.support.log_consistency import check_log_matches_tables
from tests.support.real_turns import TurnHarness, open_turns

ASKING = Answer(
    (
        Think("let me see"),
        Say("I will look – żółw 🐢."),
        Call("echo", {"word": "one"}, id="id-1"),
        Call("echo", {"word": "two"}, id="id-2"),
    )
)


def size_of(wire: WireName) -> int:
    return sum(len(event) for event in events(wire, ASKING, model="m") if isinstance(event, bytes))


class Dropper:
    """Answers the first request of a session up to k bytes, and every other one whole."""

    def __init__(self) -> None:
        self.k = 0
        self.requests = 0

    def __call__(self, received: ReceivedRequest) -> Answer:
        self.requests += 1
        if "echo one" in json.dumps(received.body):
            return text("all done")
        return replace(ASKING, drop_after=self.k) if self.requests == 1 else ASKING


@asynccontextmanager
async def dropping(directory: Path, wire: WireName) -> AsyncIterator[tuple[TurnHarness, Dropper]]:
    dropper, transport = Dropper(), HttpTransport(network=NetworkSettings())
    async with TestProvider(dropper) as provider:
        info = ModelInfo("test/m", reasoning=("high",))
        limits = StallLimits(120, 90)
        url = provider.url(wire)
        model = HttpModel(info, wire=load_wire(wire), base_url=url, transport=transport, limits=limits)
        async with open_turns(directory, model) as house:
            yield house, dropper
        await transport.aclose()


async def drop_after(house: TurnHarness, dropper: Dropper, k: int) -> bool:
    """One run whose first answer is cut after k bytes; whether it had to be asked again."""
    session_id = await house.session(f"ses_k{k}")
    house.tools["echo"].ran.clear()
    dropper.k, dropper.requests = k, 0
    run = await house.ended(await house.accept("go", session_id=session_id))
    assert (run.state, run.text, run.steps) == ("completed", "all done", 2)
    told = await house.events(session_id)
    assert sum(isinstance(event, RunFinished) for event in told) == 1
    retries = [event for event in told if isinstance(event, RunRetrying)]
    assert dropper.requests == 2 + len(retries)
    assert [event.cause for event in retries] in ([], ["network"])
    _, asked, answered, last = await house.messages(session_id)
    thoughts = [part.text for part in asked.parts if isinstance(part, Reasoning)]
    assert thoughts in (["let me see"], [])
    assert [part.text for part in asked.parts if isinstance(part, Text)] == ["I will look – żółw 🐢."]
    calls = [part for part in asked.parts if isinstance(part, ToolCall)]
    assert [call.arguments for call in calls] == [{"word": "one"}, {"word": "two"}]
    assert house.tools["echo"].ran == {call.id: 1 for call in calls}
    assert [part.text for part in answered.parts if isinstance(part, ToolResult)] == ["echo one", "echo two"]
    assert asked.parts[-1] == Finish("tool_use")
    assert last.parts == (Text("all done"), Finish("end_turn"))
    return bool(retries)


async def drop_at(directory: Path, wire: WireName, places: list[int]) -> list[int]:
    """Which of them had to be asked again."""
    again = []
    async with dropping(directory, wire) as (house, dropper):
        for k in places:
            try:
                if await drop_after(house, dropper, k):
                    again.append(k)
            except BaseException as error:
                error.add_note(f"{wire}: dropped after {k} bytes")
                raise
        await check_log_matches_tables(house.store)
    return again


@pytest.mark.promise("R7", "R13")
@pytest.mark.parametrize("wire", WIRES)
async def test_an_answer_that_is_cut_off_is_asked_for_again_and_no_tool_runs_twice(tmp_path: Path, wire: Any) -> None:
    size = size_of(wire)
    places = sorted({*range(0, size, 211), *range(size - 3, size + 2)})
    again = await drop_at(tmp_path, wire, places)
    assert len(again) > len(places) * 0.6
    assert size not in again


@pytest.mark.stress
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("wire", WIRES)
async def test_an_answer_that_is_cut_off_at_every_byte(tmp_path: Path, wire: Any) -> None:
    size = size_of(wire)
    again = await drop_at(tmp_path, wire, list(range(size + 1)))
    print(
        f"\n{wire}: cut after each of {size + 1} bytes, asked again {len(again)} times; whole from {max(again) + 1} on"
    )
