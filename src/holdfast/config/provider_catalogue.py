"""The main providers and their models, as data. List prices in US dollars per million tokens, as of November 2026.

Where a provider's price depends on the hour, or is lowered for a while, the higher one stands here: a limit on cost
then errs on the side of the user. Everything can be extended or overridden in the configuration.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from holdfast.config.settings import LongPrice, Wire


class Price(msgspec.Struct, frozen=True):
    """US dollars per million tokens."""

    input: float = 0.0
    output: float = 0.0
    cache_read: float = 0.0
    cache_write: float = 0.0
    long: LongPrice | None = None
    """Other prices for the whole request when its prompt is long."""


class CatalogueModel(msgspec.Struct, frozen=True):
    """What is known of a model. A size of 0 is unknown; so is a price of ``None``."""

    id: str
    name: str = ""
    context_window: int = 0
    max_output: int = 0
    images: bool = False
    reasoning: tuple[str, ...] = ()
    """Efforts it can be asked for, from least to most."""
    price: Price | None = None


class CatalogueProvider(msgspec.Struct, frozen=True):
    """How a provider is reached, and what it has."""

    name: str
    wire: Wire
    base_url: str = ""
    key_env: tuple[str, ...] = ()
    """Variables that usually hold its key, the first one set wins."""
    models: tuple[CatalogueModel, ...] = ()
    large: str | None = None
    """The model to work with when nothing is configured."""
    small: str | None = None
    any_model: bool = False
    """Whether it has more models than can be listed; any id is then passed on."""
    local: bool = False
    """A server on this machine: no key, no cost, its models are asked of itself."""
    address_env: str = ""
    """A variable with the server's address, and `address_path` to add to it."""
    address_path: str = ""


_LMH = ("low", "medium", "high")
_TO_MAX = (*_LMH, "xhigh", "max")
_M = 1_000_000


def _price(
    dollars: tuple[float, float, float, float], *, above: int = 0, long: tuple[float, float, float, float] | None = None
) -> Price:
    """Input, output, cache read, cache write; the same again for prompts above a size."""
    if long is None:
        return Price(*dollars)
    names = ("input", "output", "cache_read", "cache_write")
    return Price(*dollars, long=LongPrice(above=above, **dict(zip(names, long, strict=True))))


def _model(
    model_id: str, name: str, window: int, output: int, price: Price, *, images: bool = True, reasoning: tuple[str, ...]
) -> CatalogueModel:
    return CatalogueModel(model_id, name, window, output, images, reasoning, price)


_ANTHROPIC = (
    _model("claude-opus-5-5", "Claude Opus 5.5", _M, 128_000, _price((4, 20, 0.2, 5)), reasoning=_TO_MAX),
    _model("claude-sonnet-5-5", "Claude Sonnet 5.5", _M, 128_000, _price((2, 10, 0.1, 2.5)), reasoning=_TO_MAX),
    _model(
        "claude-haiku-5-5",
        "Claude Haiku 5.5",
        _M,
        128_000,
        _price((0.1, 0.5, 0.01, 0.125), above=100_000, long=(0.5, 2.5, 0.05, 0.625)),
        reasoning=_TO_MAX,
    ),
    _model("claude-fable-5", "Claude Fable 5", _M, 128_000, _price((10, 50, 1, 12.5)), reasoning=_TO_MAX),
    _model("claude-opus-5", "Claude Opus 5", _M, 128_000, _price((5, 25, 0.5, 6.25)), reasoning=_TO_MAX),
    _model("claude-sonnet-5", "Claude Sonnet 5", _M, 128_000, _price((2, 10, 0.2, 2.5)), reasoning=_TO_MAX),
    _model("claude-sonnet-4-6", "Claude Sonnet 4.6", _M, 64_000, _price((3, 15, 0.3, 3.75)), reasoning=_LMH),
    _model("claude-opus-4-5", "Claude Opus 4.5", 200_000, 64_000, _price((5, 25, 0.5, 6.25)), reasoning=_LMH),
    _model("claude-sonnet-4-5", "Claude Sonnet 4.5", 200_000, 64_000, _price((3, 15, 0.3, 3.75)), reasoning=_LMH),
    _model("claude-haiku-4-5", "Claude Haiku 4.5", 200_000, 64_000, _price((1, 5, 0.1, 1.25)), reasoning=_LMH),
)

