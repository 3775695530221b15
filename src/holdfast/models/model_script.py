"""What a scripted model says: data that can be written by hand in TOML or JSON.

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

The first rule whose conditions all hold answers; without one, the fallback does. In texts ``{prompt}`` stands for what
the user said last and ``{result}`` for what the last tool said.
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
    """Characters per delta; 0 gives it out whole."""
    pace: float = 0.0
    """Seconds before each delta."""


class ScriptedReasoning(Value, frozen=True, tag_field="type", tag="think", forbid_unknown_fields=True):
    text: str
    chunk: int = 24
    pace: float = 0.0
    opaque: dict[str, Any] | None = None


class ScriptedCall(Value, frozen=True, tag_field="type", tag="call", forbid_unknown_fields=True):
    """A tool call; several in one answer are parallel ones."""

    name: str
    arguments: dict[str, Any] = {}
    raw: str | None = None
    """Sent in place of the arguments, well formed or not."""
    id: str | None = None
    chunk: int = 24
    pace: float = 0.0


class ScriptedPause(Value, frozen=True, tag_field="type", tag="pause", forbid_unknown_fields=True):
    seconds: float


class ScriptedWait(Value, frozen=True, tag_field="type", tag="wait", forbid_unknown_fields=True):
    """Until a test releases this barrier; for ever if nobody does."""

    barrier: str = "hang"


class ScriptedFailure(Value, frozen=True, tag_field="type", tag="fail", forbid_unknown_fields=True):
    """Ends the request with an error of this code: ``rate_limit``, ``overloaded``, ``context``, ``network`` …"""

    code: str
    message: str = "the script says so"
    retry_after: float | None = None


class ScriptedUsage(Value, frozen=True, tag_field="type", tag="report", forbid_unknown_fields=True):
    """Usage, in place of an estimate."""

    usage: Usage


class ScriptedStop(Value, frozen=True, tag_field="type", tag="end", forbid_unknown_fields=True):
    """Why the answer ends, in place of what follows from it."""

    reason: StopReason
    detail: str = ""


ScriptedAct: TypeAlias = (
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
    """Conditions; what is not said does not matter. Texts are regular expressions, found anywhere."""

    step: int | None = None
    """Answers already given since the user last said something."""
    prompt: str | None = None
    """What the user said last."""
    result: str | None = None
    """What the last tool said, if it was the last to speak."""
    tool: str | None = None
    """The name of that tool."""
    status: str | None = None
    """How its call ended."""
    system: str | None = None
    """Anything in the system prompt; tells titles and summaries from the work itself."""
    offered: str | None = None
    """A tool that must be on offer."""


class ScriptRule(Value, frozen=True, forbid_unknown_fields=True):
    do: tuple[ScriptedAct, ...]
    when: RuleCondition = RuleCondition()
    times: int = 0
    """How often it may answer; 0: always."""


class ModelScript(Value, frozen=True, forbid_unknown_fields=True):
    answers: tuple[tuple[ScriptedAct, ...], ...] = ()
    """Used up first, one per request, whatever is asked."""
    rules: tuple[ScriptRule, ...] = ()
    fallback: tuple[ScriptedAct, ...] = (
        ScriptedText(
            "This is the offline demo: no real model is connected, so I can only repeat what you said:\n\n{prompt}"
        ),
    )


def read_script(data: bytes, *, name: str) -> ModelScript:
    """A script from TOML, or from JSON if the name ends so. `ConfigError` says where it is wrong."""
    try:
        if name.endswith(".json"):
            return msgspec.json.decode(data, type=ModelScript)
        return msgspec.convert(tomllib.loads(data.decode()), ModelScript)
    except (msgspec.DecodeError, tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"the script {name!r} cannot be read: {error}") from None
