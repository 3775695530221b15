"""In a run of 400 steps a late step costs as much as an early one, and only the conversation grows."""

from __future__ import annotations

import gc
import sys
import threading
import tracemalloc
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import holdfast
from holdfast.events import Hub
from holdfast.events.recent_events import RecentEvents
from holdfast.ids import Ids
from holdfast.models.http_model import HttpModel
from holdfast.models.model_factory import load_wire
from holdfast.models.protocol import ModelInfo
from holdfast.models.stall_timeout import StallLimits
from holdfast.runs import Engine
from holdfast.schema.base import encode
from holdfast.store import Batch, Committed, Store, open_store
from holdfast.testing import WIRES, Answer, Call, Say, WireName
from holdfast.testing.provider_wires import events
from tests.support.engine_harness import LONG_LIMITS, WORKSPACE
from tests.support.real_turns import open_turns, turn_limits
from tests.support.stress import StressShare

STEPS = 400
PACKAGE = Path(holdfast.__file__).parent
EARLY, LATE = range(20, 30), range(380, 390)
"""The steps that are compared."""


class StepMeter:
    """Measures each step of a run: calls, commits, bytes and live objects."""

    def __init__(self) -> None:
        self.calls: list[int] = []
        """Python functions called on the loop's thread, per step."""
        self.commits: list[int] = []
        self.written: list[int] = []
        """Bytes given to the store, per step."""
        self.sent: list[int] = []
        """Bytes of the request."""
        self.objects: dict[int, Counter[str]] = {}
        self.traced: dict[int, tracemalloc.Snapshot] = {}
        self._called = self._committed = self._bytes = 0

    def step(self, content: bytes) -> None:
        self.calls.append(self._called)
        self.commits.append(self._committed)
        self.written.append(self._bytes)
        self.sent.append(len(content))
        step = len(self.sent)
        sys.setprofile(self._count if step in EARLY or step in LATE else None)
        if step in (STEPS // 2, STEPS):
            self._measure_memory()
        self._called = self._committed = self._bytes = 0

    def commit(self, batch: Batch) -> None:
        self._committed += 1
        self._bytes += len(encode(batch))

    @asynccontextmanager
    async def measuring(self) -> AsyncIterator[None]:
        tracemalloc.start()
        try:
            yield
        finally:
            sys.setprofile(None)
            tracemalloc.stop()

    def _count(self, frame: FrameType, event: str, arg: Any) -> None:
        if event == "call" and threading.current_thread() is threading.main_thread():
            self._called += 1

    def _measure_memory(self) -> None:
        gc.collect()
        step = len(self.sent)
        own = tracemalloc.Filter(inclusive=True, filename_pattern=f"{PACKAGE}/*")  # imports of libraries do not count
        self.traced[step] = tracemalloc.take_snapshot().filter_traces((own,))
        names = (f"{type(one).__module__}.{type(one).__qualname__}" for one in gc.get_objects())
        self.objects[step] = Counter(name for name in names if name.startswith(("holdfast.", "asyncio.", "_asyncio.")))


class FixedTransport:
    """A transport without connections. It answers each request with a call, and the last one with a text."""

    def __init__(self, wire: WireName, meter: StepMeter) -> None:
        self._wire = wire
        self._meter = meter
        self.status = 200
        self.is_success = True
        self.headers = {"content-type": "text/event-stream"}
        self._chunks: Iterator[bytes] = iter(())

    @asynccontextmanager
    async def send(self, method: str, address: Any, *, content: bytes, **_: Any) -> AsyncIterator[Any]:
        self._meter.step(content)
        number = len(self._meter.sent)
        words = Say("Step by step, all of the same length.")
        pieces = (words,) if number > STEPS else (words, Call("echo", {"word": f"{number:04}"}, id=f"id-{number:04}"))
        self._chunks = (one for one in events(self._wire, Answer(pieces), model="m") if isinstance(one, bytes))
        yield self

    async def read(self, stall: Any) -> bytes | None:
        return next(self._chunks, None)

    async def drain(self) -> None:
        return None


class MeasuredStore:
    """A `Store` that reports its commits to the meter."""

    def __init__(self, store: Store, meter: StepMeter) -> None:
        self._store = store
        self._meter = meter

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def commit(self, batch: Batch, *, until_known: bool = True) -> Committed:
        self._meter.commit(batch)
        return await self._store.commit(batch, until_known=until_known)


def median(values: list[int], steps: range) -> int:
    return sorted(values[steps.start : steps.stop])[len(steps) // 2]


@pytest.mark.parametrize(
    "wire", [pytest.param(wire, marks=pytest.mark.stress(weight=0.5)) for wire in WIRES[1:]] + [WIRES[0]]
)
@pytest.mark.timeout(300)  # some seconds of computing, which can take minutes beside much else
async def test_a_late_step_costs_as_much_as_an_early_one(tmp_path: Path, wire: Any, share: StressShare) -> None:
    meter = StepMeter()
    transport: Any = FixedTransport(wire, meter)
    model = HttpModel(
        ModelInfo("test/m"),
        wire=load_wire(wire),
        base_url="http://127.0.0.1:1/v1",
        transport=transport,
        limits=StallLimits(120, 90),
    )
    store: Any = MeasuredStore(await open_store(tmp_path / "holdfast.db"), meter)
    async with open_turns(tmp_path, model, store=store) as harness:
        harness.hub.close()
        harness.hub = Hub(store, heartbeat_seconds=10.0, recent_events=RecentEvents(store.last_number, max_events=64))
        harness.engine = Engine(store, harness.hub, harness.turns, ids=Ids(), limits=LONG_LIMITS)
        await harness.engine.open_workspace(WORKSPACE)
        harness.turns.limits = turn_limits(max_steps=STEPS + 1)
        async with meter.measuring():
            accepted = await harness.accept()
            run = await harness.engine.wait_run(accepted.run.id, timeout=280)
    assert (run.state, run.steps) == ("completed", STEPS + 1)
    assert median(meter.commits, LATE) == median(meter.commits, EARLY)
    assert median(meter.written, LATE) <= median(meter.written, EARLY) * 1.05
    assert median(meter.calls, LATE) <= median(meter.calls, EARLY) * 1.1
    assert median(meter.calls, EARLY) > 100
    grown = meter.objects[STEPS] - meter.objects[STEPS // 2]
    kept = {name: count for name, count in grown.items() if not name.startswith("holdfast.schema.messages.")}
    assert max(kept.values(), default=0) <= 10, f"more than the conversation grows: {kept}"
    changes = meter.traced[STEPS].compare_to(meter.traced[STEPS // 2], "lineno")
    kept_bytes = sum(change.size_diff for change in changes) // (STEPS // 2)
    assert 500 < kept_bytes < 5_000, f"a step keeps more or less than its messages: {changes[:5]}"
    calls, written = median(meter.calls, LATE), median(meter.written, LATE)
    share.count("steps", run.steps)
    share.note(f"a step makes {calls} calls, writes {written} bytes and keeps {kept_bytes}")
