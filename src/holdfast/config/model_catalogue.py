"""The available models: the built-in catalogue joined with the configuration and the keys.

A provider is active when it has its key. Nothing here uses the network: `models/` discovers the models of local servers
and passes them in.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from holdfast.config.managed_policy import NO_POLICY, Policy
from holdfast.config.provider_catalogue import (
    PROVIDERS,
    SEARCH_VARIABLES,
    CatalogueModel,
    CataloguePrice,
    CatalogueProvider,
)
from holdfast.config.secrets import find_source
from holdfast.config.setting_types import Headers, KeySource, Url
from holdfast.config.settings import ModelSettings, PriceSettings, ProviderSettings, Settings, Wire
from holdfast.errors import NoModel, PolicyDenied

_MAX_NAMED = 12
_MAX_RESOLVED = 64
_MODEL_FIELDS = frozenset({"model", "models"})
"""Fields of a request body that choose the model."""


class ActiveProvider(msgspec.Struct, frozen=True):
    """A provider with its configuration applied."""

    id: str
    name: str
    wire: Wire
    base_url: Url
    key: KeySource | None = None
    """Where its key comes from; ``None`` if it needs none."""
    local: bool = False
    missing: str = ""
    """What to do before it can be used; empty if nothing."""
    missing_variables: tuple[str, ...] = ()
    """Environment variables; any one of them would supply what is missing."""
    refusal: str = ""
    """Why the managed policy does not allow it; also in `missing`."""

    @property
    def active(self) -> bool:
        return not self.missing


class ResolvedModel(msgspec.Struct, frozen=True):
    """Everything that a request to a model needs, except the key itself."""

    name: str
    """``provider/model``."""
    provider: str
    model: str
    """The provider's id of the model."""
    title: str
    wire: Wire
    base_url: Url
    key: KeySource | None
    """For `Keyring.resolve`; ``None`` when no key is needed."""
    headers: Headers
    """Ready to send, with variables expanded."""
    body: dict[str, Any]
    """Merged into the body of each request; overrides the wire's own fields."""
    context_window: int = 0
    """0: unknown."""
    max_output: int = 0
    images: bool = False
    reasoning: tuple[str, ...] = ()
    price: CataloguePrice | None = None
    local: bool = False


