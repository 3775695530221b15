"""The cost of tokens."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from holdfast.models.protocol import Price
from holdfast.schema.usage import Usage

if TYPE_CHECKING:
    from holdfast.config.provider_catalogue import CataloguePrice

_MILLION = 1_000_000


def price_from_catalogue(price: CataloguePrice) -> Price:
    fields = msgspec.to_builtins(price)
    long = fields.pop("long", None)
    if long is None:
        return Price(**fields)
    above = long.pop("above")
    return Price(**fields, above=above, long=Price(**long))


def calculate_cost(usage: Usage, price: Price | None) -> float:
    """The cost of one request in US dollars; 0 if the price is unknown.

    Do not pass the sum of several requests: it could cross the threshold of the prices for long prompts.
    """
    if price is None:
        return 0.0
    if price.long and usage.input + usage.cache_read + usage.cache_write > price.above:
        price = price.long
    return (
        usage.input * price.input
        + usage.output * price.output
        + usage.cache_read * price.cache_read
        + usage.cache_write * price.cache_write
    ) / _MILLION


def add_cost(usage: Usage, price: Price | None) -> Usage:
    """Return the usage of one request with its cost."""
    return msgspec.structs.replace(usage, cost=calculate_cost(usage, price))
