"""Speak to hooks that were written for Claude Code: their names, their input, their answers. Pure.

Facts about the format come from its public reference. A hook that expects a transcript file gets an empty path.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping
from typing import Any, Final

from holdfast.extend.hooks.claude_settings import CLAUDE_EVENTS
from holdfast.extend.hooks.hook_answers import (
    MAX_CONTEXT,
    MAX_REASON,
    HookAnswer,
    ProcessResult,
    possible_answer,
    read_object,
)
from holdfast.extend.hooks.hook_definitions import Hook
from holdfast.schema.hooks import HookDecision, HookEvent

_TOOLS: Final[Mapping[str, tuple[str, ...]]] = {
    "bash": ("Bash",),
    "view": ("Read",),
    "edit": ("Edit",),
    "multiedit": ("MultiEdit", "Edit"),
    "write": ("Write",),
    "apply_patch": ("Edit", "Write", "MultiEdit"),
    "grep": ("Grep",),
    "glob": ("Glob",),
    "ls": ("LS",),
    "fetch": ("WebFetch",),
    "download": ("WebFetch", "Write"),
    "web_search": ("WebSearch",),
    "agent": ("Task", "Agent"),
    "todos": ("TodoWrite",),
    "ask": ("AskUserQuestion",),
    "job_output": ("BashOutput", "TaskOutput"),
    "job_kill": ("KillShell", "TaskStop"),
    "skill": ("Skill",),
}
"""Claude Code's names of our tools. A tool that can do what several of its tools do has the names of all."""
_FILE_ARGUMENTS: Final = {"path": "file_path", "old_text": "old_string", "new_text": "new_string"}
_ARGUMENTS: Final[Mapping[str, Mapping[str, str]]] = {
    **dict.fromkeys(("view", "edit", "write", "multiedit", "download"), _FILE_ARGUMENTS),
    "bash": {"background": "run_in_background", "reason": "description"},
    "grep": {"include": "glob", "ignore_case": "-i", "output": "output_mode"},
    "agent": {"title": "description", "agent": "subagent_type"},
}
"""Their names of arguments by ours."""
_MODES: Final = {"ask": "default", "accept_edits": "acceptEdits", "plan": "plan", "auto": "bypassPermissions"}
_SOURCES: Final = {"new": "startup", "resumed": "resume"}
_TRIGGERS: Final = {"request": "manual", "auto": "auto"}
_NOTIFICATIONS: Final = {"approval": "permission_prompt", "question": "elicitation_dialog"}
_PATCHED: Final = re.compile(
    r"^(?:\*\*\* (?:Add|Update|Delete) File: |\*\*\* Move to: |\+\+\+ (?:b/)?|--- (?:a/)?)(.+)$", re.MULTILINE
)
_DECISIONS: Final[Mapping[str, HookDecision | None]] = {
    "allow": "allow",
    "approve": "allow",
    "deny": "deny",
    "block": "deny",
    "ask": "ask",
    "defer": None,
}


def claude_names(event: HookEvent, fields: Mapping[str, Any]) -> tuple[str, ...]:
    """What a matcher is compared with: names of the tool, or what else the event is about."""
    match event:
        case "before_tool" | "after_tool" | "approval":
            tool = str(fields.get("tool", ""))
            return _TOOLS.get(tool) or ((f"mcp__{tool}",) if "__" in tool else (tool,))
        case "session_start":
            return (_SOURCES.get(str(fields.get("source")), "startup"),)
        case "compaction":
            return (_TRIGGERS.get(str(fields.get("trigger")), "auto"),)
        case "notification":
            return (_NOTIFICATIONS.get(str(fields.get("about")), "idle_prompt"),)
        case _:
            return ()


def claude_inputs(hook: Hook, fields: Mapping[str, Any], *, name: str, workspace: str) -> list[dict[str, Any]]:
    """The objects that a hook gets on stdin, one per execution. A patch counts as one edit per file."""
    event: HookEvent = fields["event"]
    filter_name = hook.runs if hook.runs != "any" else hook.statuses
    common = {
        "session_id": fields.get("session_id", ""),
        "transcript_path": "",
        "cwd": workspace,
        "permission_mode": _MODES.get(str(fields.get("mode")), "default"),
        "hook_event_name": CLAUDE_EVENTS[event, filter_name],
    }
    match event:
        case "before_tool" | "after_tool" | "approval":
            return [{**common, **one} for one in _tool_fields(event, fields, name=name, workspace=workspace)]
        case "prompt":
            return [{**common, "prompt": fields.get("prompt", "")}]
        case "session_start":
            return [{**common, "source": claude_names(event, fields)[0]}]
        case "before_end":
            answer = {"last_assistant_message": fields.get("answer", "")}
            return [{**common, "stop_hook_active": fields.get("sent_back", False), **answer}]
        case "compaction":
            wish = {"custom_instructions": fields.get("instruction", "")}
            return [{**common, "trigger": claude_names(event, fields)[0], **wish}]
        case "notification":
            kind = {"notification_type": claude_names(event, fields)[0]}
            return [{**common, "message": fields.get("text", ""), **kind}]
        case "end":
            return []


