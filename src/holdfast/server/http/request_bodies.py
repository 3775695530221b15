"""What clients send, as types. Their bounds are in the OpenAPI description too."""

from __future__ import annotations

from datetime import date
from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, UnsetType

from holdfast.schema.approvals import Decision
from holdfast.schema.runs import After, Delivery, Mode, RunState
from holdfast.server.http.endpoint import Body, Query

Id = Annotated[
    str, Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.:-]{0,127}$(?!\n)", description="1 to 128 plain characters.")
]
Title = Annotated[str, Meta(max_length=500)]
Short = Annotated[str, Meta(min_length=1, max_length=200)]


_WORDS = r"[^\s\x1c-\x1f\x85]"
"""Anything but blanks, also of those that only some of the languages count as such."""


class OpenBody(Body, frozen=True):
    """The directory to open."""

    path: Annotated[str, Meta(pattern=r"^/", max_length=4096, description="An absolute path.")]


class StopBody(Body, frozen=True):
    if_idle: bool = False
    """Only if nothing is unfinished; else ``409``."""


class SessionBody(Body, frozen=True):
    title: Title = ""


class SessionPatch(Body, frozen=True):
    title: Title | UnsetType = UNSET
    archived: bool | UnsetType = UNSET


class Attachment(Body, frozen=True, tag_field="type", tag="file"):
    """A file that goes with a prompt: its text, or its bytes as base64."""

    described = {
        "oneOf": [
            {"required": ["text"], "properties": {"text": {"type": "string"}, "data": {"type": "null"}}},
            {"required": ["data"], "properties": {"data": {"type": "string"}, "text": {"type": "null"}}},
        ]
    }

    name: Annotated[str, Meta(min_length=1, max_length=1000)]
    media_type: Annotated[str, Meta(pattern=r"^[!-~]{1,100}$(?!\n)")]
    text: str | None = None
    data: Annotated[str, Meta(pattern=r"^[A-Za-z0-9+/]*={0,2}$(?!\n)")] | None = None


class LimitsBody(Body, frozen=True):
    max_steps: Annotated[int, Meta(ge=1, le=1_000_000)] | None = None
    max_seconds: Annotated[float, Meta(gt=0, le=31_536_000)] | None = None
    max_cost: Annotated[float, Meta(ge=0, le=1_000_000)] | None = None


class PromptBody(Body, frozen=True):
    """A prompt and the settings of its run. Without words, it needs an attached text."""

    described = {
        "anyOf": [
            {"required": ["prompt"], "properties": {"prompt": {"pattern": _WORDS}}},
            {
                "required": ["attachments"],
                "properties": {
                    "attachments": {
                        "contains": {"required": ["text"], "properties": {"text": {"type": "string", "minLength": 1}}}
                    }
                },
            },
        ]
    }

    prompt: str = ""
    run_id: Id | None = None
    """Chosen by the client: sending the same again is the same run."""
    attachments: Annotated[tuple[Attachment, ...], Meta(max_length=100)] = ()
    delivery: Delivery = "queue"
    after: After = "any"
    model: Short | None = None
    mode: Mode | None = None
    limits: LimitsBody = LimitsBody()
    interactive: bool = True
    effort: Short | None = None
    output_schema: dict[str, Any] | None = None


class FirstPromptBody(PromptBody, frozen=True):
    """The same, for the first run of a new session."""

    title: Title = ""


class LaneBody(Body, frozen=True):
    """A command that goes through the lane like a prompt."""

    run_id: Id | None = None


class ShellBody(LaneBody, frozen=True, kw_only=True):
    command: Annotated[str, Meta(pattern=_WORDS, max_length=20_000)]


class UndoBody(LaneBody, frozen=True):
    to_message_id: Id | None = None


class RunPatch(Body, frozen=True):
    """At least one of the two."""

    described = {"minProperties": 1}

    prompt: str | UnsetType = UNSET
    """Without words only where a text is attached."""
    position: Annotated[int, Meta(ge=0, le=1_000_000)] | UnsetType = UNSET


