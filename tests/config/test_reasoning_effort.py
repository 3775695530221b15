"""The effort that a model is asked for."""

from __future__ import annotations

import pytest

from holdfast.config.provider_catalogue import PROVIDERS
from holdfast.config.reasoning_effort import choose_effort
from holdfast.config.settings import DefaultModels


@pytest.mark.parametrize(
    ("wished", "supported", "chosen"),
    [
        ("medium", ("low", "medium", "high"), "medium"),
        ("medium", ("low", "high", "max"), "low"),
        ("medium", ("high", "max"), "high"),
        ("medium", ("none", "high"), "high"),
        ("max", ("low", "medium", "high"), "high"),
        ("minimal", ("low", "medium"), "low"),
        ("medium", (), None),
        ("medium", ("none",), None),
        ("off", ("none", "low"), "none"),
        ("off", ("minimal", "low"), "minimal"),
        ("off", ("low", "high"), None),
        ("deep", ("shallow", "deep"), "deep"),
        ("medium", ("shallow", "deep"), None),
    ],
)
def test_a_model_gets_the_nearest_effort_that_it_supports(
    wished: str, supported: tuple[str, ...], chosen: str | None
) -> None:
    assert choose_effort(wished, supported) == chosen


def test_every_model_of_the_catalogue_that_reasons_does_so_by_default() -> None:
    for provider in PROVIDERS.values():
        for model in provider.models:
            chosen = choose_effort(DefaultModels().effort, model.reasoning)
            assert chosen in model.reasoning if model.reasoning else chosen is None