_OPENAI = (
    _model(
        "gpt-6-astra",
        "GPT-6 Astra",
        1_050_000,
        128_000,
        _price((10, 50, 1, 12.5), above=272_000, long=(20, 75, 2, 25)),
        reasoning=_TO_MAX,
    ),
    _model(
        "gpt-6-sol",
        "GPT-6 Sol",
        1_050_000,
        128_000,
        _price((2, 10, 0.2, 2.5), above=272_000, long=(4, 15, 0.4, 5)),
        reasoning=_TO_MAX,
    ),
    _model(
        "gpt-6-luna",
        "GPT-6 Luna",
        1_050_000,
        128_000,
        _price((0.1, 0.5, 0.01, 0.125), above=272_000, long=(0.2, 0.75, 0.02, 0.25)),
        reasoning=_TO_MAX,
    ),
    _model(
        "gpt-5.6-terra",
        "GPT-5.6 Terra",
        1_050_000,
        128_000,
        _price((2, 12, 0.2, 0), above=272_000, long=(4, 18, 0.4, 0)),
        reasoning=("none", *_LMH, "xhigh"),
    ),
    _model(
        "gpt-5.6-luna",
        "GPT-5.6 Luna",
        1_050_000,
        128_000,
        _price((0.2, 1.2, 0.02, 0), above=272_000, long=(0.4, 1.8, 0.04, 0)),
        reasoning=("none", *_LMH, "xhigh"),
    ),
    _model(
        "gpt-5.5",
        "GPT-5.5",
        1_050_000,
        128_000,
        _price((5, 30, 0.5, 0), above=272_000, long=(10, 45, 1, 0)),
        reasoning=("none", *_LMH, "xhigh"),
    ),
    _model("gpt-5-mini", "GPT-5 Mini", 400_000, 128_000, _price((0.25, 2, 0.025, 0)), reasoning=("minimal", *_LMH)),
)

_GEMINI = (
    _model("gemini-3.8-flash", "Gemini 3.8 Flash", 1_048_576, 65_536, _price((1.5, 7.5, 0.15, 0)), reasoning=_LMH),
    _model(
        "gemini-3.1-pro-preview",
        "Gemini 3.1 Pro Preview",
        1_048_576,
        65_536,
        _price((2, 12, 0.2, 0), above=200_000, long=(4, 18, 0.4, 0)),
        reasoning=_LMH,
    ),
    _model("gemini-3.5-flash", "Gemini 3.5 Flash", 1_048_576, 65_536, _price((1.5, 9, 0.15, 0)), reasoning=_LMH),
    _model(
        "gemini-3.1-flash-lite",
        "Gemini 3.1 Flash Lite",
        1_048_576,
        65_536,
        _price((0.25, 1.5, 0.025, 0.0833)),
        reasoning=_LMH,
    ),
    _model(
        "gemini-2.5-pro",
        "Gemini 2.5 Pro",
        1_048_576,
        65_536,
        _price((1.25, 10, 0.125, 0), above=200_000, long=(2.5, 15, 0.25, 0)),
        reasoning=_LMH,
    ),
)

_OPENROUTER = (
    _model(
        "anthropic/claude-sonnet-5.5", "Claude Sonnet 5.5", _M, 128_000, _price((2, 10, 0.2, 2.5)), reasoning=_TO_MAX
    ),
    _model(
        "anthropic/claude-haiku-4.5", "Claude Haiku 4.5", 200_000, 64_000, _price((1, 5, 0.1, 1.25)), reasoning=_LMH
    ),
)

_GROQ = (
    _model(
        "openai/gpt-oss-120b",
        "GPT OSS 120B",
        131_072,
        65_536,
        _price((0.15, 0.6, 0.075, 0)),
        images=False,
        reasoning=_LMH,
    ),
    _model(
        "openai/gpt-oss-20b",
        "GPT OSS 20B",
        131_072,
        65_536,
        _price((0.075, 0.3, 0.0375, 0)),
        images=False,
        reasoning=_LMH,
    ),
    _model("qwen/qwen3.8-27b", "Qwen 3.8 27B", 131_042, 16_384, _price((0.8, 4, 0.4, 0)), reasoning=()),
)

_DEEPSEEK = (
    _model(
        "deepseek-v4-pro",
        "DeepSeek V4 Pro",
        1_048_576,
        384_000,
        _price((1.32, 3.96, 0.044, 0)),
        images=False,
        reasoning=("high", "max"),
    ),
    _model(
        "deepseek-flash",
        "DeepSeek V4.1 Flash",
        _M,
        384_000,
        _price((0.3, 1.2, 0.006, 0)),
        reasoning=("low", "high", "max"),
    ),
)

_XAI = (
    _model(
        "grok-4.7",
        "Grok 4.7",
        500_000,
        500_000,
        _price((2, 6, 0.5, 0), above=200_000, long=(4, 12, 1, 0)),
        reasoning=(*_LMH, "xhigh"),
    ),
    _model(
        "grok-4.5",
        "Grok 4.5",
        500_000,
        500_000,
        _price((2, 6, 0.5, 0), above=200_000, long=(4, 12, 1, 0)),
        reasoning=_LMH,
    ),
)

_MISTRAL = (
    _model(
        "mistral-medium-3.5",
        "Mistral Medium 3.5",
        262_144,
        262_144,
        _price((1.5, 7.5, 1.5, 0)),
        reasoning=("none", "high"),
    ),
    _model("mistral-small-latest", "Mistral Small", 128_000, 16_384, _price((0.1, 0.3, 0.1, 0)), reasoning=()),
)

