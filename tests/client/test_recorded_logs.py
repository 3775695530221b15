"""Recorded event logs become the same view however they are split, and the view that was looked at and stored.

`python -m dev.record_event_logs` records the logs; with `views` it only stores the views again.
"""

import pytest

from holdfast.schema.base import Unknown
from holdfast.schema.events import Delta, event_kind
from tests.client.event_logs import (
    GOLDEN,
    NAMES,
    ServerAt,
    apply_all,
    canonical_json,
    comparable,
    fold_log,
    is_between_commits,
    read_log,
    recorded_snapshots,
)


@pytest.mark.parametrize("name", NAMES)
def test_a_recorded_log_gives_its_stored_view(name: str) -> None:
    assert canonical_json(fold_log(read_log(name)).view()) == (GOLDEN / f"{name}.view.json").read_text()


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.promise("E7")
def test_any_prefix_and_a_snapshot_and_the_rest_give_the_same_view(name: str) -> None:
    events = read_log(name)
    whole = comparable(fold_log(events))
    for split in range(len(events) + 1):
        fold = ServerAt(events[:split]).connect()
        if is_between_commits(events, split):
            assert comparable(fold) == comparable(fold_log(events[:split])), f"after {split} events, at once"
        apply_all(fold, events[split:])
        assert comparable(fold) == whole, f"split after {split} events"


@pytest.mark.parametrize("name", NAMES)
def test_the_real_servers_snapshots_give_the_same_view(name: str) -> None:
    events = read_log(name)
    whole = comparable(fold_log(events))
    for after, fold in recorded_snapshots(name):
        assert comparable(fold) == comparable(fold_log(events[:after])), f"after {after} events, at once"
        apply_all(fold, events[after:])
        assert comparable(fold) == whole


@pytest.mark.parametrize("name", NAMES)
def test_events_that_a_snapshot_contains_may_follow_again(name: str) -> None:
    events = read_log(name)
    whole = comparable(fold_log(events))
    durable = [event for event in events if not isinstance(event, Delta)]
    fold = ServerAt(events).connect()
    apply_all(fold, durable)
    assert comparable(fold) == whole


def test_the_logs_contain_every_kind_of_durable_event_that_clients_show() -> None:
    kinds = {event_kind(event) for name in NAMES for event in read_log(name) if not isinstance(event, Unknown)}
    assert kinds >= {
        *("session.created", "session.updated"),
        *("run.accepted", "run.started", "run.joined", "run.stopping", "run.updated", "run.finished", "run.retrying"),
        *("queue.changed", "message.created", "message.updated", "message.finished", "delta", "snapshot"),
        *("approval.requested", "approval.resolved", "question.asked", "question.resolved", "run.progress"),
        *("job.started", "job.finished", "file.changed", "todo.changed", "hello"),
    }
