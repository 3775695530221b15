"""The script of a scripted model: rules and answers, written by hand in TOML or JSON.

::

    [[rules]]
    when = { step = 0, prompt = "(?i)readme" }
    do = [
      { type = "think", text = "I will look at it." },
      { type = "call", name = "view", arguments = { path = "README.md" } },
    ]

    [[rules]]
    when = { step = 1, tool = "view", result = "Holdfast" }
    do = [{ type = "say", text = "It begins with: {result}" }]

The first rule whose conditions all match answers. If no rule matches, the fallback answers. In texts, ``{prompt}`` is
replaced by the user's last prompt and ``{result}`` by the last tool's result.
"""

from __future__ import annotations

import tomllib
from typing import Any, TypeAlias

import msgspec

from holdfast.errors import ConfigError
from holdfast.models.protocol import StopReason
from holdfast.schema.base import Value
from holdfast.schema.usage import Usage


class ScriptedText(Value, frozen=True, tag_field="type", tag="say", forbid_unknown_fields=True):
    text: str
    chunk: int = 24
    """Characters per delta; 0 sends the text whole."""
    pace: float = 0.0
    """Seconds before each delta."""


class ScriptedReasoning(Value, frozen=True, tag_field="type", tag="think", forbid_unknown_fields=True):
    text: str
    chunk: int = 24
    pace: float = 0.0
    opaque: dict[str, Any] | None = None


class ScriptedCall(Value, frozen=True, tag_field="type", tag="call", forbid_unknown_fields=True):
    """A tool call. Several in one answer are parallel calls."""

    name: str
    arguments: dict[str, Any] = {}
    raw: str | None = None
    """Sent instead of the arguments, well formed or not."""
    id: str | None = None
    chunk: int = 24
    pace: float = 0.0


class ScriptedPause(Value, frozen=True, tag_field="type", tag="pause", forbid_unknown_fields=True):
    seconds: float


class ScriptedWait(Value, frozen=True, tag_field="type", tag="wait", forbid_unknown_fields=True):
    """Wait until a test releases this barrier."""

    barrier: str = "hang"


class ScriptedFailure(Value, frozen=True, tag_field="type", tag="fail", forbid_unknown_fields=True):
    """End the request with an error of this code: ``rate_limit``, ``overloaded``, ``context``, ``network`` …"""

    code: str
    message: str = "scripted failure"
    retry_after: float | None = None


class ScriptedUsage(Value, frozen=True, tag_field="type", tag="report", forbid_unknown_fields=True):
    """Report this usage instead of an estimate."""

    usage: Usage


class ScriptedStop(Value, frozen=True, tag_field="type", tag="end", forbid_unknown_fields=True):
    """End the answer with this reason instead of the one that follows from its content."""

    reason: StopReason
    detail: str = ""


ScriptAction: TypeAlias = (
    ScriptedText
    | ScriptedReasoning
    | ScriptedCall
    | ScriptedPause
    | ScriptedWait
    | ScriptedFailure
    | ScriptedUsage
    | ScriptedStop
)


class RuleCondition(Value, frozen=True, forbid_unknown_fields=True):
    """All fields that are set must match. Texts are regular expressions that may match anywhere."""

    step: int | None = None
    """The number of answers since the user's last prompt."""
    prompt: str | None = None
    """The user's last prompt."""
    result: str | None = None
    """The result of the last tool, if it is the last message."""
    tool: str | None = None
    """The name of that tool."""
    status: str | None = None
    """The status of its call."""
    system: str | None = None
    """The system prompt. Requests for titles and summaries have their own."""
    offered: str | None = None
    """The name of a tool that the request must offer."""


class ScriptRule(Value, frozen=True, forbid_unknown_fields=True):
    do: tuple[ScriptAction, ...]
    when: RuleCondition = RuleCondition()
    times: int = 0
    """The number of times the rule may answer; 0 is no limit."""


class ModelScript(Value, frozen=True, forbid_unknown_fields=True):
    answers: tuple[tuple[ScriptAction, ...], ...] = ()
    """Used first, one per request, without conditions."""
    rules: tuple[ScriptRule, ...] = ()
    fallback: tuple[ScriptAction, ...] = (
        ScriptedText(
            "This is the offline demo: no real model is connected, so I can only repeat what you said:\n\n{prompt}"
        ),
    )


def read_script(data: bytes, *, name: str) -> ModelScript:
    """Parse a script: JSON if the name ends with ``.json``, else TOML. Raises `ConfigError`."""
    try:
        if name.endswith(".json"):
            return msgspec.json.decode(data, type=ModelScript)
        return msgspec.convert(tomllib.loads(data.decode()), ModelScript)
    except (msgspec.DecodeError, tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"the script {name!r} is invalid: {error}") from None
