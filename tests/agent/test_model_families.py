"""Advice for model families and small models."""

from __future__ import annotations

import pytest

from holdfast.agent.model_families import family_of, is_small


@pytest.mark.parametrize(
    ("model", "family"),
    [
        ("anthropic/claude-sonnet-5-5", "claude"),
        ("openrouter/anthropic/claude-haiku-4.5", "claude"),
        ("openai/gpt-6-sol", "gpt"),
        ("groq/openai/gpt-oss-120b", "gpt"),
        ("proxy/o3-pro", "gpt"),
        ("azure/codex-mini", "gpt"),
        ("gemini/gemini-3.8-flash", "gemini"),
        ("deepseek/deepseek-v4-pro", "other"),
        ("mistral/mistral-small-latest", "other"),
        ("local/foo3-bar", "other"),
    ],
)
def test_a_family_is_known_by_the_name_of_the_model(model: str, family: str) -> None:
    assert family_of(model) == family


@pytest.mark.parametrize(
    ("model", "window", "small"),
    [
        ("openai/gpt-5-mini", 400_000, True),
        ("mistral/mistral-small-latest", 128_000, True),
        ("groq/openai/gpt-oss-20b", 131_072, True),
        ("groq/openai/gpt-oss-120b", 131_072, False),
        ("groq/qwen/qwen3.8-27b", 131_042, True),
        ("gemini/gemini-3.1-flash-lite", 1_048_576, True),
        ("gemini/gemini-3.8-flash", 1_048_576, False),
        ("anthropic/claude-sonnet-5-5", 1_000_000, False),
        ("local/unknown", 8_192, True),
        ("local/unknown", 0, False),
        ("local/minimal-giant", 0, False),
    ],
)
def test_small_models_are_known_by_their_name_size_or_window(model: str, window: int, small: bool) -> None:
    assert is_small(model, context_window=window) is small
