"""The messages of a run that was cut off get a finish reason and a result for every call."""

from itertools import count

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.agent.request_messages import request_messages
from holdfast.agent.unfinished_messages import (
    CANCELLED,
    NOT_APPROVED,
    UNKNOWN,
    Cutoff,
    closing_messages,
    finish_of,
    unanswered,
)
from holdfast.schema.messages import Finish, FinishReason, Message, Part, Role, Text, ToolCall, ToolResult
from holdfast.schema.runs import EndReason, EndState, Run, RunKind

CANCEL = Cutoff(state="cancelled", reason="user_cancel", detail="cancelled")
CRASH = Cutoff(state="interrupted", reason="server_crash", crashed=True)


def message(seq: int, role: Role, *parts: Part) -> Message:
    return Message(f"msg_{seq}", "ses_1", "run_1", role, seq, "", parts)


def close(*messages: Message, cutoff: Cutoff = CANCEL, kind: RunKind = "prompt") -> tuple[Message, ...]:
    ids = count(100)
    run = Run(id="run_1", session_id="ses_1", seq=1, kind=kind)
    return closing_messages(messages, run=run, cutoff=cutoff, at="now", new_id=lambda: f"msg_{next(ids)}")


PROMPT = message(1, "user", Text("go"))


@pytest.mark.promise("C5")
def test_an_open_answer_keeps_its_text_and_gets_a_finish_reason() -> None:
    (closed,) = close(PROMPT, message(2, "assistant", Text("half a")))
    assert (closed.id, closed.parts) == ("msg_2", (Text("half a"), Finish("cancelled", "cancelled")))


@pytest.mark.promise("C5")
def test_a_run_without_an_answer_gets_one_with_only_a_finish_reason() -> None:
    (made,) = close(PROMPT)
    assert (made.role, made.run_id, made.seq, made.parts) == (
        "assistant",
        "run_1",
        0,
        (Finish("cancelled", "cancelled"),),
    )


@pytest.mark.promise("C5")
def test_a_prompt_that_joined_after_the_last_answer_gets_an_answer_too() -> None:
    answered = message(2, "assistant", Text("first"), Finish("end_turn"))
    (made,) = close(PROMPT, answered, message(3, "user", Text("and this?")))
    assert (made.id, made.parts) == ("msg_100", (Finish("cancelled", "cancelled"),))


@pytest.mark.promise("C6")
def test_calls_get_results_after_a_cancel_and_after_a_crash() -> None:
    asked = message(2, "assistant", ToolCall("c1", "bash"), ToolCall("c2", "view"), Finish("tool_use"))
    one_result = message(3, "tool", ToolResult("c1", "bash", text="ok"))
    results, said = close(PROMPT, asked, one_result)
    assert results.parts == (ToolResult("c2", "view", status="cancelled", text=CANCELLED),)
    assert said.parts == (Finish("cancelled", "cancelled"),)
    results, said = close(PROMPT, asked, one_result, cutoff=CRASH)
    assert results.parts == (ToolResult("c2", "view", status="unknown", text=UNKNOWN),)
    assert said.parts == (Finish("interrupted"),)


@pytest.mark.promise("C6")
def test_after_a_crash_during_a_cancel_the_outcome_of_a_call_is_unknown() -> None:
    asked = message(2, "assistant", ToolCall("c1", "bash"))
    cutoff = Cutoff(state="cancelled", reason="user_cancel", crashed=True)
    closed, results = close(PROMPT, asked, cutoff=cutoff)
    assert finish_of(closed) == Finish("cancelled")
    assert [part.status for part in results.parts if isinstance(part, ToolResult)] == ["unknown"]


def test_closed_messages_are_not_changed() -> None:
    said = message(2, "assistant", Text("half"), Finish("cancelled", "by the turn"))
    assert close(PROMPT, said) == ()
    assert (
        close(
            PROMPT, message(2, "assistant", Text("well"), Finish("end_turn")), cutoff=_cutoff("completed", "end_turn")
        )
        == ()
    )


def test_an_answer_that_was_complete_stays_complete_when_the_run_is_cancelled() -> None:
    (made,) = close(PROMPT, message(2, "assistant", Text("all"), Finish("end_turn")))
    assert (made.id, made.parts) == ("msg_100", (Finish("cancelled", "cancelled"),))


