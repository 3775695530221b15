"""Read the hooks in a settings file of Claude Code, and say which of them cannot be used here. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec

from holdfast.extend.hooks.hook_definitions import Hook, HookOrigin, RunFilter, StatusFilter
from holdfast.schema.hooks import HookEvent

DEFAULT_SECONDS: Final = 60.0
MAX_SECONDS: Final = 600.0


class _Mapped(NamedTuple):
    event: HookEvent
    runs: RunFilter = "any"
    statuses: StatusFilter = "any"


_EVENTS: Final = {
    "PreToolUse": _Mapped("before_tool"),
    "PostToolUse": _Mapped("after_tool", statuses="ok"),
    "PostToolUseFailure": _Mapped("after_tool", statuses="failed"),
    "UserPromptSubmit": _Mapped("prompt"),
    "SessionStart": _Mapped("session_start"),
    "Stop": _Mapped("before_end", runs="user"),
    "SubagentStop": _Mapped("before_end", runs="subagent"),
    "PreCompact": _Mapped("compaction"),
    "PermissionRequest": _Mapped("approval"),
    "Notification": _Mapped("notification"),
}
CLAUDE_EVENTS: Final = {
    (mapped.event, mapped.runs if mapped.runs != "any" else mapped.statuses): name for name, mapped in _EVENTS.items()
}
_NO_EVENT: Final = {
    "SessionEnd": "sessions do not end here; use the event 'end', which follows every run",
    "SubagentStart": "there is no event at the start of a sub-agent",
    "PostCompact": "there is no event after a compaction",
}


class UnmappedHook(NamedTuple):
    """A hook of the file that is not used, and why."""

    name: str
    why: str


class ClaudeHooks(NamedTuple):
    hooks: tuple[Hook, ...] = ()
    unmapped: tuple[UnmappedHook, ...] = ()


def read_claude_hooks(data: bytes, *, path: Path, origin: HookOrigin) -> ClaudeHooks:
    """Return the hooks of a settings file. What is not understood is unmapped; nothing is guessed."""
    try:
        document = msgspec.json.decode(data)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return ClaudeHooks((), (UnmappedHook(f"claude {path.name}", "the file is not valid JSON"),))
    events = document.get("hooks") if isinstance(document, dict) else None
    if not isinstance(events, dict) or not events:
        return ClaudeHooks()
    if document.get("disableAllHooks") is True:
        return ClaudeHooks((), (UnmappedHook(f"claude {path.name}", "the file sets disableAllHooks"),))
    found = list(_entries(events, path=path, origin=origin))
    hooks = tuple(one for one in found if isinstance(one, Hook))
    return ClaudeHooks(hooks, tuple(one for one in found if isinstance(one, UnmappedHook)))


def _entries(events: dict[str, Any], *, path: Path, origin: HookOrigin) -> Iterator[Hook | UnmappedHook]:
    scope = "user" if origin == "user" else "local" if path.name == "settings.local.json" else "project"
    for event, groups in events.items():
        number = 0
        for group in groups if isinstance(groups, list) else [groups]:
            listed = group.get("hooks") if isinstance(group, dict) else None
            for entry in listed if isinstance(listed, list) else [None]:
                number += 1
                name = f"claude-{scope}-{event}-{number}"
                matcher = group.get("matcher") if isinstance(group, dict) else None
                found = _hook(event, matcher, entry, name=name, path=path, origin=origin)
                yield UnmappedHook(name, found) if isinstance(found, str) else found


def _hook(event: str, matcher: Any, entry: Any, *, name: str, path: Path, origin: HookOrigin) -> Hook | str:
    """Return the hook, or why it cannot be used."""
    mapped = _EVENTS.get(event)
    if mapped is None:
        return _NO_EVENT.get(event, f"the event {event!r} does not exist here")
    if not isinstance(entry, dict):
        return "it is not written as Claude Code's settings are"
    if entry.get("type", "command") != "command":
        return f"hooks of the type {entry['type']!r} are not supported, only commands"
    command = entry.get("command")
    if not isinstance(command, str) or not command.strip() or "\0" in command:
        return "it has no command"
    for key, why in (
        ("async", "it is meant to go on beside the work, and nothing may be left running"),
        ("asyncRewake", "it is meant to go on beside the work, and nothing may be left running"),
        ("if", "its condition 'if' is not understood"),
        ("once", "hooks that run only once are not supported"),
        ("args", "a command with separate arguments is not supported"),
    ):
        if entry.get(key):
            return why
    if entry.get("shell", "bash") != "bash":
        return f"the shell {entry['shell']!r} is not supported"
    pattern = "" if matcher in (None, "", "*") else matcher
    if not isinstance(pattern, str) or not _is_regex(pattern):
        return f"its matcher {matcher!r} is not a regular expression"
    timeout = entry.get("timeout", DEFAULT_SECONDS)
    if isinstance(timeout, bool) or not isinstance(timeout, int | float) or not timeout > 0:
        return f"its timeout {timeout!r} is not a number of seconds"
    return Hook(
        name=name,
        events=(mapped.event,),
        argv=("bash", "-c", command),
        matcher=pattern,
        timeout=min(float(timeout), MAX_SECONDS),
        source=str(path),
        origin=origin,
        dialect="claude",
        runs=mapped.runs,
        statuses=mapped.statuses,
    )


def _is_regex(text: str) -> bool:
    try:
        re.compile(text)
    except (re.error, RecursionError, OverflowError):
        return False
    return True
