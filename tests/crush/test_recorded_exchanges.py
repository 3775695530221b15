"""What the real client sent and got (`oracles/crush` records it), replayed against this server without the client."""

import json
from pathlib import Path

import pytest

from tests.crush.crush_wire import crush_wire
from tests.crush.exchange import FIXTURES, replay, scripted_provider


@pytest.mark.parametrize("name", ["crush_run", "crush_interface"])
async def test_the_recorded_client_gets_the_same_answers(home: Path, name: str) -> None:
    entries = json.loads((FIXTURES / f"{name}.json").read_text())
    assert any("event" in entry for entry in entries)
    async with crush_wire(home, scripted_provider()) as wire:
        assert await replay(entries, wire) == []
