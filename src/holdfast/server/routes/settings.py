"""Models, configuration, keys; statistics and search. Never a secret out (`W8`)."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from holdfast.config import ActiveProvider, Catalogue, Config, ResolvedModel, plain_values
from holdfast.config.config_schema import config_schema
from holdfast.errors import ConfigError, NoModel, NotFound
from holdfast.schema.api.request_bodies import (
    ConfigPatch,
    KeyBody,
    ModelsQuery,
    NoParameters,
    ProviderTestBody,
    SearchQuery,
    StatsQuery,
)
from holdfast.schema.api.response_bodies import (
    ConfigView,
    KeyView,
    ModelsView,
    ModelView,
    PageView,
    ProviderTestView,
    ProviderView,
    StatsView,
)
from holdfast.schema.base import encode
from holdfast.schema.sessions import SearchHit
from holdfast.server.http.endpoint import Call, Endpoint
from holdfast.server.http.request_parsing import check_depth
from holdfast.server.http.responses import Raw

_STATS_DAYS = 30


async def models(call: Call[None, ModelsQuery]) -> ModelsView:
    """Providers and models, as configured for a workspace or for the user."""
    catalogue = await call.parts.configuring.catalogue(call.query.workspace)
    return ModelsView(
        providers=tuple(_provider(provider) for provider in catalogue.providers()),
        models=tuple(_model(model) for model in catalogue.models()),
        large=_default(catalogue, small=False),
        small=_default(catalogue, small=True),
    )


async def get_config(call: Call[None, NoParameters]) -> ConfigView:
    """The settings in effect, each with where it came from."""
    return _config(await call.parts.configuring.config(call.path["workspace_id"]))


async def change_config(call: Call[ConfigPatch, NoParameters]) -> ConfigView:
    """Change the user's settings, all of the given or none."""
    check_depth(call.body.changes, name="changes")
    workspace_id = call.path["workspace_id"]
    return _config(await call.parts.configuring.change(call.body.changes, workspace_id=workspace_id))


async def config_description(call: Call[None, NoParameters]) -> Raw:
    """JSON Schema of the configuration."""
    return Raw(encode(config_schema()))


async def set_key(call: Call[KeyBody, NoParameters]) -> KeyView:
    """Store a provider's key, or forget it."""
    provider, key = call.path["provider"], call.body.key
    await call.parts.configuring.set_key(provider, key)
    return KeyView(provider, stored=key is not None)


async def try_provider(call: Call[ProviderTestBody, NoParameters]) -> ProviderTestView:
    """Ask a provider for one word, and say how that went."""
    return await call.parts.configuring.test(call.path["provider"], model=call.body.model)


async def stats(call: Call[None, StatsQuery]) -> StatsView:
    """Usage by day and model, calls by day and tool; the last 30 days if not said otherwise."""
    today = datetime.fromtimestamp(call.parts.clock(), UTC).date()
    until = (call.query.until or today).isoformat()
    since = (call.query.since or today - timedelta(days=_STATS_DAYS - 1)).isoformat()
    store = call.parts.store
    return StatsView(
        since,
        until,
        await store.usage_stats(since=since, until=until),
        await store.tool_stats(since=since, until=until),
    )


async def search(call: Call[None, SearchQuery]) -> PageView[SearchHit]:
    """Messages of past sessions that contain all the words, best first."""
    query, cursor = call.query, call.parts.hub.cursor
    if query.workspace is not None:
        await call.parts.store.workspace(query.workspace)
    return PageView(await call.parts.store.search(query.q, workspace_id=query.workspace, limit=query.limit), cursor)


def _provider(provider: ActiveProvider) -> ProviderView:
    return ProviderView(
        id=provider.id,
        name=provider.name,
        wire=provider.wire,
        active=provider.active,
        local=provider.local,
        missing=provider.missing,
        missing_variables=provider.missing_variables,
        key=str(plain_values(provider.key)) if provider.key is not None else "",
    )


def _model(model: ResolvedModel) -> ModelView:
    return ModelView(
        name=model.name,
        title=model.title,
        provider=model.provider,
        context_window=model.context_window,
        max_output=model.max_output,
        images=model.images,
        reasoning=model.reasoning,
        local=model.local,
    )


def _default(catalogue: Catalogue, *, small: bool) -> str | None:
    try:
        return (catalogue.small() if small else catalogue.large()).name
    except NoModel:
        return None


def _config(config: Config) -> ConfigView:
    return ConfigView(
        values=plain_values(config.settings),
        origins={".".join(path): str(origin) for path, origin in config.origins.items()},
        files=tuple(str(path) for path in config.files),
        untrusted=tuple(str(path) for path in config.untrusted),
        warnings=config.warnings,
    )


_CONFIG = "/v1/workspaces/{workspace_id}/config"

ENDPOINTS: tuple[Endpoint, ...] = (
    Endpoint("GET", "/v1/models", models, query=ModelsQuery, answer=ModelsView, errors=(NotFound, ConfigError)),
    Endpoint("GET", _CONFIG, get_config, answer=ConfigView, errors=(NotFound, ConfigError)),
    Endpoint("PATCH", _CONFIG, change_config, body=ConfigPatch, answer=ConfigView, errors=(NotFound, ConfigError)),
    Endpoint("GET", "/v1/config/schema", config_description, answer=dict[str, Any]),
    Endpoint("PUT", "/v1/providers/{provider}/key", set_key, body=KeyBody, answer=KeyView, errors=(NotFound,)),
    Endpoint(
        *("POST", "/v1/providers/{provider}/test", try_provider),
        body=ProviderTestBody,
        answer=ProviderTestView,
        errors=(NotFound, NoModel),
    ),
    Endpoint("GET", "/v1/stats", stats, query=StatsQuery, answer=StatsView),
    Endpoint("GET", "/v1/search", search, query=SearchQuery, answer=PageView[SearchHit], errors=(NotFound,)),
)
