"""Settings, models and provider keys: read, change, test. No secret leaves the server (`W8`)."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from contextlib import aclosing
from typing import Any

from holdfast.config import (
    ActiveProvider,
    Catalogue,
    Config,
    ResolvedModel,
    Secret,
    SecretStore,
    load_config,
    plain_values,
)
from holdfast.config.config_edit import edit_config
from holdfast.config.config_layers import checked_key
from holdfast.errors import BadRequest, ModelError, NoModel, NotFound, PolicyDenied
from holdfast.models.discovery import discover_all
from holdfast.models.http_transport import HttpTransport
from holdfast.models.protocol import ModelRequest, Stop
from holdfast.models.stall_timeout import StallLimits
from holdfast.schema.api.response_bodies import (
    ConfigView,
    KeyView,
    ModelsView,
    ModelView,
    ProviderTestView,
    ProviderView,
)
from holdfast.schema.messages import Message, Text
from holdfast.services.api_values import check_depth
from holdfast.services.workspace_service import WorkspaceService
from holdfast.workspace.shared_parts import SharedParts


class SettingService:
    """Settings of a workspace, or the user's own where no workspace is given."""

    def __init__(self, shared: SharedParts, workspaces: WorkspaceService, secrets: SecretStore) -> None:
        self._shared = shared
        self._workspaces = workspaces
        self._secrets = secrets
        self._saving_rules = asyncio.Lock()

    async def config(self, workspace_id: str | None = None) -> Config:
        if workspace_id is not None:
            return (await (await self._workspaces.configured(workspace_id)).setup()).config
        return await asyncio.to_thread(self._users_config)

    def _users_config(self) -> Config:
        shared = self._shared
        return load_config(shared.locations, env=shared.env, policy=shared.policy_file.read())

    async def config_view(self, workspace_id: str | None = None) -> ConfigView:
        """The settings in effect, each with its origin."""
        return _config_view(await self.config(workspace_id))

    async def change(self, changes: Mapping[str, Any], *, workspace_id: str | None = None) -> ConfigView:
        """Set values of the user's file by dotted key; ``None`` removes one. All are changed, or none."""
        if not changes:
            raise BadRequest("nothing to change; give at least one key", detail={"field": "changes"})
        check_depth(changes, name="changes")
        await self._refuse_fixed(changes)
        await asyncio.to_thread(edit_config, self._shared.locations.config_file, changes)
        await self._workspaces.announce_config_change(tuple(changes), workspace_id=workspace_id)
        return await self.config_view(workspace_id)

    async def _refuse_fixed(self, changes: Mapping[str, Any]) -> None:
        """Refuse a change that would have no effect, because the policy sets the value. Deny rules only add up."""
        policy = await asyncio.to_thread(self._shared.policy_file.read)
        for key in changes:
            path = checked_key(key)
            if policy and policy.fixes(*path) and path != ("approvals", "deny"):
                raise PolicyDenied(policy.refusal(f"changing {key}"), detail={"key": key})

    async def add_allowed_rules(self, rules: tuple[str, ...]) -> None:
        """Add approval rules to ``approvals.allow`` in the user's file."""
        async with self._saving_rules:
            await asyncio.to_thread(self._save_allowed_rules, rules)
        await self._workspaces.announce_config_change(("approvals.allow",))

    def _save_allowed_rules(self, rules: tuple[str, ...]) -> None:
        locations = self._shared.locations
        known = load_config(locations, env={}).settings.approvals.allow
        added = [rule for rule in rules if rule not in known]
        edit_config(locations.config_file, {"approvals.allow": [*known, *added]})

    async def models(self, workspace_id: str | None = None) -> ModelsView:
        """Providers, models and the default models."""
        catalogue = await self._catalogue(workspace_id)
        return ModelsView(
            providers=tuple(_provider_view(provider) for provider in catalogue.providers()),
            models=tuple(_model_view(model) for model in catalogue.models()),
            large=_default_model(catalogue, small=False),
            small=_default_model(catalogue, small=True),
        )

    async def set_key(self, provider: str, key: str | None) -> KeyView:
        """Store a provider's key, or remove it."""
        _find_provider(await self._catalogue(), provider)
        if key is None:
            await asyncio.to_thread(self._secrets.remove, provider)
        else:
            await asyncio.to_thread(self._secrets.put, provider, Secret(key))
        await self._workspaces.announce_config_change((f"providers.{provider}.api_key",))
        return KeyView(provider, stored=key is not None)

    async def test_provider(self, provider: str, *, model: str | None = None) -> ProviderTestView:
        """Send a provider a one-word request."""
        catalogue = await self._catalogue()
        found = _find_provider(catalogue, provider)
        if found.missing:
            return ProviderTestView(provider, model or "", False, 0.0, "no_key", found.missing)
        resolved = _find_model(catalogue, provider, model)
        started_at = time.monotonic()
        try:
            await self._request_one_word(resolved)
        except ModelError as error:
            seconds = round(time.monotonic() - started_at, 3)
            return ProviderTestView(provider, resolved.name, False, seconds, error.error_code, error.message)
        return ProviderTestView(provider, resolved.name, True, round(time.monotonic() - started_at, 3))

    async def _catalogue(self, workspace_id: str | None = None) -> Catalogue:
        """The catalogue, with the models that local model servers offer now."""
        config = await self.config(workspace_id)
        stored = await self._shared.keyring.learn(config.settings)
        known = Catalogue(config.settings, env=self._shared.env, stored=stored, policy=config.policy)
        local = {one.id: one.base_url for one in known.providers() if one.local and one.base_url and one.active}
        transport = HttpTransport(network=config.settings.network)
        try:
            found = await discover_all(local, transport=transport)
        finally:
            await transport.aclose()
        return Catalogue(config.settings, env=self._shared.env, stored=stored, discovered=found, policy=config.policy)

    async def _request_one_word(self, resolved: ResolvedModel) -> None:
        message = Message("msg_test", "ses_test", "run_test", "user", 1, "", (Text("Answer with the word: ok"),))
        limits = (await self.config()).settings.limits
        await asyncio.to_thread(self._shared.prepare)
        model = self._shared.models.open(resolved, limits=StallLimits(limits.first_token, limits.between_tokens))
        async with aclosing(model.stream(ModelRequest(messages=(message,), max_output=64))) as stream:
            async for delta in stream:
                if isinstance(delta, Stop):
                    return


