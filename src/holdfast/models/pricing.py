"""What tokens cost."""

from __future__ import annotations

import msgspec

from holdfast.models.protocol import Price
from holdfast.schema.usage import Usage

_MILLION = 1_000_000


def cost(usage: Usage, price: Price | None) -> float:
    """US dollars of one request; 0 where no price is known. Sums of several would cross the line for long prompts."""
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


def priced(usage: Usage, price: Price | None) -> Usage:
    """The same tokens with what they cost."""
    return msgspec.structs.replace(usage, cost=cost(usage, price))
