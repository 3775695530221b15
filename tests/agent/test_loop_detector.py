"""Steps that only repeat are a loop; edits, new results and polls are not (R12)."""

from __future__ import annotations

import pytest

from holdfast.agent.loop_detector import LoopDetector, Repetition
from holdfast.schema.messages import ToolCall, ToolResult


def step(detector: LoopDetector, number: int, name: str = "bash", *, result: str = "same", **arguments: str) -> object:
    call = ToolCall(f"c{number}", name, arguments or {"command": "x"})
    return detector.add_step([call], [ToolResult(call.id, name, text=result)])


@pytest.mark.promise("R12")
def test_the_model_is_told_after_three_repeats_and_the_run_ends_after_seven() -> None:
    detector = LoopDetector()
    said = [step(detector, number) for number in range(8)]
    told, over = said[3], said[7]
    assert isinstance(told, Repetition)
    assert isinstance(over, Repetition)
    assert (told.over, over.over) == (False, True)
    assert "the last 7 steps repeat earlier calls (bash)" in over.text
    assert [one for one in said if one is not None] == [told, over]


@pytest.mark.promise("R12")
def test_different_edits_between_runs_of_the_same_failing_test_are_progress() -> None:
    detector = LoopDetector()
    for number in range(40):
        assert step(detector, 2 * number, "edit", path="a.py", new=str(number), result="edited") is None
        assert step(detector, 2 * number + 1, command="pytest", result="1 failed") is None


@pytest.mark.promise("R12")
def test_polls_of_a_silent_job_are_not_counted() -> None:
    detector = LoopDetector()
    for number in range(40):
        assert step(detector, number, "job_output", job_id="job_1", result="running, no output") is None
        assert step(detector, number, command="sleep 5; cat log", result="") is None
        assert step(detector, number, command="while true; do sleep 1; done", result="") is None


def test_a_command_that_only_names_sleep_is_counted() -> None:
    detector = LoopDetector()
    assert any(step(detector, number, command="grep -rn sleep src") for number in range(8))


def test_another_result_or_another_argument_is_progress() -> None:
    detector = LoopDetector()
    assert not any(step(detector, number, result=str(number)) for number in range(20))
    detector = LoopDetector()
    assert not any(step(detector, number, command=str(number)) for number in range(20))


def test_steps_that_alternate_are_a_loop_too() -> None:
    detector = LoopDetector()
    said = [step(detector, number, command=str(number % 3)) for number in range(12)]
    assert [one.over for one in said if isinstance(one, Repetition)] == [False, True]
