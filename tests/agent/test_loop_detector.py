"""Repeated steps are detected; steps with new results are not a loop (R12)."""

from __future__ import annotations

import pytest

from holdfast.agent.loop_detector import LoopDetector
from holdfast.schema.messages import ToolCall, ToolResult


def step(detector: LoopDetector, number: int, *, argument: str = "x", result: str = "same") -> str | None:
    call = ToolCall(f"c{number}", "bash", {"command": argument})
    return detector.add_step([call], [ToolResult(call.id, "bash", text=result)])


@pytest.mark.promise("R12")
def test_the_same_call_with_the_same_result_five_times_is_a_loop() -> None:
    detector = LoopDetector()
    said = [step(detector, number) for number in range(5)]
    assert said[:4] == [None] * 4
    assert said[4] is not None
    assert "bash" in said[4]


def test_another_result_or_another_argument_is_progress() -> None:
    detector = LoopDetector()
    assert not any(step(detector, number, result=str(number)) for number in range(20))
    detector = LoopDetector()
    assert not any(step(detector, number, argument=str(number)) for number in range(20))


def test_two_steps_that_alternate_are_a_loop_too() -> None:
    detector = LoopDetector()
    said = [step(detector, number, argument=str(number % 2)) for number in range(10)]
    assert any(said)
