"""The built-in providers and their models, read from `provider_catalogue.json`.

Prices are list prices in US dollars per million tokens, as of November 2026. If a provider's price depends on the hour
or is reduced for a while, the catalogue has the higher price: a cost limit then stops a run early, never late.
The configuration can extend and override every entry.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import msgspec

from holdfast.config.settings import LongPrice, Wire


class CataloguePrice(msgspec.Struct, frozen=True):
    """US dollars per million tokens."""

    input: float = 0.0
    output: float = 0.0
    cache_read: float = 0.0
    cache_write: float = 0.0
    long: LongPrice | None = None
    """Other prices for the whole request when its prompt is long."""


class CatalogueModel(msgspec.Struct, frozen=True):
    """A model's properties. A size of 0 and a price of ``None`` mean unknown."""

    id: str
    name: str = ""
    context_window: int = 0
    max_output: int = 0
    images: bool = False
    reasoning: tuple[str, ...] = ()
    """Supported reasoning efforts, from least to most."""
    price: CataloguePrice | None = None


class CatalogueProvider(msgspec.Struct, frozen=True):
    """How to reach a provider, and its models."""

    name: str
    wire: Wire
    base_url: str = ""
    key_env: tuple[str, ...] = ()
    """Variables that usually hold its key; the first one that is set wins."""
    models: tuple[CatalogueModel, ...] = ()
    large: str | None = None
    """The model to use when none is configured."""
    small: str | None = None
    any_model: bool = False
    """Whether the provider has more models than are listed; any id is then passed on."""
    local: bool = False
    """A server on this machine: no key, no cost, and it lists its own models."""
    address_env: str = ""
    """A variable with the server's address; `address_path` is appended to it."""
    address_path: str = ""


PROVIDERS: Mapping[str, CatalogueProvider] = msgspec.json.decode(
    Path(__file__).with_suffix(".json").read_bytes(), type=dict[str, CatalogueProvider]
)
"""Built-in providers, in the order in which one is chosen when nothing is configured."""

SEARCH_VARIABLES: Mapping[str, tuple[str, ...]] = {
    "brave": ("BRAVE_API_KEY", "BRAVE_SEARCH_API_KEY"),
    "tavily": ("TAVILY_API_KEY",),
    "searxng": (),
}
"""Web search services, and the variables that usually hold their key."""
