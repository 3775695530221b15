"""The translation of a session's view: any split of a recorded log tells an editor the same."""

import json
from typing import Any

import pytest

from holdfast.acp.session_updates import SessionTranslator, end_text, stop_reason
from holdfast.acp.tool_updates import fenced, read_diff
from holdfast.client.view_fold import SessionSnapshot, ViewFold
from holdfast.client.view_values import TurnEndBlock
from holdfast.schema.events import SessionCreated
from holdfast.schema.runs import Run
from tests.client.event_logs import NAMES, read_log


def _shown(updates: list[dict[str, Any]]) -> dict[str, Any]:
    """What an editor shows after these updates: texts by message, calls, the plan."""
    texts: dict[str, str] = {}
    calls: dict[str, dict[str, Any]] = {}
    plan: list[Any] = []
    for update in updates:
        kind = update["sessionUpdate"]
        if kind.endswith("_chunk"):
            said = texts.get(update["messageId"], "") + update["content"]["text"]
            texts[update["messageId"]] = said.removeprefix("\n\n")
        elif kind == "plan":
            plan = update["entries"]
        else:
            changed = {name: value for name, value in update.items() if name != "sessionUpdate"}
            calls.setdefault(update["toolCallId"], {}).update(changed)
    return {"texts": texts, "calls": calls, "plan": plan}


@pytest.mark.parametrize("name", NAMES)
def test_live_updates_and_a_replay_show_the_same(name: str) -> None:
    fold, live = ViewFold(), SessionTranslator("/project")
    updates: list[dict[str, Any]] = []
    session_id = ""
    for event in read_log(name):
        if isinstance(event, SessionCreated) and not session_id:
            session_id = event.session_id
            fold.open_session(SessionSnapshot(session=event.session))
        fold.apply(event)
        if session_id and (transcript := fold.transcript(session_id)):
            updates += live.updates(transcript)
    transcript = fold.transcript(session_id)
    assert transcript is not None
    shown, replayed = _shown(updates), _shown(SessionTranslator("/project").replay(transcript))
    assert shown["calls"] == replayed["calls"]
    assert shown["plan"] == replayed["plan"]
    for message_id, text in replayed["texts"].items():
        final = max((one for one in shown["texts"] if one.rstrip("r") == message_id), key=len)
        assert shown["texts"][final] == text
    assert live.updates(transcript) == []
    assert json.dumps(updates)


def test_a_replaced_text_begins_a_new_message() -> None:
    translator = SessionTranslator("/project")
    first = translator._chunk("agent_message_chunk", "msg_1.0", "The first atte")
    same = translator._chunk("agent_message_chunk", "msg_1.0", "The ")
    second = translator._chunk("agent_message_chunk", "msg_1.0", "The second")
    assert [one["content"]["text"] for one in first + same + second] == ["The first atte", "\n\nThe second"]
    assert first[0]["messageId"] != second[0]["messageId"]


def test_hunks_of_a_diff_have_both_sides() -> None:
    text = (
        "--- a/one.py\n+++ b/one.py\n@@ -1,2 +1,2 @@\n same\n-old\n+new\n\\ No newline at end of file\n"
        "@@ -10 +10,2 @@\n-a\n+b\n+c\n"
        "--- /dev/null\n+++ b/two.py\n@@ -0,0 +1 @@\n+made\n"
        "--- a/gone.py\n+++ /dev/null\n@@ -1 +0,0 @@\n--- a line that looks like a name\n"
        "Binary file x.png: 1 bytes → 2 bytes\n"
    )
    assert [(hunk.path, hunk.old, hunk.new, hunk.line) for hunk in read_diff(text)] == [
        ("one.py", "same\nold\n", "same\nnew", 1),
        ("one.py", "a\n", "b\nc\n", 10),
        ("two.py", None, "made\n", 1),
        ("gone.py", "-- a line that looks like a name\n", "", 1),
    ]
    cut = "--- a/x\n+++ b/x\n@@ -1,9 +1,9 @@\n same\n… 8 more lines of this diff are not shown\n"
    assert [(hunk.path, hunk.new) for hunk in read_diff(cut)] == [("x", "same\n")]
    assert list(read_diff(None)) == []


def test_output_is_fenced_and_has_no_escapes() -> None:
    assert fenced("\x1b[31mred\x1b[0m\r\n```\x07") == "````\nred\n```\n````"
    assert len(fenced("x" * 1_000_000)) < 70_000


@pytest.mark.parametrize(
    ("state", "reason", "expected"),
    [
        ("completed", "end_turn", "end_turn"),
        ("cancelled", "user_cancel", "cancelled"),
        ("failed", "limit_steps", "max_turn_requests"),
        ("failed", "max_tokens", "max_tokens"),
        ("failed", "refused", "refusal"),
        ("failed", "network", None),
        ("interrupted", "server_crash", None),
    ],
)
def test_ends_are_stop_reasons_or_errors(state: Any, reason: Any, expected: str | None) -> None:
    assert stop_reason(Run(id="run_1", session_id="ses_1", seq=1, state=state, reason=reason)) == expected
    block = TurnEndBlock(id="e", run_id="run_1", kind="prompt", state=state, reason=reason)
    assert bool(end_text(block)) == (state not in ("completed", "cancelled"))
