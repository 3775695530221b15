"""Configuration and extensions, for Crush's clients, as far as their interface shows them."""

from __future__ import annotations

from typing import Any

from holdfast.crush.config_translation import join_model, providers_body
from holdfast.crush.crush_bodies import (
    AnyBody,
    AnyQuery,
    CompactModeBody,
    ConfigFieldBody,
    ConfigModelBody,
    ProviderKeyBody,
)
from holdfast.crush.crush_face import CrushFace
from holdfast.crush.crush_workspaces import EMPTY, WORKSPACE
from holdfast.crush.event_translation import lsp_info, mcp_info
from holdfast.errors import BadRequest
from holdfast.schema.extensions import ExtensionStatus
from holdfast.server.http.endpoint import ApiRequest, Endpoint, Handler
from holdfast.server.http.responses import RawResponse

_OPTIONS = "options."
_NO_TIME = "0001-01-01T00:00:00Z"


class CrushSettings:
    def __init__(self, face: CrushFace) -> None:
        self._face = face

    def endpoints(self) -> tuple[Endpoint, ...]:
        return (
            Endpoint("GET", f"{WORKSPACE}/config", self.config),
            Endpoint("GET", f"{WORKSPACE}/providers", self.providers),
            Endpoint("POST", f"{WORKSPACE}/config/set", self.set_field, body=ConfigFieldBody),
            Endpoint("POST", f"{WORKSPACE}/config/remove", self.remove_field, body=ConfigFieldBody),
            Endpoint("POST", f"{WORKSPACE}/config/model", self.set_model, body=ConfigModelBody),
            Endpoint("POST", f"{WORKSPACE}/config/compact", self.set_compact, body=CompactModeBody),
            Endpoint("POST", f"{WORKSPACE}/config/provider-key", self.set_key, body=ProviderKeyBody),
            Endpoint("GET", f"{WORKSPACE}/project/needs-init", self.needs_init),
            Endpoint("GET", f"{WORKSPACE}/lsps", self.language_servers),
            Endpoint("GET", f"{WORKSPACE}/mcp/states", self.mcp_servers),
            *(Endpoint("GET", f"{WORKSPACE}/{path}", self.nothing) for path in _EMPTY_LISTS),
            Endpoint("GET", f"{WORKSPACE}/lsps/{{name}}/diagnostics", self.no_object),
            Endpoint("GET", f"{WORKSPACE}/mcp/auth-url", self.no_object, query=AnyQuery),
            *(Endpoint("POST", f"{WORKSPACE}/{path}", self.ignore, body=AnyBody) for path in _IGNORED),
            *(Endpoint("POST", f"{WORKSPACE}/{path}", refusal(why), body=AnyBody) for path, why in _REFUSED.items()),
            Endpoint("GET", f"{WORKSPACE}/project/init-prompt", refusal("run 'holdfast init' in a terminal instead")),
        )

    async def config(self, request: ApiRequest[None, Any]) -> dict[str, Any]:
        """Get the configuration of a workspace."""
        workspace_id = request.path["workspace_id"]
        return await self._face.config(workspace_id, self._face.clients.choices(workspace_id))

    async def providers(self, request: ApiRequest[None, Any]) -> list[dict[str, Any]]:
        """List the providers that can be used."""
        return providers_body(await self._face.models(request.path["workspace_id"]))

    async def set_field(self, request: ApiRequest[ConfigFieldBody, Any]) -> RawResponse:
        """Set an option of the client's own interface. It is kept while the server runs."""
        key = request.body.key
        if key.startswith("recent_models."):
            return EMPTY
        if not key.startswith(_OPTIONS):
            raise BadRequest(f"{key[:80]!r} cannot be set from here; use 'holdfast config set'")
        *tables, name = key.removeprefix(_OPTIONS).split(".")
        options = self._face.clients.choices(request.path["workspace_id"]).options
        for table in tables:
            found = options.setdefault(table, {})
            if not isinstance(found, dict):
                raise BadRequest(f"{key[:80]!r}: {table!r} is not a table")
            options = found
        options[name] = request.body.value
        return await self._announce(request)

    async def remove_field(self, request: ApiRequest[ConfigFieldBody, Any]) -> RawResponse:
        """Remove an option of the client's own interface."""
        *tables, name = request.body.key.removeprefix(_OPTIONS).split(".")
        options: Any = self._face.clients.choices(request.path["workspace_id"]).options
        for table in tables:
            options = options.get(table) if isinstance(options, dict) else None
        if isinstance(options, dict):
            options.pop(name, None)
        return await self._announce(request)

    async def set_model(self, request: ApiRequest[ConfigModelBody, Any]) -> RawResponse:
        """Choose a model: in the user's settings, or only for the prompts of Crush's clients in this workspace."""
        body, workspace_id = request.body, request.path["workspace_id"]
        if body.model_type not in ("large", "small"):
            raise BadRequest(f"unknown kind of model {body.model_type[:80]!r}", detail={"field": "model_type"})
        choices = self._face.clients.choices(workspace_id)
        name = join_model(body.model)
        if body.scope == 1:
            if name not in {model.name for model in (await self._face.models(workspace_id)).models}:
                raise BadRequest(f"model {name!r} is not configured; run 'holdfast models' to list the available ones")
            if body.model_type == "large":
                choices.large = name
            else:
                choices.small = name
            return await self._announce(request)
        await self._face.services.settings.change({f"models.{body.model_type}": name}, workspace_id=workspace_id)
        if body.model_type == "large":
            choices.large = None
        else:
            choices.small = None
        self._face.forget_models()
        return EMPTY

    async def set_compact(self, request: ApiRequest[CompactModeBody, Any]) -> RawResponse:
        """Choose the compact form of the client's interface."""
        choices = self._face.clients.choices(request.path["workspace_id"])
        choices.options.setdefault("tui", {})["compact_mode"] = request.body.enabled
        return await self._announce(request)

    async def set_key(self, request: ApiRequest[ProviderKeyBody, Any]) -> RawResponse:
        """Store a provider's key."""
        body = request.body
        if body.kind != "string" or not isinstance(body.api_key, str):
            raise BadRequest("only keys can be stored; log in with 'holdfast key' in a terminal")
        await self._face.services.settings.set_key(body.provider_id, body.api_key)
        self._face.forget_models()
        return EMPTY

    async def _announce(self, request: ApiRequest[Any, Any]) -> RawResponse:
        """Tell the other clients, which read the workspace again."""
        workspace_id = request.path["workspace_id"]
        await self._face.services.workspaces.announce_config_change(("crush",), workspace_id=workspace_id)
        return EMPTY

    async def needs_init(self, request: ApiRequest[None, Any]) -> dict[str, bool]:
        """A directory needs no preparation."""
        return {"needs_init": False}

    async def language_servers(self, request: ApiRequest[None, Any]) -> dict[str, Any]:
        """List the language servers with their states."""
        found = await self._extensions(request, "lsp")
        return {one.name: {**lsp_info(one), "connected_at": _NO_TIME} for one in found}

    async def mcp_servers(self, request: ApiRequest[None, Any]) -> dict[str, Any]:
        """List the MCP servers with their states."""
        found = await self._extensions(request, "mcp")
        return {one.name: {**mcp_info(one), "connected_at": _NO_TIME} for one in found}

    async def _extensions(self, request: ApiRequest[None, Any], kind: str) -> list[ExtensionStatus]:
        page = await self._face.services.extensions.list_statuses(request.path["workspace_id"], wait=0.0)
        return [status for status in page.items if status.kind == kind]

    async def nothing(self, request: ApiRequest[None, Any]) -> list[Any]:
        """An empty list."""
        return []

    async def no_object(self, request: ApiRequest[None, Any]) -> dict[str, Any]:
        """An empty object."""
        return {}

    async def ignore(self, request: ApiRequest[AnyBody, Any]) -> RawResponse:
        """Nothing: Holdfast does this by itself."""
        return EMPTY


_EMPTY_LISTS = ("skills", "mcp/prompts", "mcp/pending-auth")
_IGNORED = (
    "project/init",
    "lsps/start",
    "lsps/stop",
    "mcp/refresh-tools",
    "mcp/refresh-prompts",
    "mcp/refresh-resources",
)
_REFUSED = {
    "skills/read": "call the skill as /name in a prompt instead",
    "mcp/read-resource": "resources are read by the model; name the resource in a prompt",
    "mcp/get-prompt": "call the prompt as /name in a prompt instead",
    "mcp/auth": "run 'holdfast mcp login NAME' in a terminal instead",
    "mcp/docker/enable": "configure the server under [mcp] in Holdfast's settings instead",
    "mcp/docker/disable": "configure the server under [mcp] in Holdfast's settings instead",
    "config/import-copilot": "store a key with 'holdfast key set' instead",
    "config/refresh-oauth": "store a key with 'holdfast key set' instead",
}


def refusal(advice: str) -> Handler:
    """A handler for what Crush's clients may ask for and Holdfast does in another way."""

    async def refuse(request: ApiRequest[Any, Any]) -> None:
        """Say what to do instead."""
        raise BadRequest(f"Holdfast does not do this for Crush's clients; {advice}")

    return refuse
