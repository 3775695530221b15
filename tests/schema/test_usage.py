"""Addition of usage."""

from hypothesis import given

from holdfast.schema.usage import Usage
from tests.schema.strategies import usages


@given(a=usages, b=usages, c=usages)
def test_usage_addition_is_commutative_and_associative(a: Usage, b: Usage, c: Usage) -> None:
    assert (a + b) + c == c + (b + a)
    assert a + Usage() == a
    assert (a + b).context == a.context + b.context
    assert (a + b).estimated == (a.estimated or b.estimated)


def test_cost_is_summed() -> None:
    assert (Usage(cost=0.25) + Usage(cost=0.5)).cost == 0.75
