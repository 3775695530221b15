"""A conversation is compacted before the context window is full, and not too early."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.agent.context_window import compaction_threshold, estimate_parts, is_compaction_due
from holdfast.schema.messages import Text, ToolCall, ToolResult


@pytest.mark.promise("R12")
@given(st.integers(1, 2_000_000), st.integers(0, 200_000))
def test_the_threshold_reserves_space_and_is_at_least_half_of_the_window(window: int, output: int) -> None:
    limit = compaction_threshold(window, output)
    assert limit is not None
    assert window // 2 <= limit <= window
    assert not is_compaction_due(limit - 1, context_window=window, max_output=output)
    assert is_compaction_due(limit, context_window=window, max_output=output)


def test_compaction_is_never_due_if_the_window_is_unknown() -> None:
    assert not is_compaction_due(10**9, context_window=0, max_output=0)


def test_the_estimate_grows_with_the_content() -> None:
    said = estimate_parts([Text("x" * 100)])
    asked = estimate_parts([ToolCall("c", "n", {"a": "z" * 1_000})])
    assert 0 < said < asked < estimate_parts([ToolResult("c", "n", text="y" * 10_000)])
