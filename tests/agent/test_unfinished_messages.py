"""A run that was cut off is closed: an end that is said, results for every call, nothing touched that was closed."""

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
def test_an_open_answer_keeps_its_text_and_says_how_it_ended() -> None:
    (closed,) = close(PROMPT, message(2, "assistant", Text("half a")))
    assert (closed.id, closed.parts) == ("msg_2", (Text("half a"), Finish("cancelled", "cancelled")))


@pytest.mark.promise("C5")
def test_a_run_without_an_answer_gets_one_that_only_says_how_it_ended() -> None:
    (made,) = close(PROMPT)
    assert (made.role, made.run_id, made.seq, made.parts) == (
        "assistant",
        "run_1",
        0,
        (Finish("cancelled", "cancelled"),),
    )


@pytest.mark.promise("C5")
def test_a_prompt_that_joined_after_the_last_answer_is_answered_for_too() -> None:
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
def test_a_crash_in_the_middle_of_a_cancel_does_not_claim_to_know() -> None:
    asked = message(2, "assistant", ToolCall("c1", "bash"))
    cut = Cutoff(state="cancelled", reason="user_cancel", crashed=True)
    closed, results = close(PROMPT, asked, cutoff=cut)
    assert finish_of(closed) == Finish("cancelled")
    assert [part.status for part in results.parts if isinstance(part, ToolResult)] == ["unknown"]


def test_what_is_already_closed_is_left_alone() -> None:
    said = message(2, "assistant", Text("half"), Finish("cancelled", "by the turn"))
    assert close(PROMPT, said) == ()
    assert (
        close(PROMPT, message(2, "assistant", Text("well"), Finish("end_turn")), cutoff=_cut("completed", "end_turn"))
        == ()
    )


def test_an_answer_that_was_complete_stays_complete_when_the_run_is_cancelled() -> None:
    (made,) = close(PROMPT, message(2, "assistant", Text("all"), Finish("end_turn")))
    assert (made.id, made.parts) == ("msg_100", (Finish("cancelled", "cancelled"),))


def test_runs_that_are_no_prompts_get_no_answer_they_did_not_begin() -> None:
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
def test_the_last_message_says_the_kind_of_end(state: EndState, reason: EndReason, finish: FinishReason) -> None:
    (made,) = close(PROMPT, cutoff=_cut(state, reason))
    assert made.parts == (Finish(finish),)


def _cut(state: EndState, reason: EndReason) -> Cutoff:
    return Cutoff(state=state, reason=reason)


@st.composite
def cut_off_runs(draw: st.DrawFn) -> list[Message]:
    """What a run may have stored when it was cut off: closed steps, then one that may be open anywhere."""
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
    cutoff=st.sampled_from([CANCEL, CRASH, _cut("failed", "network"), _cut("interrupted", "server_stop")]),
    cut_at=st.integers(0, 3),
)
def test_whatever_was_stored_the_record_is_whole_and_closing_it_again_changes_nothing(
    messages: list[Message], cut: Cutoff, cut_at: int
) -> None:
    latest = messages[max(0, len(messages) - 1 - cut_at) :] if cut_at else messages
    closed = close(*latest, cutoff=cut)
    after = {one.id: one for one in [*latest, *closed]}
    whole = list(after.values())
    assert unanswered(whole) == []
    assert all(finish_of(one) is not None for one in whole if one.role == "assistant")
    assert close(*whole, cutoff=cut) == ()
    for one in latest:
        assert after[one.id].parts[: len(one.parts)] == one.parts
    sent = request_messages(whole, images=False)
    asked = [part.id for one in sent for part in one.parts if isinstance(part, ToolCall)]
    answered = [part.call_id for one in sent for part in one.parts if isinstance(part, ToolResult)]
    assert asked == answered


@pytest.mark.promise("C6")
def test_a_call_that_waited_for_approval_is_said_not_to_have_run() -> None:
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
