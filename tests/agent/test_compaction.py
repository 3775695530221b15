"""A summary contains what the model must not forget."""

from __future__ import annotations

from holdfast.agent.compaction import complete_summary
from holdfast.schema.sessions import Todo


def test_the_summary_contains_the_stored_task_list() -> None:
    assert complete_summary("s", prompts=[], todos=[]) == "s"
    assert complete_summary("s", prompts=[], todos=[Todo("write it", "in_progress")]).endswith(
        "- [in_progress] write it"
    )


def test_the_summary_contains_the_prompts_unchanged() -> None:
    kept = complete_summary("s", prompts=["first wish", "", "and another"], todos=[])
    assert kept.endswith("word for word\nfirst wish\n\nand another")
    assert len(complete_summary("s", prompts=["x" * 100_000], todos=[])) < 9_000
