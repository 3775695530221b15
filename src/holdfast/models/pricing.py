"""What tokens cost."""

from __future__ import annotations

import msgspec

from holdfast.models.protocol import Price
from holdfast.schema.usage import Usage

_MILLION = 1_000_000


def cost(usage: Usage, price: Price | None) -> float:
    """US dollars; 0 where no price is known."""
    if price is None:
        return 0.0
    return (
        usage.input * price.input
        + usage.output * price.output
        + usage.cache_read * price.cache_read
        + usage.cache_write * price.cache_write
    ) / _MILLION


def priced(usage: Usage, price: Price | None) -> Usage:
    """The same tokens with what they cost."""
    return msgspec.structs.replace(usage, cost=cost(usage, price))
