"""Request bodies and query parameters. Their limits are part of the OpenAPI description.

The limits are checked when the server decodes a request, not when a client constructs a value.
"""

from __future__ import annotations

from datetime import date
from typing import Annotated, Any, ClassVar, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from holdfast.schema.approvals import ApprovalDecision, Effect, RuleScope
from holdfast.schema.client_variables import MAX_LENGTH, MAX_VARIABLES
from holdfast.schema.devices import AccessScope
from holdfast.schema.runs import After, CancelScope, Delivery, Mode, RunState
from holdfast.schema.sessions import IdKind


class RequestBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, kw_only=True):
    """Base of request bodies. An unknown field is an error, so that the sender notices a typing mistake."""

    constraints: ClassVar[dict[str, Any]] = {}
    """JSON Schema keywords for conditions between fields."""


class QueryParameters(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Base of query parameters."""


class EmptyBody(RequestBody, frozen=True):
    """No fields."""


class NoParameters(QueryParameters, frozen=True):
    """No parameters."""


Id = Annotated[
    str, Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.:-]{0,127}$(?!\n)", description="1 to 128 plain characters.")
]
SessionTitle = Annotated[str, Meta(max_length=500)]
ShortText = Annotated[str, Meta(min_length=1, max_length=200)]


_NOT_BLANK = r"[^\s\x1c-\x1f\x85]"
"""A character that is not white space in the regular expressions of any language."""


class OpenWorkspaceBody(RequestBody, frozen=True):
    """The directory to open."""

    path: Annotated[str, Meta(pattern=r"^/", max_length=4096, description="An absolute path.")]


class StopServerBody(RequestBody, frozen=True):
    if_idle: bool = False
    """Stop only if no run is unfinished; otherwise ``409``."""


class SessionBody(RequestBody, frozen=True):
    title: SessionTitle = ""
    agent: ShortText | None = None
    """The agent of its prompts; ``main``: none. Without it, that of the configuration."""


class SessionPatch(RequestBody, frozen=True):
    title: SessionTitle | UnsetType = UNSET
    archived: bool | UnsetType = UNSET
    agent: ShortText | UnsetType = UNSET
    """The agent of its next prompts; ``main``: none any more."""


class Attachment(RequestBody, frozen=True, tag_field="type", tag="file"):
    """A file attached to a prompt: its text, or its bytes as base64."""

    constraints = {
        "oneOf": [
            {"required": ["text"], "properties": {"text": {"type": "string"}, "data": {"type": "null"}}},
            {"required": ["data"], "properties": {"data": {"type": "string"}, "text": {"type": "null"}}},
        ]
    }

    name: Annotated[str, Meta(min_length=1, max_length=1000)]
    media_type: Annotated[str, Meta(pattern=r"^[!-~]{1,100}$(?!\n)")]
    text: str | None = None
    data: Annotated[str, Meta(pattern=r"^[A-Za-z0-9+/]*={0,2}$(?!\n)")] | None = None


class LimitsBody(RequestBody, frozen=True):
    max_steps: Annotated[int, Meta(ge=1, le=1_000_000)] | None = None
    max_seconds: Annotated[float, Meta(gt=0, le=31_536_000)] | None = None
    max_cost: Annotated[float, Meta(ge=0, le=1_000_000)] | None = None


Environment = Annotated[
    dict[
        Annotated[str, Meta(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$(?!\n)", max_length=200)],
        Annotated[str, Meta(pattern=r"^[^\x00]*$", max_length=MAX_LENGTH)],
    ],
    Meta(max_length=MAX_VARIABLES),
]


class PromptBody(RequestBody, frozen=True):
    """A prompt and the settings of its run. A blank prompt needs an attachment with text."""

    constraints = {
        "anyOf": [
            {"required": ["prompt"], "properties": {"prompt": {"pattern": _NOT_BLANK}}},
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
    """Chosen by the client. A repeated request with the same id is the same run."""
    attachments: Annotated[tuple[Attachment, ...], Meta(max_length=100)] = ()
    delivery: Delivery = "queue"
    after: After = "any"
    model: ShortText | None = None
    mode: Mode | None = None
    limits: LimitsBody = LimitsBody()
    interactive: bool = True
    effort: ShortText | None = None
    agent: ShortText | None = None
    """An agent for this prompt and the next ones of the session; ``main``: none any more."""
    output_schema: dict[str, Any] | None = None
    environment: Environment | None = None
    """Variables of the client's shell, for the commands of the run: those that the workspace lists, no secrets. Without
    it, the last ones that the session was sent. Not part of the comparison by ``run_id``."""


class FirstPromptBody(PromptBody, frozen=True):
    """A prompt that starts a new session."""

    title: SessionTitle = ""


class LaneCommandBody(RequestBody, frozen=True):
    """A command that a session's lane queues like a prompt."""

    run_id: Id | None = None


class CompactBody(LaneCommandBody, frozen=True):
    instruction: Annotated[str, Meta(max_length=4_000)] = ""
    """What the summary should keep or leave out."""


class AcceptPlanBody(LaneCommandBody, frozen=True):
    """How to carry out an accepted plan."""

    mode: Literal["ask", "accept_edits", "auto"] = "accept_edits"
    note: Annotated[str, Meta(max_length=20_000)] = ""
    """What the user adds to the plan."""
    interactive: bool = True


class ShellBody(LaneCommandBody, frozen=True, kw_only=True):
    command: Annotated[str, Meta(pattern=_NOT_BLANK, max_length=20_000)]
    environment: Environment | None = None
    """As in a prompt."""


class UndoBody(LaneCommandBody, frozen=True):
    to_message_id: Id | None = None
    confirmed_runs: Annotated[tuple[Id, ...], Meta(max_length=1_000)] = ()
    """Runs whose files that changed while a command ran are restored too. They may have been changed by a person."""


class UndoQuery(QueryParameters, frozen=True):
    to_message_id: Id | None = None


class RunPatch(RequestBody, frozen=True):
    """At least one field is required."""

    constraints = {"minProperties": 1}

    prompt: str | UnsetType = UNSET
    """May be blank only if an attachment has text."""
    position: Annotated[int, Meta(ge=0, le=1_000_000)] | UnsetType = UNSET


class CancelBody(RequestBody, frozen=True):
    scope: CancelScope = "session"


class MemoryBody(RequestBody, frozen=True):
    text: Annotated[str, Meta(pattern=_NOT_BLANK, max_length=4_000)]
    scope: Literal["project", "user"] = "project"


class ForkBody(RequestBody, frozen=True):
    message_id: Id | None = None


class ApprovalBody(RequestBody, frozen=True):
    decision: ApprovalDecision
    pattern: Annotated[tuple[Annotated[str, Meta(min_length=1, max_length=4000)], ...], Meta(max_length=50)] = ()
    scope: RuleScope = "project"
    """With ``always``: save the rules for this project, or for all."""
    feedback: Annotated[str, Meta(max_length=20_000)] = ""


class QuestionBody(RequestBody, frozen=True):
    """The answers, one list per question, or ``dismiss``."""

    constraints = {
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


class ClientToolBody(RequestBody, frozen=True):
    """A tool that the client executes."""

    name: Annotated[
        str, Meta(pattern=r"^[A-Za-z](_?[A-Za-z0-9-])*$(?!\n)", max_length=64, description="Letters, digits, `-`, `_`.")
    ]
    description: Annotated[str, Meta(max_length=20_000)] = ""
    parameters: dict[str, Any] = {}
    """JSON Schema of the arguments, an object."""
    effect: Effect = "runs"
    parallel: bool = False
    for_model: bool = True
    seconds: Annotated[float, Meta(gt=0, le=86_400)] = 600.0
    """How long a call may take."""


class ClientToolsBody(RequestBody, frozen=True):
    """All tools that the client has for the session; an empty list removes them."""

    tools: Annotated[tuple[ClientToolBody, ...], Meta(max_length=200)]


class ClientImage(RequestBody, frozen=True, tag_field="type", tag="file"):
    name: Annotated[str, Meta(min_length=1, max_length=1000)]
    media_type: Annotated[str, Meta(pattern=r"^image/(png|jpeg|gif|webp)$(?!\n)")]
    data: Annotated[str, Meta(pattern=r"^[A-Za-z0-9+/]*={0,2}$(?!\n)")]
    """base64."""


class ClientResultBody(RequestBody, frozen=True):
    """The result of a call that the client has executed."""

    text: str = ""
    status: Literal["ok", "error"] = "ok"
    files: Annotated[tuple[ClientImage, ...], Meta(max_length=8)] = ()


class SessionMcpServerBody(RequestBody, frozen=True):
    """Needs either ``command`` or ``url``."""

    name: ShortText
    command: Annotated[tuple[Annotated[str, Meta(max_length=20_000)], ...], Meta(max_length=1_000)] = ()
    env: Annotated[dict[str, str], Meta(max_length=1_000)] = {}
    url: Annotated[str, Meta(max_length=4_000)] | None = None
    headers: Annotated[dict[str, str], Meta(max_length=100)] = {}
    transport: Literal["http", "sse"] | None = None


class SessionMcpBody(RequestBody, frozen=True):
    servers: Annotated[tuple[SessionMcpServerBody, ...], Meta(max_length=50)] = ()


class ConfigPatch(RequestBody, frozen=True):
    """Values by dotted key; ``null`` removes a value. All are changed, or none."""

    changes: Annotated[dict[str, Any], Meta(min_length=1, max_length=100)]


class KeyBody(RequestBody, frozen=True):
    key: Annotated[str, Meta(pattern=r"^[!-~]{1,4096}$(?!\n)")] | None
    """``null`` removes the key."""


class ProviderTestBody(RequestBody, frozen=True):
    model: ShortText | None = None


class McpLoginBody(RequestBody, frozen=True):
    url: Annotated[str, Meta(min_length=1, max_length=16_000)]
    """Where the browser was sent after the login, with its query."""


class BackupBody(RequestBody, frozen=True):
    path: Annotated[str, Meta(pattern=r"^/[^\x00]*$", max_length=4096, description="A file that does not exist yet.")]


class TrustBody(RequestBody, frozen=True):
    trusted: bool = True


PageSize = Annotated[int, Meta(ge=1, le=1000)]
PagePosition = Annotated[str, Meta(pattern=r"^[0-9]{1,15}$(?!\n)", description="`next` of the previous page.")]
SearchText = Annotated[str, Meta(max_length=1000)]


class StreamQuery(QueryParameters, frozen=True):
    after: Annotated[str, Meta(max_length=200)] | None = None
    """The cursor to continue from; ``Last-Event-ID`` takes precedence."""
    session: Id | None = None
    viewing: Id | None = None


class SessionsQuery(QueryParameters, frozen=True):
    limit: PageSize = 50
    before: PagePosition | None = None
    q: SearchText | None = None
    archived: bool = False
    parent: Id | None = None


class MessagesQuery(QueryParameters, frozen=True):
    limit: PageSize = 100
    after: PagePosition | None = None
    before: Annotated[str, Meta(pattern=r"^([0-9]{1,15}|end)$(?!\n)")] | None = None
    """``end``: the last messages."""


class RunsQuery(QueryParameters, frozen=True):
    limit: PageSize = 50
    before: PagePosition | None = None
    state: tuple[RunState, ...] = ()


class RunQuery(QueryParameters, frozen=True):
    wait: Annotated[float, Meta(ge=0, le=600, description="Seconds to wait for the end of the run.")] = 0.0


class ExtensionsQuery(QueryParameters, frozen=True):
    wait: Annotated[float, Meta(ge=0, le=600, description="Seconds to wait for extensions that are starting.")] = 0.0


class ExportQuery(QueryParameters, frozen=True):
    format: Literal["json", "markdown"] = "json"


class FilesQuery(QueryParameters, frozen=True):
    q: SearchText = ""
    limit: Annotated[int, Meta(ge=1, le=200)] = 20


class MemoryEntryQuery(QueryParameters, frozen=True):
    number: Annotated[int, Meta(ge=1, le=100_000)]
    scope: Literal["project", "user"] = "project"


class DiffQuery(QueryParameters, frozen=True):
    """Without a parameter: the changes that are not committed."""

    commit: ShortText | None = None
    branch: bool = False
    """What the current branch adds to its base."""
    base: ShortText | None = None
    """The base of the branch; without it, the default branch."""


class GrantsQuery(QueryParameters, frozen=True):
    session: Id | None = None


class RemoveGrantsQuery(GrantsQuery, frozen=True):
    id: Id | None = None
    """Remove this grant; without it, all."""


class JobsQuery(QueryParameters, frozen=True):
    running: bool = False


class JobOutputQuery(QueryParameters, frozen=True):
    last: Annotated[int, Meta(ge=1, le=1 << 24)] | None = None
    """Only this many bytes from the end."""


class ModelsQuery(QueryParameters, frozen=True):
    workspace: Id | None = None


class StatsQuery(QueryParameters, frozen=True):
    since: date | None = None
    until: date | None = None


class IdsQuery(QueryParameters, frozen=True):
    prefix: Id
    kind: tuple[IdKind, ...] = ()
    """Only ids of these kinds; all kinds by default."""
    limit: Annotated[int, Meta(ge=1, le=100)] = 10


class SearchQuery(QueryParameters, frozen=True):
    q: Annotated[str, Meta(min_length=1, max_length=1000)]
    workspace: Id | None = None
    limit: Annotated[int, Meta(ge=1, le=200)] = 50


class AuditQuery(QueryParameters, frozen=True):
    limit: PageSize = 100
    before: PagePosition | None = None
    after: PagePosition | None = None
    since: date | None = None
    person: Annotated[str, Meta(min_length=1, max_length=60)] | None = None
    device: Id | None = None
    target: Annotated[str, Meta(min_length=1, max_length=300)] | None = None
    """A part of the path of the request, such as the id of a session, or the id of what was made."""
    failed: bool = False
    """Only requests that were answered with an error."""
    wait: Annotated[float, Meta(ge=0, le=600, description="With `after`: seconds to wait for an entry.")] = 0.0


DeviceName = Annotated[str, Meta(max_length=200)]
FilePath = Annotated[str, Meta(pattern=r"^/", max_length=4096, description="An absolute path on the server's machine.")]


class PairingBody(RequestBody, frozen=True):
    code: Annotated[str, Meta(min_length=1, max_length=64)]
    name: DeviceName = ""


class PairingCodeBody(RequestBody, frozen=True):
    scope: AccessScope = "drive"
    person: Annotated[str, Meta(min_length=1, max_length=60)] | None = None
    """The person whose device it makes; without it, a device of the server's owner."""


PersonDirectories = Annotated[tuple[FilePath, ...], Meta(max_length=1_000)]


class PersonBody(RequestBody, frozen=True):
    name: Annotated[str, Meta(pattern=r"^[a-z0-9][a-z0-9._-]{0,59}$(?!\n)")]
    role: AccessScope
    workspaces: PersonDirectories | None
    """Directories, each with all below it; ``null``: all."""


class PersonPatch(RequestBody, frozen=True):
    role: AccessScope | UnsetType = UNSET
    workspaces: PersonDirectories | UnsetType | None = UNSET


class PersonTokenBody(RequestBody, frozen=True):
    label: DeviceName = ""
    """What it is for."""
    scope: AccessScope = "admin"
    """What the token allows, if less than the person's role."""


class DevicePatch(RequestBody, frozen=True):
    name: Annotated[str, Meta(min_length=1, max_length=200)]


_BYTE = r"(25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])"
_LOOPBACK = rf"^(127\.{_BYTE}\.{_BYTE}\.{_BYTE}|::1)$(?!\n)"


class WebListenBody(RequestBody, frozen=True):
    """Where to serve the web page. Without a certificate only on loopback."""

    constraints = {
        "anyOf": [
            {
                "required": ["certificate", "key"],
                "properties": {"certificate": {"type": "string"}, "key": {"type": "string"}},
            },
            {"properties": {"host": {"pattern": _LOOPBACK}, "certificate": {"type": "null"}, "key": {"type": "null"}}},
        ]
    }

    host: Annotated[
        str,
        Meta(
            min_length=1,
            max_length=100,
            description="An IP address of this machine.",
            extra_json_schema={"anyOf": [{"format": "ipv4"}, {"format": "ipv6"}]},
        ),
    ] = "127.0.0.1"
    port: Annotated[int, Meta(ge=0, le=65535, description="0 keeps the last one, or chooses a free one.")] = 0
    certificate: FilePath | None = None
    key: FilePath | None = None
    names: tuple[Annotated[str, Meta(min_length=1, max_length=253)], ...] = ()
    """Host names of the certificate."""
