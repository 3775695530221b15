"""Configuration over the interface: read, changed, keys stored and tried. Never a secret out (`W8`)."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from contextlib import aclosing
from typing import Any

from holdfast.config import ActiveProvider, Catalogue, Config, ResolvedModel, Secret, SecretStore
from holdfast.config.config_edit import edit_config
from holdfast.config.config_layers import load_config
from holdfast.errors import BadRequest, ModelError, NotFound
from holdfast.models.discovery import discover_all
from holdfast.models.http_transport import HttpTransport
from holdfast.models.protocol import ModelRequest, Stop
from holdfast.models.stall_timeout import StallLimits
from holdfast.schema.api.response_bodies import ProviderTestView
from holdfast.schema.messages import Message, Text
from holdfast.services.workspace_service import WorkspaceService
from holdfast.workspace.open_workspace import SharedParts


class SettingService:
    """For all workspaces; without one, the user's own configuration."""

    def __init__(self, shared: SharedParts, workspaces: WorkspaceService, secrets: SecretStore) -> None:
        self._shared = shared
        self._workspaces = workspaces
        self._secrets = secrets

    async def config(self, workspace_id: str | None = None) -> Config:
        if workspace_id is not None:
            return (await (await self._workspaces.open_known(workspace_id)).setup()).config
        return await asyncio.to_thread(load_config, self._shared.locations, env=self._shared.env)

    async def change(self, changes: Mapping[str, Any], *, workspace_id: str | None = None) -> Config:
        """Set values of the user's file by dotted key, or remove them with ``None``; all or none."""
        if not changes:
            raise BadRequest("nothing to change was given")
        await asyncio.to_thread(edit_config, self._shared.locations.config_file, changes)
        await self._workspaces.tell_config_changed(tuple(changes), workspace_id=workspace_id)
        return await self.config(workspace_id)

    async def catalogue(self, workspace_id: str | None = None) -> Catalogue:
        """With what local model servers offer now."""
        config = await self.config(workspace_id)
        stored = await self._shared.keyring.learn(config.settings)
        known = Catalogue(config.settings, env=self._shared.env, stored=stored)
        local = {one.id: one.base_url for one in known.providers() if one.local and one.base_url and one.active}
        transport = HttpTransport(network=config.settings.network)
        try:
            found = await discover_all(local, transport=transport)
        finally:
            await transport.aclose()
        return Catalogue(config.settings, env=self._shared.env, stored=stored, discovered=found)

    async def set_key(self, provider: str, key: str | None) -> None:
        """Store a provider's key, or forget it."""
        _known(await self.catalogue(), provider)
        if key is None:
            await asyncio.to_thread(self._secrets.remove, provider)
        else:
            await asyncio.to_thread(self._secrets.put, provider, Secret(key))
        await self._workspaces.tell_config_changed((f"providers.{provider}.api_key",))

    async def test(self, provider: str, *, model: str | None = None) -> ProviderTestView:
        """Ask the provider for one word."""
        catalogue = await self.catalogue()
        found = _known(catalogue, provider)
        if found.missing:
            return ProviderTestView(provider, model or "", False, 0.0, "no_key", found.missing)
        resolved = _some_model(catalogue, provider, model)
        began = time.monotonic()
        try:
            await self._ask(resolved)
        except ModelError as error:
            seconds = round(time.monotonic() - began, 3)
            return ProviderTestView(provider, resolved.name, False, seconds, error.error_code, error.message)
        return ProviderTestView(provider, resolved.name, True, round(time.monotonic() - began, 3))

    async def _ask(self, resolved: ResolvedModel) -> None:
        message = Message("msg_test", "ses_test", "run_test", "user", 1, "", (Text("Answer with the word: ok"),))
        limits = (await self.config()).settings.limits
        model = self._shared.models.open(resolved, limits=StallLimits(limits.first_token, limits.between_tokens))
        async with aclosing(model.stream(ModelRequest(messages=(message,), max_output=64))) as stream:
            async for delta in stream:
                if isinstance(delta, Stop):
                    return


def _known(catalogue: Catalogue, name: str) -> ActiveProvider:
    providers = {provider.id: provider for provider in catalogue.providers()}
    if name not in providers:
        raise NotFound(f"there is no provider {name!r}; known: {', '.join(providers)}", code="provider_not_found")
    return providers[name]


def _some_model(catalogue: Catalogue, provider: str, model: str | None) -> ResolvedModel:
    if model:
        return catalogue.resolve(f"{provider}/{model}")
    for resolved in catalogue.models():
        if resolved.provider == provider:
            return resolved
    raise NotFound(f"no model of {provider!r} is known; name one", code="model_not_found")
