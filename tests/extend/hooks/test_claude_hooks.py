"""Hooks that were written for Claude Code: what is mapped, what is not, and how they are spoken to."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given as given_values
from hypothesis import strategies as st

from holdfast.extend.hooks.claude_dialect import claude_inputs, claude_names, own_input, read_claude_answer
from holdfast.extend.hooks.claude_settings import ClaudeHooks, read_claude_hooks
from holdfast.extend.hooks.hook_answers import HookAnswer, ProcessResult
from holdfast.extend.hooks.hook_definitions import Hook, HookSubject, concerns
from holdfast.schema.hooks import HookEvent

PATH = Path("/work/.claude/settings.json")


def read(document: object) -> ClaudeHooks:
    return read_claude_hooks(json.dumps(document).encode(), path=PATH, origin="project")


def entry(event: str, matcher: str | None = None, **fields: Any) -> dict[str, Any]:
    group: dict[str, Any] = {"hooks": [{"type": "command", "command": "check.sh", **fields}]}
    return {"hooks": {event: [group if matcher is None else {"matcher": matcher, **group}]}}


def only(document: object) -> Hook:
    [hook] = read(document).hooks
    return hook


def answer(event: HookEvent, output: object, *, code: int = 0, errors: str = "", tool: str = "bash") -> HookAnswer:
    text = output if isinstance(output, str) else json.dumps(output)
    result = ProcessResult(exit_code=code, output=text.encode(), errors=errors.encode())
    return read_claude_answer(event, result, tool=tool)


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        ("PreToolUse", "before_tool"),
        ("PostToolUse", "after_tool"),
        ("PostToolUseFailure", "after_tool"),
        ("UserPromptSubmit", "prompt"),
        ("SessionStart", "session_start"),
        ("Stop", "before_end"),
        ("SubagentStop", "before_end"),
        ("PreCompact", "compaction"),
        ("PermissionRequest", "approval"),
        ("Notification", "notification"),
    ],
)
def test_events_are_mapped(theirs: str, ours: str) -> None:
    hook = only(entry(theirs))
    assert (hook.events, hook.argv, hook.timeout) == ((ours,), ("bash", "-c", "check.sh"), 60.0)
    assert (hook.name, hook.source, hook.dialect) == (f"claude-project-{theirs}-1", str(PATH), "claude")


@pytest.mark.parametrize(
    ("document", "why"),
    [
        (entry("SessionEnd"), "sessions do not end here"),
        (entry("WorktreeCreate"), "the event 'WorktreeCreate' does not exist here"),
        (entry("PreToolUse", type="prompt"), "hooks of the type 'prompt' are not supported"),
        (entry("PreToolUse", type="http"), "hooks of the type 'http' are not supported"),
        (entry("PreToolUse", command=""), "it has no command"),
        (entry("Stop", **{"async": True}), "nothing may be left running"),
        (entry("PreToolUse", **{"if": "Bash(git *)"}), "its condition 'if' is not understood"),
        (entry("PreToolUse", "Bash("), "is not a regular expression"),
        (entry("PreToolUse", timeout=-1), "is not a number of seconds"),
        (entry("PreToolUse", shell="powershell"), "the shell 'powershell' is not supported"),
        ({"hooks": {"PreToolUse": ["check.sh"]}}, "it is not written as Claude Code's settings are"),
        ({"hooks": {"PreToolUse": [{}]}, "disableAllHooks": True}, "the file sets disableAllHooks"),
    ],
)
def test_what_cannot_be_mapped_is_named_with_the_reason(document: object, why: str) -> None:
    found = read(document)
    assert found.hooks == ()
    assert [why in one.why for one in found.unmapped] == [True]


def test_a_damaged_file_is_told_and_other_settings_are_ignored() -> None:
    [damaged] = read_claude_hooks(b"{", path=PATH, origin="user").unmapped
    assert damaged.why == "the file is not valid JSON"
    assert read({"permissions": {"allow": ["Bash"]}}) == ClaudeHooks()
    assert read([]) == ClaudeHooks()


@pytest.mark.parametrize(
    ("matcher", "tool", "runs"),
    [
        ("Bash", "bash", True),
        ("Bash", "view", False),
        ("Edit|Write", "apply_patch", True),
        ("Edit|Write", "edit", True),
        ("Write", "multiedit", False),
        ("*", "view", True),
        ("", "view", True),
        ("mcp__github__.*", "github__create_issue", True),
        ("Ba", "bash", False),
    ],
)
def test_matchers_see_their_own_names_of_tools(matcher: str, tool: str, runs: bool) -> None:
    hook = only(entry("PreToolUse", matcher))
    names = claude_names("before_tool", {"tool": tool})
    assert concerns(hook, HookSubject(event="before_tool", tool=tool, names=names)) is runs


def test_stop_is_for_runs_of_the_user_and_failures_have_their_own_event() -> None:
    stop, subagent = only(entry("Stop")), only(entry("SubagentStop"))
    for is_subagent in (False, True):
        subject = HookSubject(event="before_end", is_subagent=is_subagent)
        assert (concerns(stop, subject), concerns(subagent, subject)) == (not is_subagent, is_subagent)
    done, failed = only(entry("PostToolUse")), only(entry("PostToolUseFailure"))
    for has_failed in (False, True):
        subject = HookSubject(event="after_tool", tool="bash", names=("Bash",), failed=has_failed)
        assert (concerns(done, subject), concerns(failed, subject)) == (not has_failed, has_failed)


def inputs(document: object, **fields: Any) -> list[dict[str, Any]]:
    hook = only(document)
    return claude_inputs(hook, {"event": hook.events[0], "mode": "ask", **fields}, name="Edit", workspace="/work")


def test_a_hook_gets_the_input_that_it_knows() -> None:
    [given] = inputs(
        entry("PreToolUse"),
        tool="edit",
        call_id="call_1",
        session_id="ses_1",
        input={"path": "src/a.py", "old_text": "a", "new_text": "b", "replace_all": False},
    )
    assert given == {
        "session_id": "ses_1",
        "transcript_path": "",
        "cwd": "/work",
        "permission_mode": "default",
        "hook_event_name": "PreToolUse",
        "tool_name": "Edit",
        "tool_use_id": "call_1",
        "tool_input": {"file_path": "/work/src/a.py", "old_string": "a", "new_string": "b", "replace_all": False},
    }
    [stop] = inputs(entry("Stop"), answer="done", sent_back=True)
    assert (stop["hook_event_name"], stop["stop_hook_active"]) == ("Stop", True)
    [prompt] = inputs(entry("UserPromptSubmit"), prompt="hello")
    assert prompt["prompt"] == "hello"


def test_a_patch_is_shown_as_an_edit_of_each_file() -> None:
    patch = "*** Begin Patch\n*** Update File: a.py\n@@\n-x\n+y\n*** Add File: .env\n+SECRET\n*** End Patch\n"
    given = inputs(entry("PreToolUse", "Edit|Write"), tool="apply_patch", input={"patch": patch})
    assert [one["tool_input"]["file_path"] for one in given] == ["/work/a.py", "/work/.env"]


def test_answers_are_read() -> None:
    specific = {"hookSpecificOutput": {"hookEventName": "PreToolUse", "permissionDecision": "deny"}}
    specific["hookSpecificOutput"]["permissionDecisionReason"] = "no"
    assert answer("before_tool", specific) == HookAnswer(decision="deny", reason="no")
    assert answer("before_tool", {"decision": "block", "reason": "no"}) == HookAnswer(decision="deny", reason="no")
    assert answer("before_tool", {"decision": "approve"}) == HookAnswer(decision="allow")
    assert answer("before_end", {"decision": "block", "reason": "tests"}) == HookAnswer(decision="deny", reason="tests")
    assert answer("before_end", {"decision": "approve"}) == HookAnswer()
    assert answer("prompt", "plain") == HookAnswer(context="plain")
    added = {"hookSpecificOutput": {"additionalContext": "a fact"}, "suppressOutput": True}
    assert answer("after_tool", added) == HookAnswer(context="a fact")
    assert answer("after_tool", {"continue": False, "stopReason": "enough"}) == HookAnswer(stop="enough")
    request = {"hookSpecificOutput": {"decision": {"behavior": "deny", "message": "no"}}}
    assert answer("approval", request) == HookAnswer(decision="deny", reason="no")
    assert answer("before_tool", "", code=2, errors="no") == HookAnswer(decision="deny", reason="no")
    assert answer("before_tool", "", code=1, errors="boom").failure == "exit code 1: boom"
    assert "unknown decision" in answer("before_tool", {"decision": "perhaps"}).failure


def test_a_replaced_input_has_our_names_again() -> None:
    updated = {"hookSpecificOutput": {"updatedInput": {"command": "ls", "timeout": 5000, "run_in_background": False}}}
    assert answer("before_tool", updated).input == {"command": "ls", "timeout": 5.0, "background": False}
    assert own_input("edit", {"file_path": "a", "old_string": "b"}) == {"path": "a", "old_text": "b"}


KEYS = (
    "hooks PreToolUse Stop matcher type command timeout if shell decision hookSpecificOutput permissionDecision"
    " updatedInput edits behavior continue additionalContext"
)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.sampled_from(["command", "allow", "", "(", "bash", "x"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS.split()), inner, max_size=4),
    max_leaves=20,
)


@given_values(VALUES)
def test_no_settings_make_the_reader_fail(document: object) -> None:
    for hook in read({"hooks": document}).hooks:
        assert hook.timeout > 0


@given_values(VALUES, st.sampled_from(["bash", "multiedit", "edit"]))
def test_no_answer_makes_the_reader_fail(output: object, tool: str) -> None:
    assert isinstance(answer("before_tool", {"decision": output}, tool=tool), HookAnswer)
    assert isinstance(answer("before_tool", {"hookSpecificOutput": output}, tool=tool), HookAnswer)
    changed = {"hookSpecificOutput": {"updatedInput": {"edits": output, "timeout": output}}}
    assert isinstance(answer("before_tool", changed, tool=tool), HookAnswer)
