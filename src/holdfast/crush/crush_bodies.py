"""Requests of Crush's clients. Fields that we do not use are ignored."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from msgspec import Meta

from holdfast.schema.api.request_bodies import Id, QueryParameters, RequestBody


class CrushBody(RequestBody, frozen=True, forbid_unknown_fields=False):
    """Base of the bodies."""


class ClientQuery(QueryParameters, frozen=True, forbid_unknown_fields=False):
    client_id: str = ""


class ProviderQuery(QueryParameters, frozen=True, forbid_unknown_fields=False):
    provider_id: str = ""


class AnyQuery(QueryParameters, frozen=True, forbid_unknown_fields=False):
    """Parameters that are not used."""


class AnyBody(CrushBody, frozen=True):
    """A body that is not used."""


class ControlBody(CrushBody, frozen=True):
    command: str = ""


class CreateWorkspaceBody(CrushBody, frozen=True):
    path: str = ""
    client_id: str = ""
    yolo: bool = False
    env: tuple[str, ...] | None = None


class CurrentSessionBody(CrushBody, frozen=True):
    session_id: str = ""


class TitleBody(CrushBody, frozen=True):
    title: Annotated[str, Meta(max_length=500)] = ""


class CrushAttachment(CrushBody, frozen=True):
    file_path: str = ""
    file_name: str = ""
    mime_type: str = ""
    content: str | None = None
    """Base64."""


class AgentMessageBody(CrushBody, frozen=True):
    session_id: str = ""
    run_id: Id | Literal[""] = ""
    prompt: str = ""
    attachments: tuple[CrushAttachment, ...] | None = None


class ShellCommandBody(CrushBody, frozen=True):
    command: str = ""


class PermissionBody(CrushBody, frozen=True):
    id: str = ""


class PermissionGrantBody(CrushBody, frozen=True):
    permission: PermissionBody
    action: str = ""


class SkipBody(CrushBody, frozen=True):
    skip: bool = False


class QuestionResponseBody(CrushBody, frozen=True):
    request_id: str = ""
    selected_ids: tuple[str, ...] | None = None
    fill_in_text: str = ""
    yes: bool | None = None


class QuestionAnswerBody(CrushBody, frozen=True):
    responses: tuple[QuestionResponseBody, ...] = ()


class ConfigFieldBody(CrushBody, frozen=True):
    key: str = ""
    value: Any = None


class ConfigModelBody(CrushBody, frozen=True):
    scope: int = 0
    """0: for all; 1: for this workspace."""
    model_type: str = ""
    model: dict[str, Any] = {}


class CompactModeBody(CrushBody, frozen=True):
    enabled: bool = False


class ProviderKeyBody(CrushBody, frozen=True):
    provider_id: str = ""
    kind: str = ""
    api_key: Any = None
