"""A summary is made before the window is full, and never too early."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.agent.compaction import complete_summary
from holdfast.agent.context_window import compaction_threshold, estimate_parts, is_compaction_due
from holdfast.schema.messages import Text, ToolCall, ToolResult
from holdfast.schema.sessions import Todo


@pytest.mark.promise("R12")
@given(st.integers(1, 2_000_000), st.integers(0, 200_000))
def test_the_threshold_leaves_room_and_uses_at_least_half_the_window(window: int, output: int) -> None:
    limit = compaction_threshold(window, output)
    assert limit is not None
    assert window // 2 <= limit <= window
    assert not is_compaction_due(limit - 1, context_window=window, max_output=output)
    assert is_compaction_due(limit, context_window=window, max_output=output)


def test_an_unknown_window_is_never_due() -> None:
    assert not is_compaction_due(10**9, context_window=0, max_output=0)


def test_an_estimate_grows_with_what_is_sent() -> None:
    said = estimate_parts([Text("x" * 100)])
    asked = estimate_parts([ToolCall("c", "n", {"a": "z" * 1_000})])
    assert 0 < said < asked < estimate_parts([ToolResult("c", "n", text="y" * 10_000)])


def test_the_stored_task_list_is_told_as_it_is() -> None:
    assert complete_summary("s", prompts=[], todos=[]) == "s"
    assert complete_summary("s", prompts=[], todos=[Todo("write it", "in_progress")]).endswith(
        "- [in_progress] write it"
    )


def test_the_request_is_kept_word_for_word() -> None:
    kept = complete_summary("s", prompts=["first wish", "", "and another"], todos=[])
    assert kept.endswith("word for word\nfirst wish\n\nand another")
    assert len(complete_summary("s", prompts=["x" * 100_000], todos=[])) < 9_000
