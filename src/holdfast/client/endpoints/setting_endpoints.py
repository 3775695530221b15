"""Configuration, models and the keys of providers."""

from __future__ import annotations

from typing import Any

from holdfast.client.api_call import ApiCall, api_call, api_path, without_none
from holdfast.schema.api.response_bodies import ConfigView, KeyView, ModelsView, ProviderTestView


def config(workspace_id: str) -> ApiCall[ConfigView]:
    return api_call("GET", api_path("workspaces", workspace_id, "config"), returns=ConfigView)


def change_config(workspace_id: str, changes: dict[str, Any]) -> ApiCall[ConfigView]:
    """Change values by dotted key. ``None`` removes a value."""
    return api_call("PATCH", api_path("workspaces", workspace_id, "config"), {"changes": changes}, returns=ConfigView)


def config_schema() -> ApiCall[dict[str, Any]]:
    """JSON Schema of the configuration, for editors."""
    return api_call("GET", api_path("config", "schema"), returns=dict[str, Any])


def models(*, workspace_id: str | None = None) -> ApiCall[ModelsView]:
    return api_call("GET", api_path("models"), returns=ModelsView, query={"workspace": workspace_id})


def set_key(provider: str, key: str | None) -> ApiCall[KeyView]:
    """Store a provider's API key. ``None`` removes it."""
    return api_call("PUT", api_path("providers", provider, "key"), {"key": key}, returns=KeyView)


def try_provider(provider: str, *, model: str | None = None) -> ApiCall[ProviderTestView]:
    body = without_none(model=model)
    return api_call("POST", api_path("providers", provider, "test"), body, returns=ProviderTestView, wait=60.0)