class Catalogue:
    """The models of one configuration and one environment. Immutable."""

    def __init__(
        self,
        settings: Settings,
        *,
        env: Mapping[str, str],
        stored: Collection[str] = (),
        discovered: Mapping[str, Sequence[CatalogueModel]] | None = None,
        policy: Policy = NO_POLICY,
    ) -> None:
        """`stored`: names of providers with a stored key. `discovered`: the models that local servers list."""
        self._settings = settings
        self._env = env
        self._stored = frozenset(stored)
        self._discovered = discovered or {}
        self._policy = policy
        self._resolved: dict[str, ResolvedModel] = {}
        """Models that were found by their full name. A run needs its own several times."""

    def with_settings(self, settings: Settings) -> Catalogue:
        """The same keys and discovered models, with other settings."""
        return Catalogue(settings, env=self._env, stored=self._stored, discovered=self._discovered, policy=self._policy)

    def providers(self) -> tuple[ActiveProvider, ...]:
        """All enabled providers, active or not: configured ones first, then the built-in ones in their order."""
        own = [name for name in self._settings.providers if name not in PROVIDERS]
        return tuple(self._provider(name) for name in (*own, *PROVIDERS) if self._configured(name).enabled)

    def models(self) -> tuple[ResolvedModel, ...]:
        """Every known model of the active providers."""
        return tuple(
            self._resolve(provider, model)
            for provider in self.providers()
            if provider.active
            for model in self._models(provider.id).values()
            if self._refusal(provider, model.id) is None
        )

    def resolve(self, name: str) -> ResolvedModel:
        """Find a model by ``provider/model``, or by its id alone if only one active provider has it."""
        if (known := self._resolved.get(name)) is not None:
            return known
        provider_id, slash, model_id = name.partition("/")
        if slash and model_id and self._exists(provider_id):
            provider = self._provider(provider_id)
            if refusal := provider.refusal or self._refusal(provider, model_id):
                raise PolicyDenied(refusal, detail={"model": name})
            if provider.missing:
                raise NoModel(f"model {name!r} cannot be used: {provider.missing}", detail={"model": name})
            model = self._models(provider_id).get(model_id)
            if model is None and not self._passes_any(provider_id):
                raise self._unknown(name)
            if len(self._resolved) >= _MAX_RESOLVED:
                self._resolved.clear()
            found = self._resolved[name] = self._resolve(provider, model or CatalogueModel(model_id))
            return found
        matching = [model for model in self.models() if model.model == name and model.provider != "offline"]
        if len(matching) == 1:
            return matching[0]
        raise self._unknown(name)

    def large(self) -> ResolvedModel:
        """The configured large model, or the default of the first active provider."""
        if name := self._settings.models.large:
            return self.resolve(name)
        if model := next(self._choices(), None):
            return model
        raise NoModel(
            "no model is configured and no provider has a key; set one (for example ANTHROPIC_API_KEY, or "
            "'holdfast key set anthropic'), start a local model server, or try '--model offline/demo'"
        )

    def small(self, *, beside: ResolvedModel | None = None) -> ResolvedModel:
        """The configured small model, or the small model of the large one's provider, or the large model."""
        if name := self._settings.models.small:
            return self.resolve(name)
        large = beside or self.large()
        builtin = PROVIDERS.get(large.provider)
        small = f"{large.provider}/{builtin.small}" if builtin and builtin.small else ""
        if builtin and builtin.small in self._models(large.provider) and self._policy.model_refusal(small) is None:
            return self.resolve(small)
        return large

    def _choices(self) -> Iterator[ResolvedModel]:
        """Models to use when none is configured: of the user's providers, of built-in ones, of local servers."""
        active = [provider for provider in self.providers() if provider.active and provider.id != "offline"]
        for provider in sorted(active, key=lambda provider: provider.id in PROVIDERS and provider.local):
            known = self._models(provider.id)
            models = {name: model for name, model in known.items() if self._refusal(provider, name) is None}
            builtin = PROVIDERS.get(provider.id)
            if builtin and builtin.large and builtin.large in models:
                yield self._resolve(provider, models[builtin.large])
            elif models and (builtin is None or builtin.any_model or len(models) < len(known)):
                yield self._resolve(provider, next(iter(models.values())))

    def _refusal(self, provider: ActiveProvider, model: str) -> str | None:
        """Why the policy does not allow a model. The scripted model reaches nothing and is always allowed."""
        if provider.wire == "scripted":
            return None
        if self._policy.tables.allow.models is not None and _MODEL_FIELDS & self._body(provider.id, model).keys():
            return self._policy.refusal(f"a 'body' of {provider.id}/{model} that names a model")
        return self._policy.model_refusal(f"{provider.id}/{model}")

    def _body(self, provider: str, model: str) -> dict[str, Any]:
        own = self._configured(provider)
        return {**own.body, **own.models[model].body} if model in own.models else own.body

    def _exists(self, name: str) -> bool:
        return (name in PROVIDERS or name in self._settings.providers) and self._configured(name).enabled

    def _configured(self, name: str) -> ProviderSettings:
        return self._settings.providers.get(name) or ProviderSettings()

    def _passes_any(self, name: str) -> bool:
        builtin = PROVIDERS.get(name)
        return builtin.any_model if builtin else not self._configured(name).models

    def _provider(self, name: str) -> ActiveProvider:
        builtin = PROVIDERS.get(name)
        own = self._configured(name)
        variables = builtin.key_env if builtin else ()
        source = find_source(own.api_key, name=name, variables=variables, env=self._env, stored=self._stored)
        base_url = own.base_url or Url(_address(builtin, self._env) if builtin else "")
        local = builtin.local if builtin else source is None
        wire: Wire = own.wire or (builtin.wire if builtin else "openai-chat")
        missing, supply = "", tuple[str, ...]()
        if source is None and variables:
            supply = variables
            missing = f"{name!r} has no key; set {variables[0]} or run 'holdfast key set {name}'"
        elif not base_url and wire != "scripted":
            supply = (builtin.address_env,) if builtin and builtin.address_env else ()
            missing = f"{name!r} has no address; set {' or '.join((*supply, f'providers.{name}.base_url'))}"
        refusal = ""
        if wire != "scripted":
            known_url = builtin.base_url if builtin else None
            refusal = self._policy.provider_refusal(name, base_url=base_url, builtin_url=known_url) or ""
        title = own.name or (builtin.name if builtin else name)
        supply = () if refusal else supply
        return ActiveProvider(name, title, wire, base_url, source, local, refusal or missing, supply, refusal)

    def _models(self, provider: str) -> dict[str, CatalogueModel]:
        builtin = PROVIDERS.get(provider)
        found = {model.id: model for model in self._discovered.get(provider, ())}
        if builtin:
            found |= {model.id: model for model in builtin.models}
        for model_id, own in self._configured(provider).models.items():
            found[model_id] = _override(found.get(model_id) or CatalogueModel(model_id), own)
        return found

    def _resolve(self, provider: ActiveProvider, model: CatalogueModel) -> ResolvedModel:
        own = self._configured(provider.id)
        return ResolvedModel(
            name=f"{provider.id}/{model.id}",
            provider=provider.id,
            model=model.id,
            title=model.name or model.id,
            wire=provider.wire,
            base_url=provider.base_url,
            key=provider.key,
            headers=Headers(own.headers.expand(self._env)),
            body=self._body(provider.id, model.id),
            context_window=model.context_window,
            max_output=model.max_output,
            images=model.images,
            reasoning=model.reasoning,
            price=model.price or (CataloguePrice() if provider.local else None),
            local=provider.local,
        )

    def _unknown(self, name: str) -> NoModel:
        import difflib

        known = [model.name for model in self.models()]
        close = difflib.get_close_matches(name, known, n=_MAX_NAMED, cutoff=0.4)
        named = [*close, *(model for model in known if model not in close)][:_MAX_NAMED]
        more = f" and {len(known) - len(named)} more" if len(known) > len(named) else ""
        return NoModel(
            f"model {name!r} is not configured; known: {', '.join(named) or 'none'}{more}",
            detail={"model": name, "known": known},
        )