_TOGETHER = (
    _model(
        "zai-org/GLM-5.3",
        "GLM 5.3",
        1_048_575,
        262_144,
        _price((1.4, 4.4, 0.26, 0)),
        images=False,
        reasoning=("low", "high", "max"),
    ),
    _model(
        "deepseek-ai/DeepSeek-V4.1-Flash",
        "DeepSeek V4.1 Flash",
        _M,
        384_000,
        _price((0.3, 1.2, 0.006, 0)),
        reasoning=("low", "high", "max"),
    ),
)

PROVIDERS: Mapping[str, CatalogueProvider] = {
    "anthropic": CatalogueProvider(
        name="Anthropic",
        wire="anthropic",
        base_url="https://api.anthropic.com/v1",
        key_env=("ANTHROPIC_API_KEY",),
        models=_ANTHROPIC,
        large="claude-sonnet-5-5",
        small="claude-haiku-5-5",
    ),
    "openai": CatalogueProvider(
        name="OpenAI",
        wire="openai-responses",
        base_url="https://api.openai.com/v1",
        key_env=("OPENAI_API_KEY",),
        models=_OPENAI,
        large="gpt-6-sol",
        small="gpt-6-luna",
    ),
    "gemini": CatalogueProvider(
        name="Gemini",
        wire="gemini",
        base_url="https://generativelanguage.googleapis.com/v1beta",
        key_env=("GEMINI_API_KEY", "GOOGLE_API_KEY"),
        models=_GEMINI,
        large="gemini-3.8-flash",
        small="gemini-3.1-flash-lite",
    ),
    "openrouter": CatalogueProvider(
        name="OpenRouter",
        wire="openai-chat",
        base_url="https://openrouter.ai/api/v1",
        key_env=("OPENROUTER_API_KEY",),
        models=_OPENROUTER,
        large="anthropic/claude-sonnet-5.5",
        small="anthropic/claude-haiku-4.5",
        any_model=True,
    ),
    "deepseek": CatalogueProvider(
        name="DeepSeek",
        wire="openai-chat",
        base_url="https://api.deepseek.com/v1",
        key_env=("DEEPSEEK_API_KEY",),
        models=_DEEPSEEK,
        large="deepseek-v4-pro",
        small="deepseek-flash",
    ),
    "xai": CatalogueProvider(
        name="xAI",
        wire="openai-chat",
        base_url="https://api.x.ai/v1",
        key_env=("XAI_API_KEY",),
        models=_XAI,
        large="grok-4.7",
    ),
    "mistral": CatalogueProvider(
        name="Mistral",
        wire="openai-chat",
        base_url="https://api.mistral.ai/v1",
        key_env=("MISTRAL_API_KEY",),
        models=_MISTRAL,
        large="mistral-medium-3.5",
        small="mistral-small-latest",
    ),
    "groq": CatalogueProvider(
        name="Groq",
        wire="openai-chat",
        base_url="https://api.groq.com/openai/v1",
        key_env=("GROQ_API_KEY",),
        models=_GROQ,
        large="openai/gpt-oss-120b",
        small="openai/gpt-oss-20b",
        any_model=True,
    ),
    "together": CatalogueProvider(
        name="Together AI",
        wire="openai-chat",
        base_url="https://api.together.xyz/v1",
        key_env=("TOGETHER_API_KEY",),
        models=_TOGETHER,
        large="zai-org/GLM-5.3",
        small="deepseek-ai/DeepSeek-V4.1-Flash",
        any_model=True,
    ),
    "azure": CatalogueProvider(
        name="Azure OpenAI",
        wire="openai-chat",
        key_env=("AZURE_OPENAI_API_KEY",),
        any_model=True,
        address_env="AZURE_OPENAI_ENDPOINT",
        address_path="/openai/v1",
    ),
    "ollama": CatalogueProvider(
        name="Ollama",
        wire="openai-chat",
        base_url="http://127.0.0.1:11434/v1",
        any_model=True,
        local=True,
        address_env="OLLAMA_HOST",
        address_path="/v1",
    ),
    "lmstudio": CatalogueProvider(
        name="LM Studio", wire="openai-chat", base_url="http://127.0.0.1:1234/v1", any_model=True, local=True
    ),
    "llamacpp": CatalogueProvider(
        name="llama.cpp", wire="openai-chat", base_url="http://127.0.0.1:8080/v1", any_model=True, local=True
    ),
    "offline": CatalogueProvider(
        name="Offline",
        wire="scripted",
        models=(CatalogueModel("demo", "The scripted demo", 200_000, 32_000, price=Price()),),
        local=True,
    ),
}
"""Built-in providers, in the order in which one is chosen when nothing is configured."""

SEARCH_VARIABLES: Mapping[str, tuple[str, ...]] = {
    "brave": ("BRAVE_API_KEY", "BRAVE_SEARCH_API_KEY"),
    "tavily": ("TAVILY_API_KEY",),
    "searxng": (),
}
"""Who can search the web, and the variables that usually hold the key."""