def test_runs_other_than_prompts_get_no_new_answer() -> None:
    assert close(kind="compact") == ()
    (closed,) = close(message(2, "assistant", Text("sum")), kind="compact")
    assert finish_of(closed) == Finish("cancelled", "cancelled")


@pytest.mark.parametrize(
    ("state", "reason", "finish"),
    [
        ("failed", "provider", "error"),
        ("failed", "refused", "refused"),
        ("failed", "max_tokens", "max_tokens"),
        ("failed", "limit_steps", "limit"),
        ("failed", "limit_time", "limit"),
        ("failed", "limit_cost", "limit"),
        ("failed", "loop", "limit"),
        ("interrupted", "server_stop", "interrupted"),
        ("cancelled", "parent_ended", "cancelled"),
    ],
)
def test_the_finish_reason_follows_from_the_end(state: EndState, reason: EndReason, finish: FinishReason) -> None:
    (made,) = close(PROMPT, cutoff=_cutoff(state, reason))
    assert made.parts == (Finish(finish),)


def _cutoff(state: EndState, reason: EndReason) -> Cutoff:
    return Cutoff(state=state, reason=reason)


@st.composite
def cut_off_runs(draw: st.DrawFn) -> list[Message]:
    """The messages of a run that was cut off: closed steps, then one that may be open anywhere."""
    messages = [PROMPT]
    calls = count()

    def add(role: Role, *parts: Part) -> None:
        messages.append(message(len(messages) + 1, role, *parts))

    for _ in range(draw(st.integers(0, 3))):
        asked = [ToolCall(f"c{next(calls)}", "bash") for _ in range(draw(st.integers(1, 3)))]
        add("assistant", Text("step"), *asked, Finish("tool_use"))
        add("tool", *(ToolResult(call.id, call.name, text="ok") for call in asked))
    if draw(st.booleans()):
        asked = [ToolCall(f"c{next(calls)}", "bash") for _ in range(draw(st.integers(0, 3)))]
        finish = [Finish("tool_use")] if asked and draw(st.booleans()) else []
        add("assistant", Text("last"), *asked, *finish)
        if finish and draw(st.booleans()):
            add("tool", *(ToolResult(call.id, call.name) for call in asked[: draw(st.integers(0, len(asked)))]))
    if draw(st.booleans()):
        add("user", Text("joined"))
    return messages


@pytest.mark.promise("C5", "C6")
@given(
    messages=cut_off_runs(),
    cutoff=st.sampled_from([CANCEL, CRASH, _cutoff("failed", "network"), _cutoff("interrupted", "server_stop")]),
    cut_at=st.integers(0, 3),
)
def test_any_stored_messages_are_closed_completely_and_closing_again_changes_nothing(
    messages: list[Message], cutoff: Cutoff, cut_at: int
) -> None:
    latest = messages[max(0, len(messages) - 1 - cut_at) :] if cut_at else messages
    closed = close(*latest, cutoff=cutoff)
    after = {one.id: one for one in [*latest, *closed]}
    whole = list(after.values())
    assert unanswered(whole) == []
    assert all(finish_of(one) is not None for one in whole if one.role == "assistant")
    assert close(*whole, cutoff=cutoff) == ()
    for one in latest:
        assert after[one.id].parts[: len(one.parts)] == one.parts
    sent = request_messages(whole, images=False)
    asked = [part.id for one in sent for part in one.parts if isinstance(part, ToolCall)]
    answered = [part.call_id for one in sent for part in one.parts if isinstance(part, ToolResult)]
    assert asked == answered


@pytest.mark.promise("C6")
def test_a_call_that_waited_for_approval_gets_a_result_that_says_it_did_not_run() -> None:
    cutoff = Cutoff(state="interrupted", reason="server_crash", crashed=True, unapproved=frozenset({"call_1"}))
    messages = [
        Message("m1", "ses_1", "run_1", "assistant", 1, "", (ToolCall("call_1", "bash"), ToolCall("call_2", "bash")))
    ]
    ids = count(1)
    closed = closing_messages(
        messages, run=Run(id="run_1", session_id="ses_1", seq=1), cutoff=cutoff, at="", new_id=lambda: f"x{next(ids)}"
    )
    results = [part for message in closed for part in message.parts if isinstance(part, ToolResult)]
    assert [(result.call_id, result.text) for result in results] == [("call_1", NOT_APPROVED), ("call_2", UNKNOWN)]
