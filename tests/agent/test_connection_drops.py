"""A provider closes the connection after k bytes of an answer with calls, over real HTTP (R13).

The request is retried: the run has one end, the text is stored once, and each tool runs once.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterable
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
from tests.support.stress import StressShare

ANSWER = Answer(
    (
        Think("let me see"),
        Say("I will look – żółw 🐢."),
        Call("echo", {"word": "one"}, id="id-1"),
        Call("echo", {"word": "two"}, id="id-2"),
    )
)


def size_of(wire: WireName) -> int:
    return sum(len(event) for event in events(wire, ANSWER, model="m") if isinstance(event, bytes))


class DroppingResponder:
    """Closes the connection after k bytes of the first answer of a session, and sends all others completely."""

    def __init__(self) -> None:
        self.k = 0
        self.requests = 0

    def __call__(self, received: ReceivedRequest) -> Answer:
        self.requests += 1
        if "echo one" in json.dumps(received.body):
            return text("all done")
        return replace(ANSWER, drop_after=self.k) if self.requests == 1 else ANSWER


@asynccontextmanager
async def dropping(directory: Path, wire: WireName) -> AsyncIterator[tuple[TurnHarness, DroppingResponder]]:
    responder, transport = DroppingResponder(), HttpTransport(network=NetworkSettings())
    async with TestProvider(responder) as provider:
        info = ModelInfo("test/m", reasoning=("high",))
        limits = StallLimits(120, 90)
        url = provider.url(wire)
        model = HttpModel(info, wire=load_wire(wire), base_url=url, transport=transport, limits=limits)
        async with open_turns(directory, model) as harness:
            yield harness, responder
        await transport.aclose()


async def drop_after(harness: TurnHarness, responder: DroppingResponder, k: int) -> bool:
    """Run a prompt whose first answer is cut after k bytes. Returns whether the request was retried."""
    session_id = await harness.session(f"ses_k{k}")
    harness.tools["echo"].ran.clear()
    responder.k, responder.requests = k, 0
    run = await harness.ended(await harness.accept("go", session_id=session_id))
    assert (run.state, run.text, run.steps) == ("completed", "all done", 2)
    logged = await harness.events(session_id)
    assert sum(isinstance(event, RunFinished) for event in logged) == 1
    retries = [event for event in logged if isinstance(event, RunRetrying)]
    assert responder.requests == 2 + len(retries)
    assert [event.cause for event in retries] in ([], ["network"])
    _, asked, answered, last = await harness.messages(session_id)
    reasoning = [part.text for part in asked.parts if isinstance(part, Reasoning)]
    assert reasoning in (["let me see"], [])
    assert [part.text for part in asked.parts if isinstance(part, Text)] == ["I will look – żółw 🐢."]
    calls = [part for part in asked.parts if isinstance(part, ToolCall)]
    assert [call.arguments for call in calls] == [{"word": "one"}, {"word": "two"}]
    assert harness.tools["echo"].ran == {call.id: 1 for call in calls}
    assert [part.text for part in answered.parts if isinstance(part, ToolResult)] == ["echo one", "echo two"]
    assert asked.parts[-1] == Finish("tool_use")
    assert last.parts == (Text("all done"), Finish("end_turn"))
    return bool(retries)


async def drop_at(directory: Path, wire: WireName, places: Iterable[int]) -> list[int]:
    """Return the places where the request was retried."""
    retried = []
    async with dropping(directory, wire) as (harness, responder):
        for k in places:
            try:
                if await drop_after(harness, responder, k):
                    retried.append(k)
            except BaseException as error:
                error.add_note(f"{wire}: dropped after {k} bytes")
                raise
        await check_log_matches_tables(harness.store)
    return retried


@pytest.mark.promise("R7", "R13")
@pytest.mark.parametrize("wire", WIRES)
async def test_a_dropped_answer_is_requested_again_and_no_tool_runs_twice(tmp_path: Path, wire: Any) -> None:
    size = size_of(wire)
    places = sorted({*range(0, size, 211), *range(size - 3, size + 2)})
    retried = await drop_at(tmp_path, wire, places)
    assert len(retried) > len(places) * 0.6
    assert size not in retried


@pytest.mark.stress(weight=2.5)
@pytest.mark.parametrize("wire", WIRES)
async def test_an_answer_dropped_at_every_byte(tmp_path: Path, wire: Any, share: StressShare) -> None:
    retried = await drop_at(tmp_path, wire, share.sample(range(size_of(wire) + 1), what="bytes"))
    share.count("retries", len(retried))
