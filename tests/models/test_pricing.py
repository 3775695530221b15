"""The cost of tokens."""

from __future__ import annotations

import pytest

from holdfast.models.pricing import add_cost, calculate_cost
from holdfast.models.protocol import Price
from holdfast.schema.usage import Usage

PRICE = Price(
    input=3.0, output=15.0, cache_read=0.3, cache_write=3.75, above=200_000, long=Price(input=6.0, output=22.5)
)


def test_each_kind_of_token_has_its_own_price() -> None:
    usage = Usage(input=1_000, output=2_000, cache_read=10_000, cache_write=4_000)
    assert calculate_cost(usage, PRICE) == pytest.approx(0.003 + 0.03 + 0.003 + 0.015)
    assert add_cost(usage, PRICE).cost == calculate_cost(usage, PRICE)
    assert add_cost(usage, PRICE).input == 1_000


def test_prices_of_long_prompts_apply_to_the_whole_request() -> None:
    assert calculate_cost(Usage(input=200_000), PRICE) == pytest.approx(0.6)
    assert calculate_cost(Usage(input=200_001), PRICE) == pytest.approx(200_001 * 6 / 1_000_000)
    assert calculate_cost(Usage(input=1, cache_read=200_000, output=100), PRICE) == pytest.approx(
        (6 + 2250) / 1_000_000
    )


def test_cost_is_zero_if_the_price_is_unknown() -> None:
    assert calculate_cost(Usage(input=1_000_000, output=1_000_000), None) == 0.0