def _find_provider(catalogue: Catalogue, name: str) -> ActiveProvider:
    providers = {provider.id: provider for provider in catalogue.providers()}
    if name not in providers:
        raise NotFound(f"there is no provider {name!r}; known: {', '.join(providers)}", code="provider_not_found")
    return providers[name]


def _find_model(catalogue: Catalogue, provider: str, model: str | None) -> ResolvedModel:
    if model:
        return catalogue.resolve(f"{provider}/{model}")
    for resolved in catalogue.models():
        if resolved.provider == provider:
            return resolved
    raise NotFound(f"no model of provider {provider!r} is known; name one", code="model_not_found")


def _default_model(catalogue: Catalogue, *, small: bool) -> str | None:
    try:
        return (catalogue.small() if small else catalogue.large()).name
    except (NoModel, PolicyDenied):
        return None


def _provider_view(provider: ActiveProvider) -> ProviderView:
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


def _model_view(model: ResolvedModel) -> ModelView:
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


def _config_view(config: Config) -> ConfigView:
    return ConfigView(
        values=plain_values(config.settings),
        origins={".".join(path): str(origin) for path, origin in config.origins.items()},
        files=tuple(str(path) for path in config.files),
        untrusted=tuple(str(path) for path in config.untrusted),
        warnings=config.warnings,
        policy=config.policy.summary(),
        policy_file=config.policy.source,
    )