def search_key(settings: Settings, *, env: Mapping[str, str], stored: Collection[str] = ()) -> KeySource | None:
    """Where the key for web search is: the configured source, its usual variable, or the key file."""
    search = settings.web_search
    variables = SEARCH_VARIABLES.get(search.provider, ())
    return find_source(search.api_key, name=search.provider, variables=variables, env=env, stored=stored)


def _override(model: CatalogueModel, own: ModelSettings) -> CatalogueModel:
    """Apply the configuration to a model."""
    names = ("name", "context_window", "max_output", "images", "reasoning")
    changed = {name: value for name in names if (value := getattr(own, name)) is not None}
    price = _price(model.price, own.price) if own.price else model.price
    return msgspec.structs.replace(model, **changed, price=price)


def _price(price: CataloguePrice | None, own: PriceSettings) -> CataloguePrice:
    """Apply the configuration to a price. Cached tokens cost as much as input unless a price is known."""
    base = price or CataloguePrice()
    fresh = own.input if own.input is not None else base.input
    otherwise = base if price else CataloguePrice(cache_read=fresh, cache_write=fresh)
    return CataloguePrice(
        input=fresh,
        output=own.output if own.output is not None else base.output,
        cache_read=own.cache_read if own.cache_read is not None else otherwise.cache_read,
        cache_write=own.cache_write if own.cache_write is not None else otherwise.cache_write,
        long=own.long or (base.long if own.input is None and own.output is None else None),
    )


def _address(builtin: CatalogueProvider, env: Mapping[str, str]) -> str:
    """The built-in address, or the one in its variable, with or without a scheme, port or path."""
    named = env.get(builtin.address_env, "").strip().rstrip("/") if builtin.address_env else ""
    if not named:
        return builtin.base_url
    if "://" not in named:
        host, colon, port = named.rpartition(":") if ":" in named else (named, "", "")
        named = f"http://{host.replace('0.0.0.0', '127.0.0.1') or '127.0.0.1'}{colon or ':'}{port or '11434'}"
    return named if named.endswith(builtin.address_path) else f"{named}{builtin.address_path}"
