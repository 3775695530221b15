"""What a hook is, which hooks the settings define, and which of them an event concerns. Pure."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import Any, Final, Literal

from holdfast.config import Config
from holdfast.schema.base import Value
from holdfast.schema.hooks import HookEvent

HookDialect = Literal["holdfast", "claude"]
HookOrigin = Literal["user", "project", "policy"]

RunFilter = Literal["any", "user", "subagent"]
StatusFilter = Literal["any", "ok", "failed"]

_PROJECT_LAYERS: Final = frozenset({"project"})


class Hook(Value, frozen=True, kw_only=True):
    """One program that runs on one or more events."""

    name: str
    events: tuple[HookEvent, ...]
    argv: tuple[str, ...]
    tools: tuple[str, ...] = ()
    """Patterns of our names of tools; none: all tools."""
    matcher: str = ""
    """A regular expression of Claude Code's name of what the event is about; empty: everything."""
    timeout: float
    source: str = ""
    """Where it is configured."""
    origin: HookOrigin = "user"
    dialect: HookDialect = "holdfast"
    runs: RunFilter = "any"
    statuses: StatusFilter = "any"

    @property
    def command(self) -> str:
        """The command as its author wrote it."""
        return self.argv[-1] if self.dialect == "claude" else shlex.join(self.argv)

    def words(self) -> tuple[str, ...]:
        """The words of its command that may be paths of programs."""
        if self.dialect != "claude":
            return self.argv
        try:
            return tuple(shlex.split(self.command))
        except ValueError:
            return tuple(re.split(r"[\s;|&]+", self.command))


class HookSubject(Value, frozen=True, kw_only=True):
    """What an event is about, as far as hooks choose by it."""

    event: HookEvent
    tool: str = ""
    """Our name of the tool; empty if the event has none."""
    names: tuple[str, ...] = ()
    """What a matcher of Claude Code is compared with."""
    is_subagent: bool = False
    failed: bool = False
    """Whether the call failed, for ``after_tool``."""


def concerns(hook: Hook, subject: HookSubject) -> bool:
    """Whether a hook runs for an event."""
    if subject.event not in hook.events:
        return False
    if hook.runs != "any" and (hook.runs == "subagent") != subject.is_subagent:
        return False
    if hook.statuses != "any" and (hook.statuses == "failed") != subject.failed:
        return False
    if subject.tool and hook.tools and not any(fnmatchcase(subject.tool, pattern) for pattern in hook.tools):
        return False
    return not hook.matcher or bool(matched_names(hook, subject))


def matched_names(hook: Hook, subject: HookSubject) -> tuple[str, ...]:
    """The names that the hook's matcher matches as a whole. Without a matcher, all."""
    if not hook.matcher:
        return subject.names
    return tuple(name for name in subject.names if re.fullmatch(hook.matcher, name))


def configured_hooks(config: Config, *, home: str) -> tuple[Hook, ...]:
    """The enabled hooks of the settings, in their order. A word that begins with ``~/`` is a path below ``home``."""
    return tuple(
        Hook(
            name=name,
            events=found.events,
            argv=tuple(f"{home}{word[1:]}" if home and word.startswith("~/") else word for word in found.command),
            tools=found.tools,
            timeout=float(found.timeout),
            source=_source(config, name),
            origin=_origin(config, name),
        )
        for name, found in config.settings.hooks.items()
        if found.enabled
    )


def _origin(config: Config, name: str) -> HookOrigin:
    layers = {origin.layer for path, origin in config.origins.items() if path[:2] == ("hooks", name)}
    if "policy" in layers:
        return "policy"
    return "project" if layers & _PROJECT_LAYERS else "user"


def _source(config: Config, name: str) -> str:
    places = [origin.place for path, origin in config.origins.items() if path[:2] == ("hooks", name)]
    return places[0] if places else ""


def describe(hook: Hook) -> str:
    """A sentence for people: when it runs, and what."""
    about = ", ".join(hook.tools) if hook.tools else hook.matcher
    when = f"{', '.join(hook.events)}{f' for {about}' if about and about != '*' else ''}"
    return f"{when}: {hook.command}"


def variables_of(hook: Hook, fields: Mapping[str, Any], *, workspace: str) -> dict[str, str]:
    """The environment variables that a hook gets besides those of commands."""
    found = {
        "HOLDFAST_HOOK": hook.name,
        "HOLDFAST_EVENT": str(fields.get("event", "")),
        "HOLDFAST_WORKSPACE": workspace,
        "HOLDFAST_SESSION": str(fields.get("session_id", "")),
        "HOLDFAST_RUN": str(fields.get("run_id", "")),
        "HOLDFAST_TOOL": str(fields.get("tool", "")),
    }
    return found if hook.dialect == "holdfast" else {**found, "CLAUDE_PROJECT_DIR": workspace}
