"""The text that a client reconstructs is exact, despite disconnects, lag, retries, pruning and crashes (E3)."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from holdfast.events import Hub
from holdfast.events.live_state import PartText
from holdfast.events.recent_events import RecentEvents
from holdfast.schema.events import MessageFinished, MessageUpdated
from holdfast.schema.messages import Finish, Part, Text
from holdfast.store import Batch, SqliteStore, open_store
from holdfast.store.writes import PutMessage
from tests.events.stream_readers import Reader
from tests.store.batches import AT, a_message, new_session, new_workspace
from tests.support.stress import StressShare

READERS = 3

_what = st.one_of(
    st.tuples(st.just("delta"), st.text(min_size=1, max_size=8)),
    st.tuples(st.just("delta"), st.text(min_size=1, max_size=8)),
    st.tuples(st.sampled_from(["whole", "attempt", "finish", "other", "prune", "crash"]), st.none()),
    st.tuples(st.just("read"), st.tuples(st.integers(0, READERS - 1), st.integers(1, 4))),
    st.tuples(st.just("catch up"), st.integers(0, READERS - 1)),
    st.tuples(st.just("cut"), st.integers(0, READERS - 1)),
)


class StreamScenario:
    """A turn that streams text, and clients that read it irregularly."""

    def __init__(self, store: SqliteStore, name: str, *, max_recent: int) -> None:
        self.store = store
        self.session_id = f"ses_{name}"
        self.max_recent = max_recent
        self.counter = 0
        self.texts: dict[str, str] = {}
        self.told: list[tuple[int, bool]] = []
        """Event numbers, and whether each is of this session."""

    async def begin(self) -> None:
        await self.store.commit(new_session(self.session_id))
        await self.store.commit(new_session(f"{self.session_id}_other"))
        self.new_hub()
        scopes: list[dict[str, str]] = [{}, {"session_id": self.session_id}, {"workspace_id": "wsp_1"}]
        self.readers = [Reader(self.hub, **scope) for scope in scopes]
        self.unbroken = [True] * READERS
        self.start = self.store.last_number
        self.new_message()

    def new_hub(self) -> None:
        self.hub = Hub(
            self.store,
            heartbeat_seconds=10.0,
            recent_events=RecentEvents(self.store.last_number, max_events=self.max_recent),
        )

    def new_message(self) -> None:
        self.counter += 1
        self.message_id = f"msg_{self.session_id}_{self.counter}"
        self.done: list[str] = []
        self.open = ""
        self.attempt = 1
        self.texts[self.message_id] = ""

    async def commit(self, *parts: Part, finish: bool = False, other: bool = False) -> None:
        session_id = f"{self.session_id}_other" if other else self.session_id
        message_id = f"{self.message_id}_other" if other else self.message_id
        message = a_message(message_id, *parts, session_id=session_id)
        kind = MessageFinished if finish else MessageUpdated
        batch = Batch((PutMessage(message),), (kind(at=AT, session_id=session_id, message=message),))
        committed = await self.store.commit(batch)
        self.told += [(number, not other) for number in committed.numbers]

    async def do(self, what: str, how: Any) -> None:
        match what:
            case "delta":
                self.hub.add_delta(self.session_id, self.message_id, len(self.done), text=how, attempt=self.attempt)
                self.open += how
            case "whole" if self.open:
                self.done.append(self.open)
                self.open = ""
                await self.commit(*map(Text, self.done))
            case "attempt":
                self.attempt += 1
                self.hub.start_attempt(self.session_id, self.message_id, self.attempt)
                had_parts, self.done, self.open = bool(self.done), [], ""
                if had_parts:
                    await self.commit()
            case "finish":
                await self.commit(*map(Text, [*self.done, self.open]), Finish("end_turn"), finish=True)
            case "other":
                for _ in range(3):
                    await self.commit(Text("x"), other=True)
            case "prune":
                await self.store.prune_events(before="2027-01-01T00:00:00.000Z")
            case "crash":
                await self.crash()
            case "read":
                await self.readers[how[0]].read(how[1])
            case "catch up":
                await self.check(how)
            case "cut":
                self.readers[how].cut()
        self.texts[self.message_id] = "".join([*self.done, self.open])
        if what == "finish":
            self.new_message()

    async def crash(self) -> None:
        """Lose what is not stored, and reconnect the clients to a new hub on the same log."""
        self.hub.close()
        self.new_hub()
        self.open = ""
        for reader in self.readers:
            reader.hub = self.hub
            reader.cut()

    async def check(self, number: int) -> None:
        """Check that a client that has read everything has exactly the stored and open text."""
        reader = self.readers[number]
        await reader.read()
        if "reset" in reader.order:
            reader.order.clear()
            self.unbroken[number] = False
            page = await self.store.messages(self.session_id, limit=1000)
            reader.transcript.load(page.items)
            reader.last_id = self.hub.cursor_at(page.at)
            reader.cut()
            await reader.read()
        shown = {message_id: reader.transcript.text(message_id) for message_id in self.texts}
        assert shown == self.texts

    async def end(self) -> None:
        for number, reader in enumerate(self.readers):
            await self.check(number)
            assert reader.numbers == sorted(set(reader.numbers))
            if self.unbroken[number]:
                mine = [n for n, own in self.told if own or "session_id" not in reader.scope]
                assert reader.numbers == mine
        self.hub.close()


@pytest.fixture(scope="module")
def ledger(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[asyncio.Runner, SqliteStore]]:
    """One store for all examples. Each example has its own sessions."""
    path: Path = tmp_path_factory.mktemp("exact") / "holdfast.db"

    async def opened() -> SqliteStore:
        store = await open_store(path)
        await store.commit(new_workspace())
        return store

    with asyncio.Runner() as runner:
        store = runner.run(opened())
        yield runner, store
        runner.run(store.close())


_names = iter(range(1 << 60))


async def _play(store: SqliteStore, steps: list[tuple[str, Any]], max_recent: int) -> None:
    scenario = StreamScenario(store, str(next(_names)), max_recent=max_recent)
    await scenario.begin()
    for what, how in steps:
        await scenario.do(what, how)
    await scenario.end()


@pytest.mark.promise("E2", "E3", "E4", "R13")
@settings(max_examples=120, suppress_health_check=[HealthCheck.too_slow])
@given(steps=st.lists(_what, max_size=40), max_recent=st.sampled_from([1, 3, 2048]))
def test_reconstructed_text_is_exact(
    ledger: tuple[asyncio.Runner, SqliteStore], steps: list[tuple[str, Any]], max_recent: int
) -> None:
    runner, store = ledger
    runner.run(_play(store, steps, max_recent))


@pytest.mark.stress(weight=2)
def test_reconstructed_text_is_exact_in_long_runs(
    ledger: tuple[asyncio.Runner, SqliteStore], share: StressShare
) -> None:
    runner, store = ledger
    steps = st.lists(_what, min_size=20, max_size=200)

    def play(example: tuple[list[tuple[str, Any]], int]) -> None:
        runner.run(_play(store, *example))
        share.count("steps", len(example[0]))

    share.examples(st.tuples(steps, st.sampled_from([1, 2, 3, 10, 2048])), play)


@given(pieces=st.lists(st.text(max_size=4), max_size=3000), data=st.data())
@settings(max_examples=40)
def test_a_part_text_is_sliced_exactly(pieces: list[str], data: st.DataObject) -> None:
    text = PartText()
    for piece in pieces:
        text.append(piece)
    whole = "".join(pieces)
    start = data.draw(st.integers(0, len(whole)))
    end = data.draw(st.integers(start, len(whole)))
    assert (text.slice(start, end), str(text), text.length) == (whole[start:end], whole, len(whole))
