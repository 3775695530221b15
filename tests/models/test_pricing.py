"""What tokens cost."""

from __future__ import annotations

import pytest

from holdfast.models.pricing import cost, priced
from holdfast.models.protocol import Price
from holdfast.schema.usage import Usage

PRICE = Price(
    input=3.0, output=15.0, cache_read=0.3, cache_write=3.75, above=200_000, long=Price(input=6.0, output=22.5)
)


def test_each_kind_of_token_has_its_price() -> None:
    usage = Usage(input=1_000, output=2_000, cache_read=10_000, cache_write=4_000)
    assert cost(usage, PRICE) == pytest.approx(0.003 + 0.03 + 0.003 + 0.015)
    assert priced(usage, PRICE).cost == cost(usage, PRICE)
    assert priced(usage, PRICE).input == 1_000


def test_a_long_prompt_has_other_prices_for_all_of_it() -> None:
    assert cost(Usage(input=200_000), PRICE) == pytest.approx(0.6)
    assert cost(Usage(input=200_001), PRICE) == pytest.approx(200_001 * 6 / 1_000_000)
    assert cost(Usage(input=1, cache_read=200_000, output=100), PRICE) == pytest.approx((6 + 2250) / 1_000_000)


def test_an_unknown_price_costs_nothing() -> None:
    assert cost(Usage(input=1_000_000, output=1_000_000), None) == 0.0
