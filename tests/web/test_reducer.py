"""The page's reducer gives the same JSON as the Python one, byte for byte, for every recorded log.

Node runs the reducer as it is shipped. Without node these tests are skipped.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import msgspec
import pytest

from holdfast.client.view_fold import SessionSnapshot, ViewFold
from holdfast.schema.events import Event, SessionCreated, read_event
from tests.client.event_logs import (
    GOLDEN,
    HELLO,
    NAMES,
    ServerAt,
    apply_all,
    canonical_json,
    read_log,
    recorded_snapshots,
)

STATIC = Path(__file__).parents[2] / "src/holdfast/web/static"
NODE = shutil.which("node")

pytestmark = pytest.mark.skipif(NODE is None, reason="node is not installed")


def reduce(cases: list[dict[str, Any]]) -> list[dict[str, Any]]:
    (module,) = STATIC.glob("assets/view-*.js")
    found = subprocess.run(
        [str(NODE), str(Path(__file__).parent / "reduce.mjs"), str(module)],
        input=msgspec.json.encode(cases),
        capture_output=True,
        check=False,
        timeout=60,
    )
    assert found.returncode == 0, found.stderr.decode()
    return msgspec.json.decode(found.stdout, type=list[dict[str, Any]])


def lines_of(name: str) -> list[Any]:
    return [msgspec.json.decode(line) for line in (GOLDEN / f"{name}.jsonl").read_bytes().splitlines()]


def views_after_each(events: list[Event]) -> list[str]:
    fold = ViewFold()
    views = []
    for event in events:
        apply_all(fold, [event])
        views.append(canonical_json(fold.view()))
    return views


def test_every_prefix_of_every_recorded_log_gives_the_same_view_as_in_python() -> None:
    answers = reduce([{"events": lines_of(name), "each": True} for name in NAMES])
    for name, answer in zip(NAMES, answers, strict=True):
        assert answer["gaps"] == []
        for number, (shown, expected) in enumerate(
            zip(answer["views"], views_after_each(read_log(name)), strict=True), start=1
        ):
            assert shown == expected, f"{name}, after {number} events"
        assert answer["views"][-1] == (GOLDEN / f"{name}.view.json").read_text()


def test_the_servers_snapshots_and_the_events_after_them_give_the_same_view_as_in_python() -> None:
    cases, expected = [], []
    for name in NAMES:
        raw_events, events = lines_of(name), read_log(name)
        for line, (after, fold) in zip(
            (GOLDEN / f"{name}.snapshots.jsonl").read_bytes().splitlines(), recorded_snapshots(name), strict=True
        ):
            server = ServerAt(events[:after])
            connecting: list[Any] = [msgspec.json.decode(msgspec.json.encode(HELLO))]
            for message_id, message in server.messages.items():
                if parts := server.texts.open_parts(message_id):
                    session_id = message.session_id
                    snapshot = {"kind": "snapshot", "at": HELLO.at, "session_id": session_id, "message_id": message_id}
                    connecting.append(snapshot | {"parts": msgspec.to_builtins(parts)})
            cases.append({"loads": [msgspec.json.decode(line)], "events": connecting + raw_events[after:]})
            apply_all(fold, events[after:])
            expected.append((f"{name}, after {after}", canonical_json(fold.view())))
    for answer, (case, view) in zip(reduce(cases), expected, strict=True):
        assert answer["views"] == [view], case


def test_offsets_of_deltas_count_code_points_and_missing_text_is_a_gap() -> None:
    at = "2026-01-01T00:00:00.000Z"
    session = {"id": "ses_1", "workspace_id": "wsp_1", "parent_id": None}
    message = {"id": "msg_1", "session_id": "ses_1", "run_id": "run_1", "role": "assistant", "seq": 1, "created_at": at}
    delta = {"kind": "delta", "at": at, "session_id": "ses_1", "message_id": "msg_1", "part": 0, "of": "text"}
    texts = [
        *((1, 0, "🙂🙂 and 日本"), (1, 8, "語"), (1, 2, "🙃"), (1, 3, "\U0001f1ec\U0001f1e7 flags"), (1, 99, "lost")),
        *((2, 0, "again"), (1, 0, "late"), (2, 5, " 🙂"), (3, 4, "lost too")),
    ]
    events: list[Any] = [
        {"kind": "session.created", "at": at, "session_id": "ses_1", "session": session},
        {"kind": "message.created", "at": at, "session_id": "ses_1", "message": message | {"parts": []}},
        *(delta | {"attempt": attempt, "offset": offset, "text": text} for attempt, offset, text in texts),
    ]
    fold, views, gaps = ViewFold(), [], []
    for number, raw in enumerate(events):
        event = read_event(msgspec.json.encode(raw))
        if isinstance(event, SessionCreated):
            fold.open_session(SessionSnapshot(session=event.session))
        if "gap" in fold.apply(event):
            gaps.append(number)
        views.append(canonical_json(fold.view()))
    (answer,) = reduce([{"events": events, "each": True}])
    assert gaps == [6, 10]
    assert answer == {"views": views, "gaps": gaps}