class CancelBody(Body, frozen=True):
    scope: Literal["session", "active"] = "session"


class ForkBody(Body, frozen=True):
    message_id: Id | None = None


class ApprovalBody(Body, frozen=True):
    decision: Decision
    pattern: Annotated[tuple[Annotated[str, Meta(min_length=1, max_length=4000)], ...], Meta(max_length=50)] = ()
    feedback: Annotated[str, Meta(max_length=20_000)] = ""


class QuestionBody(Body, frozen=True):
    """Either the answers, one list per question, or that there will be none."""

    described = {
        "oneOf": [
            {"required": ["answers"], "properties": {"answers": {"type": "array"}, "dismiss": {"const": False}}},
            {"required": ["dismiss"], "properties": {"answers": {"type": "null"}, "dismiss": {"const": True}}},
        ]
    }

    answers: (
        Annotated[
            tuple[Annotated[tuple[Annotated[str, Meta(max_length=20_000)], ...], Meta(max_length=50)], ...],
            Meta(max_length=10),
        ]
        | None
    ) = None
    dismiss: bool = False


class ConfigPatch(Body, frozen=True):
    """Values by dotted key; ``null`` removes one. All or none."""

    changes: Annotated[dict[str, Any], Meta(min_length=1, max_length=100)]


class KeyBody(Body, frozen=True):
    key: Annotated[str, Meta(pattern=r"^[!-~]{1,4096}$(?!\n)")] | None
    """``null`` forgets it."""


class TestBody(Body, frozen=True):
    __test__ = False  # a body, not a test class

    model: Short | None = None


class TrustBody(Body, frozen=True):
    trusted: bool = True


Limit = Annotated[int, Meta(ge=1, le=1000)]
Place = Annotated[str, Meta(pattern=r"^[0-9]{1,15}$(?!\n)", description="What `next` of the page before said.")]
Text = Annotated[str, Meta(max_length=1000)]


class StreamQuery(Query, frozen=True):
    after: Annotated[str, Meta(max_length=200)] | None = None
    """The cursor to go on from; ``Last-Event-ID`` wins over it."""
    session: Id | None = None
    viewing: Id | None = None


class SessionsQuery(Query, frozen=True):
    limit: Limit = 50
    before: Place | None = None
    q: Text | None = None
    archived: bool = False
    parent: Id | None = None


class MessagesQuery(Query, frozen=True):
    limit: Limit = 100
    after: Place | None = None
    before: Annotated[str, Meta(pattern=r"^([0-9]{1,15}|end)$(?!\n)")] | None = None
    """``end``: the last ones."""


class RunsQuery(Query, frozen=True):
    limit: Limit = 50
    before: Place | None = None
    state: tuple[RunState, ...] = ()


class RunQuery(Query, frozen=True):
    wait: Annotated[float, Meta(ge=0, le=600, description="Seconds to wait for its end.")] = 0.0


class ExportQuery(Query, frozen=True):
    format: Literal["json", "markdown"] = "json"


class FilesQuery(Query, frozen=True):
    q: Text = ""
    limit: Annotated[int, Meta(ge=1, le=200)] = 20


class GrantsQuery(Query, frozen=True):
    session: Id | None = None


class RemoveGrantsQuery(GrantsQuery, frozen=True):
    id: Id | None = None
    """One of them; without it, all."""


class JobsQuery(Query, frozen=True):
    running: bool = False


class ModelsQuery(Query, frozen=True):
    workspace: Id | None = None


class StatsQuery(Query, frozen=True):
    since: date | None = None
    until: date | None = None


class SearchQuery(Query, frozen=True):
    q: Annotated[str, Meta(min_length=1, max_length=1000)]
    workspace: Id | None = None
    limit: Annotated[int, Meta(ge=1, le=200)] = 50
