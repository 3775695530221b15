"""Models are opened as the configuration says."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from holdfast.config.model_catalogue import Catalogue, ResolvedModel
from holdfast.config.secrets import Keyring, SecretStore
from holdfast.config.setting_types import Headers, KeySource, ProxyUrl, Url
from holdfast.config.settings import (
    LongPrice,
    ModelSettings,
    NetworkSettings,
    PriceSettings,
    ProviderSettings,
    Settings,
)
from holdfast.errors import ModelAuth
from holdfast.models.model_factory import ModelFactory, load_wire, model_info
from holdfast.models.model_script import ModelScript, ScriptedText, ScriptRule
from holdfast.models.protocol import Model, ModelRequest, Price
from holdfast.models.stall_timeout import StallLimits
from holdfast.schema.messages import Text
from holdfast.testing import Answer, TestProvider, text
from tests.models.requests import message
from tests.models.support import LIMITS, WIRES, summarize

ASK = ModelRequest(messages=(message(1, "user", Text("hi")),))


@pytest.fixture
def keyring(tmp_path: Path) -> Keyring:
    return Keyring(SecretStore(tmp_path / "keys.json"), env={"LOCAL_KEY": "sk-local-12345678"})


@pytest.fixture
async def models(keyring: Keyring) -> AsyncIterator[ModelFactory]:
    opened = ModelFactory(
        keyring,
        network=NetworkSettings(),
        scripts={"demo": ModelScript(rules=(ScriptRule((ScriptedText("scripted"),)),))},
    )
    yield opened
    await opened.aclose()


def settings(wire: Any, url: str) -> Settings:
    price = PriceSettings(input=1.0, output=2.0, long=LongPrice(above=1000, input=2.0, output=4.0))
    own = ModelSettings(
        context_window=1000, max_output=100, images=True, reasoning=("low",), price=price, body={"b": 2}
    )
    provider = ProviderSettings(
        wire=wire,
        base_url=Url(url),
        api_key=KeySource.from_config("env:LOCAL_KEY"),
        headers=Headers({"X-Team": "tools"}),
        body={"a": 1},
        models={"qwen": own},
    )
    return Settings(providers={"local": provider})


async def collect(model: Model) -> dict[str, Any]:
    return summarize([delta async for delta in model.stream(ASK)])


@pytest.mark.parametrize("wire", WIRES)
async def test_request_is_sent_as_configured(wire: str, models: ModelFactory) -> None:
    async with TestProvider([text("hello")]) as provider:
        resolved = Catalogue(settings(wire, provider.url(wire)), env={"LOCAL_KEY": "x"}).resolve("local/qwen")  # type: ignore[arg-type]
        assert (await collect(models.open(resolved, limits=LIMITS)))["text"] == "hello"
        [received] = provider.requests
    assert received.wire == wire
    assert received.model == "qwen"
    assert "sk-local-12345678" in str(received.headers)
    assert received.headers["x-team"] == "tools"
    assert (received.body["a"], received.body["b"]) == (1, 2)


def test_model_info_has_the_configured_properties() -> None:
    catalogue = Catalogue(settings("anthropic", "http://127.0.0.1:1"), env={"LOCAL_KEY": "x"})
    info = model_info(catalogue.resolve("local/qwen"))
    assert (info.name, info.context_window, info.max_output) == ("local/qwen", 1000, 100)
    assert info.images
    assert info.reasoning == ("low",)
    assert info.price is not None
    assert (info.price.input, info.price.output, info.price.above) == (1.0, 2.0, 1000)
    assert info.price.long == Price(input=2.0, output=4.0)


def test_every_model_of_the_catalogue_can_be_opened(models: ModelFactory) -> None:
    keys = dict.fromkeys(("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GEMINI_API_KEY", "OPENROUTER_API_KEY"), "x" * 20)
    known = Catalogue(Settings(), env=keys).models()
    assert len({model.wire for model in known}) >= 4
    assert [models.open(model, limits=LIMITS).info.name for model in known] == [model.name for model in known]


async def test_offline_model_needs_no_key_and_no_network(models: ModelFactory) -> None:
    resolved = Catalogue(Settings(), env={}).resolve("offline/demo")
    assert (await collect(models.open(resolved, limits=LIMITS)))["text"] == "scripted"


def test_a_model_is_kept_until_its_settings_change(models: ModelFactory) -> None:
    def resolved(port: int) -> ResolvedModel:
        found = settings("openai-chat", f"http://127.0.0.1:{port}")
        return Catalogue(found, env={"LOCAL_KEY": "x"}).resolve("local/qwen")

    first = models.open(resolved(1), limits=LIMITS)
    assert models.open(resolved(1), limits=LIMITS) is first
    moved = models.open(resolved(2), limits=LIMITS)
    assert moved is not first
    patient = StallLimits(LIMITS.first_token + 1, LIMITS.between_tokens)
    assert models.open(resolved(2), limits=patient) is not moved


async def test_models_of_one_provider_share_its_connections(models: ModelFactory) -> None:
    first, second = (
        models.open(
            Catalogue(settings(wire, "http://127.0.0.1:1"), env={"LOCAL_KEY": "x"}).resolve("local/qwen"), limits=LIMITS
        )
        for wire in ("anthropic", "gemini")
    )
    assert first._transport is second._transport  # type: ignore[attr-defined]


async def test_missing_key_raises_an_error_before_anything_is_sent(models: ModelFactory) -> None:
    async with TestProvider() as provider:
        config = settings("anthropic", provider.url("anthropic"))
        own = ProviderSettings(
            wire="anthropic", base_url=config.providers["local"].base_url, api_key=KeySource.from_config("env:NO_KEY")
        )
        resolved = Catalogue(Settings(providers={"local": own}), env={"NO_KEY": "x"}).resolve("local/any")
        with pytest.raises(ModelAuth, match="NO_KEY"):
            await collect(models.open(resolved, limits=LIMITS))
        assert provider.requests == []


async def test_rejected_key_from_a_command_is_fetched_again(tmp_path: Path) -> None:
    count = tmp_path / "count"
    command = f"cmd:echo x >> {count}; echo sk-from-command-$(wc -l < {count} | tr -d ' ')"
    async with TestProvider([text("a"), Answer(status=401), text("b")]) as provider:
        own = ProviderSettings(wire="openai-chat", base_url=Url(provider.url()), api_key=KeySource.from_config(command))
        resolved = Catalogue(Settings(providers={"own": own}), env={}).resolve("own/m")
        models = ModelFactory(
            Keyring(SecretStore(tmp_path / "keys.json"), env={"PATH": "/usr/bin:/bin"}), network=NetworkSettings()
        )
        model = models.open(resolved, limits=LIMITS)
        await collect(model)
        with pytest.raises(ModelAuth):
            await collect(model)
        await collect(model)
        await models.aclose()
        sent = [received.headers["authorization"] for received in provider.requests]
    assert sent == ["Bearer sk-from-command-1", "Bearer sk-from-command-1", "Bearer sk-from-command-2"]


async def test_proxy_is_used_for_remote_hosts(keyring: Keyring) -> None:
    async with TestProvider([text("through the proxy")]) as proxy:
        models = ModelFactory(keyring, network=NetworkSettings(proxy=ProxyUrl(f"http://127.0.0.1:{proxy.port}")))
        own = ProviderSettings(wire="openai-chat", base_url=Url("http://model.invalid/v1"))
        resolved = Catalogue(Settings(providers={"far": own}), env={}).resolve("far/m")
        assert (await collect(models.open(resolved, limits=LIMITS)))["text"] == "through the proxy"
        assert proxy.requests[0].path == "http://model.invalid/v1/chat/completions"
        await models.aclose()


def _loaded_by(code: str) -> set[str]:
    script = f"{code}\nimport sys\nprint('\\n'.join(sys.modules))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def test_importing_the_factory_imports_no_wire_and_no_http() -> None:
    loaded = _loaded_by("import holdfast.models.model_factory, holdfast.models.retry, holdfast.models.protocol")
    wires = {f"holdfast.models.wires.{name}" for name in ("anthropic", "gemini", "openai_chat", "openai_responses")}
    assert not loaded & (wires | {"httpx2", "httpcore2", "anyio", "ssl", "asyncio"})


@pytest.mark.parametrize("wire", WIRES)
def test_loading_a_wire_imports_only_that_wire(wire: str) -> None:
    loaded = _loaded_by(f"from holdfast.models.model_factory import load_wire; load_wire({wire!r})")
    others = {type(load_wire(other)).__module__ for other in WIRES if other != wire}  # type: ignore[arg-type]
    assert not loaded & (others | {"httpx2", "httpcore2", "anyio"})
