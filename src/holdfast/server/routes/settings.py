"""Models, settings and provider keys. No secret leaves the server (`W8`)."""

from __future__ import annotations

from typing import Any

from holdfast.errors import ConfigError, NoModel, NotFound
from holdfast.schema.api.request_bodies import ConfigPatch, KeyBody, ModelsQuery, NoParameters, ProviderTestBody
from holdfast.schema.api.response_bodies import ConfigView, KeyView, ModelsView, ProviderTestView
from holdfast.schema.base import encode
from holdfast.server.http.endpoint import ApiRequest, Endpoint
from holdfast.server.http.responses import RawResponse


async def models(request: ApiRequest[None, ModelsQuery]) -> ModelsView:
    """List providers and models, as configured for a workspace or for the user."""
    return await request.services.settings.models(request.query.workspace)


async def get_config(request: ApiRequest[None, NoParameters]) -> ConfigView:
    """Get the settings in effect, each with its origin."""
    return await request.services.settings.config_view(request.path["workspace_id"])


async def change_config(request: ApiRequest[ConfigPatch, NoParameters]) -> ConfigView:
    """Change the user's settings: all that are given, or none."""
    workspace_id = request.path["workspace_id"]
    return await request.services.settings.change(request.body.changes, workspace_id=workspace_id)


async def config_description(request: ApiRequest[None, NoParameters]) -> RawResponse:
    """Get the JSON Schema of the configuration."""
    from holdfast.config.config_schema import config_schema

    return RawResponse(encode(config_schema()))


async def set_key(request: ApiRequest[KeyBody, NoParameters]) -> KeyView:
    """Store a provider's key, or remove it."""
    return await request.services.settings.set_key(request.path["provider"], request.body.key)


async def try_provider(request: ApiRequest[ProviderTestBody, NoParameters]) -> ProviderTestView:
    """Send a provider a one-word request, and report the result."""
    return await request.services.settings.test_provider(request.path["provider"], model=request.body.model)


_CONFIG = "/v1/workspaces/{workspace_id}/config"

ENDPOINTS: tuple[Endpoint, ...] = (
    Endpoint("GET", "/v1/models", models, query=ModelsQuery, response=ModelsView, errors=(NotFound, ConfigError)),
    Endpoint("GET", _CONFIG, get_config, response=ConfigView, errors=(NotFound, ConfigError)),
    Endpoint("PATCH", _CONFIG, change_config, body=ConfigPatch, response=ConfigView, errors=(NotFound, ConfigError)),
    Endpoint("GET", "/v1/config/schema", config_description, response=dict[str, Any]),
    Endpoint("PUT", "/v1/providers/{provider}/key", set_key, body=KeyBody, response=KeyView, errors=(NotFound,)),
    Endpoint(
        *("POST", "/v1/providers/{provider}/test", try_provider),
        body=ProviderTestBody,
        response=ProviderTestView,
        errors=(NotFound, NoModel),
    ),
)
