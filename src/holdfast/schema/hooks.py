"""Hooks: programs of the user that run at certain moments of a run, and what they decide."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Literal

import msgspec

from holdfast.schema.base import Value

HookEvent = Literal[
    "session_start",
    "prompt",
    "before_tool",
    "after_tool",
    "before_end",
    "end",
    "approval",
    "compaction",
    "notification",
]
HookDecision = Literal["allow", "ask", "deny"]
"""From the weakest to the strongest: of several hooks the strongest decision counts."""

HookOutcome = Literal["ok", "allowed", "asked", "denied", "changed", "added", "stopped", "failed"]


class HookRecord(Value, frozen=True, omit_defaults=True):
    """One execution of a hook, as clients show it."""

    name: str
    event: HookEvent
    outcome: HookOutcome
    seconds: float
    detail: str = ""
    """The reason of a decision, or why the hook failed."""


class HookVerdict(Value, frozen=True):
    """What the hooks of one event decided together."""

    decision: HookDecision | None = None
    reason: str = ""
    """Why, with the names of the hooks."""
    input: dict[str, Any] | None = None
    """The input that replaces that of the call."""
    context: str = ""
    """What the model is told, with the names of the hooks."""
    stop: str = ""
    """Why the run must end; empty: it goes on."""
    records: tuple[HookRecord, ...] = ()


NO_VERDICT = HookVerdict()


def describe_hook(record: HookRecord) -> str:
    """One line about an execution, for people."""
    words = {"changed": "changed the input", "added": "added context", "stopped": "stopped the run"}
    detail = f": {record.detail}" if record.detail else ""
    outcome = words.get(record.outcome, record.outcome)
    return f"hook {record.name} ({record.event}) {outcome} in {record.seconds:.2f} s{detail}"


def hook_lines(display: Mapping[str, Any], *, without: Collection[str] = ()) -> list[str]:
    """The hooks that ran for a tool call, a line each, from what its result says for clients.

    ``without``: outcomes to leave out. A record of another version that is not understood is left out.
    """
    given = display.get("hooks")
    found = []
    for item in given if isinstance(given, list | tuple) else ():
        try:
            record = msgspec.convert(item, HookRecord)
        except msgspec.ValidationError:
            continue
        if record.outcome not in without:
            found.append(describe_hook(record))
    return found
