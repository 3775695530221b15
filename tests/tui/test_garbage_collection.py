"""Full collections of garbage happen in pauses of typing, never in the middle of it."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from holdfast.tui.garbage_collection import collect_if_due, collect_in_pauses, is_due


@pytest.mark.parametrize(
    ("collections", "idle_seconds", "due"),
    [(9, 60.0, False), (10, 0.9, False), (10, 1.0, True), (199, 0.0, False), (200, 0.0, True)],
)
def test_a_full_collection_waits_for_a_pause_but_not_for_ever(collections: int, idle_seconds: float, due: bool) -> None:
    assert is_due(collections=collections, idle_seconds=idle_seconds) is due


@pytest.fixture
def full_collections() -> Iterator[list[int]]:
    """The full collections that have happened, with the collector as it was before restored in the end."""
    found: list[int] = []

    def note(phase: str, info: dict[str, int]) -> None:
        if phase == "stop" and info["generation"] == 2:
            found.append(info["collected"])

    thresholds = gc.get_threshold()
    gc.callbacks.append(note)
    try:
        yield found
    finally:
        gc.callbacks.remove(note)
        gc.set_threshold(*thresholds)
        gc.unfreeze()


def test_only_a_pause_runs_a_full_collection_which_finds_old_cycles(full_collections: list[int]) -> None:
    gc.collect()
    collect_in_pauses()
    full_collections.clear()
    kept: list[list[object]] = [[] for _ in range(200_000)]
    for item in kept:
        item.append(item)
    assert full_collections == []
    kept.clear()
    item = []
    assert not collect_if_due(idle_seconds=0.5)
    assert collect_if_due(idle_seconds=2.0)
    assert len(full_collections) == 1
    assert full_collections[0] >= 190_000
    assert not collect_if_due(idle_seconds=2.0)