def _tool_fields(event: HookEvent, fields: Mapping[str, Any], *, name: str, workspace: str) -> list[dict[str, Any]]:
    tool, given = str(fields["tool"]), fields.get("input") or {}
    found: dict[str, Any] = {"tool_name": name, "tool_use_id": fields.get("call_id", "")}
    if event == "after_tool":
        text = fields.get("output", "")
        found["tool_response"] = (
            {"stdout": text, "stderr": "", "interrupted": False} if tool == "bash" else {"content": text}
        )
        if fields.get("status") != "ok":
            found["error"] = text
    return [{**found, "tool_input": one} for one in _tool_inputs(tool, given, workspace=workspace)]


def _tool_inputs(tool: str, given: Mapping[str, Any], *, workspace: str) -> list[dict[str, Any]]:
    if tool == "apply_patch":
        patch = str(given.get("patch", ""))
        paths = [path.strip() for path in _PATCHED.findall(patch) if path.strip() != "/dev/null"]
        return [{"file_path": posixpath.join(workspace, path), "content": patch} for path in dict.fromkeys(paths)] or [
            {"file_path": "", "content": patch}
        ]
    renamed = _ARGUMENTS.get(tool, {})
    found = {renamed.get(key, key): value for key, value in given.items()}
    if isinstance(path := found.get("file_path"), str):
        found["file_path"] = posixpath.join(workspace, path)
    if tool == "bash" and (seconds := found.pop("timeout", 0)):
        found["timeout"] = int(seconds * 1000)
    if tool == "multiedit":
        found["edits"] = [
            {_FILE_ARGUMENTS.get(key, key): value for key, value in edit.items()}
            for edit in found.get("edits") or ()
            if isinstance(edit, dict)
        ]
    return [found]


def own_input(tool: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """A replaced input with our names of the arguments."""
    own = {theirs: ours for ours, theirs in _ARGUMENTS.get(tool, {}).items()}
    found = {own.get(key, key): value for key, value in given.items()}
    if tool == "bash" and isinstance(milliseconds := found.get("timeout"), int | float):
        found["timeout"] = milliseconds / 1000
    if tool == "multiedit" and isinstance(edits := found.get("edits"), list):
        found["edits"] = [
            {own.get(key, key): value for key, value in edit.items()} if isinstance(edit, dict) else edit
            for edit in edits
        ]
    return found


def read_claude_answer(event: HookEvent, result: ProcessResult, *, tool: str = "") -> HookAnswer:
    """Read the answer of a hook that was written for Claude Code. Keys that mean nothing here are ignored."""
    found = read_object(event, result)
    if isinstance(found, HookAnswer):
        return found
    own = found.get("hookSpecificOutput")
    own = own if isinstance(own, dict) else {}
    request = own.get("decision")
    request = request if isinstance(request, dict) else {}
    given = own.get("permissionDecision") or request.get("behavior") or found.get("decision")
    if given is not None and (not isinstance(given, str) or given not in _DECISIONS):
        return HookAnswer(failure=f"its answer is not used: unknown decision {str(given)[:40]!r}")
    reason = own.get("permissionDecisionReason") or request.get("message") or found.get("reason")
    changed = own.get("updatedInput", request.get("updatedInput"))
    context = own.get("additionalContext")
    stop = str(found.get("stopReason") or "it stopped the run") if found.get("continue") is False else ""
    answer = HookAnswer(
        decision=_DECISIONS[given] if given is not None else None,
        reason=str(reason or "")[:MAX_REASON],
        input=own_input(tool, changed) if isinstance(changed, dict) else None,
        context=str(context or "")[:MAX_CONTEXT],
        stop=stop[:MAX_REASON],
    )
    return _possible(event, answer)


def _possible(event: HookEvent, answer: HookAnswer) -> HookAnswer:
    """An approving decision where there is nothing to approve means nothing."""
    if event not in ("before_tool", "approval") and answer.decision == "allow":
        answer = HookAnswer(context=answer.context, stop=answer.stop)
    return possible_answer(event, answer)
