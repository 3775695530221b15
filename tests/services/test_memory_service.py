"""What is remembered is told to the model."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from holdfast.errors import BadRequest
from tests.support.provider_harness import bodies, open_provider_harness, said_to, system_of

MODEL = "test/claude-test"


async def test_every_session_is_told_and_a_running_one_with_its_next_prompt(tmp_path: Path) -> None:
    async with open_provider_harness(tmp_path) as (harness, provider):
        (harness.directory / "AGENTS.md").write_text("project rule")
        memory = harness.app.services.memory
        await memory.add(harness.workspace_id, "answer in German", scope="user")
        await memory.add(harness.workspace_id, "the tests need a database", scope="project")
        first = await harness.run("hello", model=MODEL)
        system = system_of(bodies(provider)[0])
        places = [system.index(words) for words in ("answer in German", "project rule", "the tests need a database")]
        assert places == sorted(places)
        await memory.add(harness.workspace_id, "port 5433", scope="project")
        await harness.run("again", model=MODEL, session_id=first.session_id)
        again = bodies(provider)[1]
        assert system_of(again) == system
        told = said_to(again)[-1]
        assert "- the tests need a database\n- port 5433" in told
        assert "answer in German" not in told
        assert not list(harness.directory.glob("**/*.md"))[1:], "nothing is written into the project"


async def test_entries_of_two_clients_at_once_are_both_kept_and_keys_are_refused(tmp_path: Path) -> None:
    config = (
        '[providers.keyed]\nwire = "openai-chat"\nbase_url = "http://127.0.0.1:9"\n'
        'api_key = "sk-very-secret-0123456789"\n'
    )
    async with open_provider_harness(tmp_path, config=config) as (harness, _):
        memory = harness.app.services.memory
        await asyncio.gather(
            *(memory.add(harness.workspace_id, f"entry {number}", scope="project") for number in range(10))
        )
        view = await memory.view(harness.workspace_id)
        assert sorted(entry.text for entry in view.items) == sorted(f"entry {number}" for number in range(10))
        left = await memory.remove(harness.workspace_id, 1, scope="project")
        assert [entry.number for entry in left.items] == list(range(1, 10))
        await harness.run("learn the keys", model=MODEL)
        with pytest.raises(BadRequest, match="contains a key"):
            await memory.add(harness.workspace_id, "use sk-very-secret-0123456789", scope="user")
