"""Models and settings as Crush's client shows them. Pure. Keys never leave the server."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from holdfast.schema.api.response_bodies import ModelsView, ModelView, ProviderView

_PROVIDER_TYPES = {
    "openai-chat": "openai-compat",
    "openai-responses": "openai",
    "anthropic": "anthropic",
    "gemini": "gemini",
}


def split_model(name: str | None) -> dict[str, str]:
    """``provider/model`` as Crush's choice of a model; empty if there is none."""
    provider, slash, model = (name or "").partition("/")
    return {"model": model, "provider": provider} if slash else {"model": "", "provider": ""}


def join_model(choice: Mapping[str, Any]) -> str:
    """Crush's choice of a model as ``provider/model``."""
    return f"{choice.get('provider', '')}/{choice.get('model', '')}"


def model_body(model: ModelView) -> dict[str, Any]:
    return {
        "id": model.name.partition("/")[2],
        "name": model.title or model.name.partition("/")[2],
        "cost_per_1m_in": 0,
        "cost_per_1m_out": 0,
        "cost_per_1m_in_cached": 0,
        "cost_per_1m_out_cached": 0,
        "context_window": model.context_window,
        "default_max_tokens": model.max_output,
        "can_reason": bool(model.reasoning),
        "reasoning_levels": list(model.reasoning),
        "supports_attachments": model.images,
    }


def agent_body(models: ModelsView, *, large: str | None, busy: bool) -> dict[str, Any]:
    """The state of the agent. It is ready when there is a model."""
    known = next((model for model in models.models if model.name == large), None)
    choice = split_model(large)
    unknown = ModelView(name=large or "/", title=choice["model"])
    return {
        "is_busy": busy,
        "is_ready": large is not None,
        "model": model_body(known or unknown),
        "model_cfg": choice,
    }


def with_models(models: ModelsView, *names: str | None) -> ModelsView:
    """Add models that are in use and that the catalogue does not list, so that the client knows them."""
    known = {model.name for model in models.models}
    added = tuple(
        ModelView(name=name, provider=name.partition("/")[0])
        for name in dict.fromkeys(names)
        if name and name not in known
    )
    return replace(models, models=(*models.models, *added)) if added else models


def providers_body(models: ModelsView) -> list[dict[str, Any]]:
    """The providers that can be used, with their models."""
    return [_provider(provider, models) for provider in models.providers if provider.active]


def config_body(
    models: ModelsView,
    *,
    large: str | None,
    small: str | None,
    data_directory: str,
    options: Mapping[str, Any],
) -> dict[str, Any]:
    """The configuration that a workspace carries. The client sends no metrics and fetches no list of providers."""
    models = with_models(models, large, small)
    return {
        "models": {"large": split_model(large), "small": split_model(small or large)},
        "providers": {
            provider["id"]: {key: value for key, value in provider.items() if key != "api_endpoint"}
            for provider in providers_body(models)
        },
        "options": {
            **options,
            "tui": {"completions": {}, **options.get("tui", {})},
            "data_directory": data_directory,
            "disable_metrics": True,
            "disable_provider_auto_update": True,
            "disable_default_providers": True,
            "auto_lsp": False,
        },
        "permissions": {},
    }


def _provider(provider: ProviderView, models: ModelsView) -> dict[str, Any]:
    own = [model_body(model) for model in models.models if model.provider == provider.id]
    return {
        "id": provider.id,
        "name": provider.name or provider.id,
        "type": _PROVIDER_TYPES.get(provider.wire, "openai-compat"),
        "default_large_model_id": own[0]["id"] if own else "",
        "default_small_model_id": own[0]["id"] if own else "",
        "models": own,
    }
