"""What exit codes and outputs of hooks mean, one by one and together."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.extend.hooks.hook_answers import AnsweredHook, HookAnswer, ProcessResult, combine, read_answer
from holdfast.extend.hooks.hook_definitions import Hook
from holdfast.schema.hooks import HookDecision, HookEvent


def result(output: object = "", *, code: int = 0, errors: str = "") -> ProcessResult:
    text = output if isinstance(output, str) else json.dumps(output)
    return ProcessResult(exit_code=code, output=text.encode(), errors=errors.encode(), seconds=0.1)


def hook(name: str) -> Hook:
    return Hook(name=name, events=("before_tool",), argv=("true",), timeout=1.0)


def answered(name: str, **fields: Any) -> AnsweredHook:
    return AnsweredHook(hook(name), HookAnswer(**fields), 0.25)


def test_exit_code_0_without_output_says_nothing() -> None:
    assert read_answer("before_tool", result()) == HookAnswer()
    assert read_answer("before_tool", result("some text for a log\n")) == HookAnswer()


def test_an_object_is_the_answer() -> None:
    answer = {"decision": "ask", "reason": "why", "input": {"command": "ls"}, "context": "more", "stop": "enough"}
    assert read_answer("before_tool", result(answer)) == HookAnswer(**answer)  # type: ignore[arg-type]
    assert read_answer("after_tool", result({"stop": True})).stop == "it stopped the run"


def test_exit_code_2_denies_with_the_error_output_as_reason() -> None:
    denied = read_answer("before_tool", result({"decision": "allow"}, code=2, errors="not on Fridays\n"))
    assert denied == HookAnswer(decision="deny", reason="not on Fridays")


@pytest.mark.parametrize(
    ("given_result", "failure"),
    [
        (result(code=1, errors="Traceback"), "exit code 1: Traceback"),
        (result(code=-9), "ended by signal 9"),
        (ProcessResult(problem="it did not end within 1 s and was ended"), "it did not end within 1 s and was ended"),
        (result('{"decision": '), "its output begins like JSON but is not valid JSON"),
        (result({"decison": "deny"}), "did you mean 'decision'?"),
        (result({"decision": "maybe"}), "its answer is not used"),
        (result({"input": ["a"]}), "its answer is not used"),
    ],
)
def test_everything_else_is_a_failure_that_decides_nothing(given_result: ProcessResult, failure: str) -> None:
    answer = read_answer("before_tool", given_result)
    assert failure in answer.failure
    assert (answer.decision, answer.input, answer.context, answer.stop) == (None, None, "", "")


@pytest.mark.parametrize(
    ("event", "answer"),
    [
        ("after_tool", {"decision": "allow"}),
        ("after_tool", {"input": {"a": 1}}),
        ("session_start", {"decision": "deny"}),
        ("end", {"stop": "now"}),
        ("notification", {"context": "x"}),
        ("compaction", {"decision": "deny"}),
        ("approval", {"input": {"a": 1}}),
    ],
)
def test_an_answer_that_an_event_does_not_have_is_told(event: HookEvent, answer: dict[str, Any]) -> None:
    assert f"{event} cannot be answered with" in read_answer(event, result(answer)).failure


def test_plain_text_is_context_at_the_start_and_with_a_prompt() -> None:
    assert read_answer("session_start", result("the branch is main\n")).context == "the branch is main"
    assert read_answer("prompt", result("the ticket is open")).context == "the ticket is open"


@given(st.lists(st.sampled_from(["allow", "ask", "deny", None]), max_size=6))
def test_deny_beats_ask_beats_allow_in_any_order(decisions: list[HookDecision | None]) -> None:
    verdict = combine("before_tool", [answered(f"h{n}", decision=one) for n, one in enumerate(decisions)])
    expected = next((one for one in ("deny", "ask", "allow") if one in decisions), None)
    assert verdict.decision == expected
    assert len(verdict.records) == len(decisions)


def test_several_answers_are_joined_with_the_names_of_their_hooks() -> None:
    verdict = combine(
        "before_tool",
        [
            answered("one", decision="allow", input={"command": "a"}),
            answered("two", decision="ask", reason="be careful"),
            answered("three", context="a fact", input={"command": "b"}),
            answered("four", failure="exit code 1"),
        ],
    )
    assert (verdict.decision, verdict.reason) == ("ask", "hook two: be careful")
    assert (verdict.input, verdict.context) == ({"command": "a"}, "hook three: a fact")
    assert [record.outcome for record in verdict.records] == ["changed", "asked", "changed", "failed"]
    denied = combine("before_tool", [answered("one", input={"command": "a"}), answered("two", decision="deny")])
    assert (denied.input, denied.reason) == (None, "hook two: no reason given")


@given(
    st.binary(max_size=300), st.binary(max_size=300), st.integers(-70, 300), st.sampled_from(["prompt", "before_tool"])
)
def test_no_output_makes_the_reader_fail(output: bytes, errors: bytes, code: int, event: HookEvent) -> None:
    answer = read_answer(event, ProcessResult(exit_code=code, output=output, errors=errors))
    json.dumps([answer.reason, answer.context, answer.failure]).encode()
