"""The texts of a compaction."""

from __future__ import annotations

from holdfast.agent.summary_text import (
    MAX_LEVEL,
    earlier_prompts,
    files_in_use,
    mechanical_summary,
    plain_conversation,
)
from holdfast.schema.messages import File, Finish, Message, Part, Reasoning, Role, Summary, Text, ToolCall, ToolResult


def message(seq: int, role: Role, *parts: Part, run: str = "run_1", unsent: bool = False) -> Message:
    return Message(f"m{seq}", "ses_1", run, role, seq, "", parts, unsent)


def test_calls_and_results_become_text_and_reasoning_is_dropped() -> None:
    plain = plain_conversation(
        [
            message(1, "user", Text("go"), File("a.png", "image/png", data="aGk=")),
            message(2, "assistant", Reasoning("hm", "x", {}), ToolCall("c1", "bash", {"command": "ls"})),
            message(3, "tool", ToolResult("c1", "bash", "error", "x" * 20_000)),
            message(4, "assistant", Reasoning("only", "x", {})),
        ],
        level=0,
    )
    assert [one.role for one in plain] == ["user", "assistant", "user"]
    assert all(isinstance(part, Text) for one in plain for part in one.parts)
    assert plain[0].parts[1] == Text("[the image a.png]")
    (result,) = plain[2].parts
    assert isinstance(result, Text)
    assert len(result.text) < 8_200
    assert "12000 characters left out" in result.text


def test_each_level_is_shorter_and_ends_with_the_newest_messages() -> None:
    long = [message(n, "user" if n % 2 else "assistant", Text(f"{n} " * 4_000)) for n in range(1, 21)]
    sizes = [
        sum(len(part.text) for one in plain_conversation(long, level=level) for part in one.parts)  # type: ignore[union-attr]
        for level in range(MAX_LEVEL + 1)
    ]
    assert sizes == sorted(sizes, reverse=True)
    assert plain_conversation(long, level=MAX_LEVEL)[-1].seq == 20


def test_a_summary_without_a_model_keeps_the_summary_before_it_and_lists_the_last_calls() -> None:
    calls = [ToolCall(f"c{n}", "bash", {"command": f"run\n  {n}"}) for n in range(100)]
    text = mechanical_summary(
        [
            message(1, "user", Summary("## Task\nthe old story")),
            message(2, "assistant", *calls),
            message(3, "tool", *(ToolResult(call.id, "bash", "ok") for call in calls[:-1])),
        ]
    )
    assert "## Before\n## Task\nthe old story" in text
    assert "- (20 earlier calls)" in text
    assert "- bash run 19 " not in text
    assert "- bash run 98 (ok)\n- bash run 99 (unknown)" in text


def test_the_prompts_of_stopped_runs_are_not_kept() -> None:
    messages = [
        *[message(n, "user", Text(f"wish {n}"), run=f"run_{n}") for n in range(1, 8)],
        message(8, "assistant", Finish("cancelled"), run="run_6"),
        message(9, "user", Text("never sent"), run="run_9", unsent=True),
    ]
    assert earlier_prompts(messages, run_id="run_7") == ["wish 2", "wish 3", "wish 4", "wish 5"]


def test_files_in_use_are_those_that_calls_named_the_latest_first() -> None:
    patch = "*** Begin Patch\n*** Update File: c.py\n@@\n-a\n+b\n*** Add File: d.py\n+x\n*** End Patch"
    messages = [
        message(
            1, "assistant", ToolCall("c1", "view", {"path": "a.py"}), ToolCall("c2", "edit", {"file_path": "b.py"})
        ),
        message(2, "assistant", ToolCall("c3", "apply_patch", {"patch": patch}), ToolCall("c4", "view", {"path": 3})),
        message(3, "assistant", ToolCall("c5", "view", {"path": "a.py"})),
    ]
    assert files_in_use(messages) == ("a.py", "c.py", "d.py", "b.py")
