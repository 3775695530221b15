"""The available models, their properties, and the choice among them."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from holdfast.config import Catalogue, ResolvedModel, Settings, search_key
from holdfast.config.provider_catalogue import PROVIDERS, CatalogueModel, CataloguePrice, CatalogueProvider
from holdfast.config.secrets import configured_secrets, secret_variables
from holdfast.config.setting_types import Secret, Url
from holdfast.config.setting_validation import decode
from holdfast.config.toml_document import parse_toml
from holdfast.errors import NoModel

KEY = {"ANTHROPIC_API_KEY": "sk-planted-0123456789"}


def settings(text: str = "") -> Settings:
    found, problems = decode(parse_toml(text))
    assert problems == []
    return found


def catalogue(text: str = "", env: dict[str, str] | None = None, **options: Any) -> Catalogue:
    return Catalogue(settings(text), env=env or {}, **options)


LOCAL = """
[providers.local]
wire = "openai-chat"
base_url = "http://127.0.0.1:8080/v1/"
api_key = "env:LOCAL_KEY"
headers = { X-Team = "tools", X-Env = "env:TEAM" }
body = { seed = 1, top = 2 }
[providers.local.models.qwen]
name = "Qwen"
context_window = 131072
max_output = 8192
reasoning = ["low", "high"]
price = { input = 1.0, output = 2.0 }
body = { top = 3 }
"""


@pytest.mark.parametrize("name", PROVIDERS)
def test_every_built_in_provider_is_complete(name: str) -> None:
    provider = PROVIDERS[name]
    ids = [model.id for model in provider.models]
    assert len(set(ids)) == len(ids)
    assert provider.large is None or provider.large in ids
    assert provider.small is None or provider.small in ids
    assert provider.local or provider.key_env
    assert provider.address_env or provider.wire == "scripted" or Url.from_config(provider.base_url)
    for model in provider.models:
        assert model.name
        assert model.context_window >= model.max_output > 0
        assert isinstance(model.price, CataloguePrice)
        if provider.wire != "scripted":
            assert model.price.output >= model.price.input >= model.price.cache_read >= 0
            assert model.price.long is None or model.price.long.input > model.price.input


def test_the_catalogue_covers_the_main_providers() -> None:
    expected = "anthropic openai gemini openrouter groq deepseek xai mistral together azure ollama lmstudio llamacpp"
    assert set(PROVIDERS) == {*expected.split(), "offline"}
    assert {provider.wire for provider in PROVIDERS.values()} == {
        *("openai-chat", "openai-responses", "anthropic", "gemini", "scripted")
    }


def test_a_built_in_model_needs_only_its_key() -> None:
    model = Catalogue(Settings(), env=KEY).resolve("anthropic/claude-sonnet-5-5")
    assert model.key is not None
    shown = msgspec.structs.replace(model, key=None)
    assert model.key.to_config() == "env:ANTHROPIC_API_KEY"
    assert shown == ResolvedModel(
        name="anthropic/claude-sonnet-5-5",
        provider="anthropic",
        model="claude-sonnet-5-5",
        title="Claude Sonnet 5.5",
        wire="anthropic",
        base_url=Url("https://api.anthropic.com/v1"),
        key=None,
        headers=shown.headers,
        body={},
        context_window=1_000_000,
        max_output=128_000,
        images=True,
        reasoning=("low", "medium", "high", "xhigh", "max"),
        price=CataloguePrice(2, 10, 0.1, 2.5),
    )
    assert KEY["ANTHROPIC_API_KEY"] not in repr(model)


def test_a_configured_model_has_all_its_configured_values() -> None:
    model = catalogue(LOCAL, {"LOCAL_KEY": "k", "TEAM": "t"}).resolve("local/qwen")
    assert (model.wire, model.base_url, model.title) == ("openai-chat", "http://127.0.0.1:8080/v1", "Qwen")
    assert dict(model.headers) == {"X-Team": "tools", "X-Env": "t"}
    assert model.body == {"seed": 1, "top": 3}
    assert (model.context_window, model.max_output, model.reasoning) == (131_072, 8_192, ("low", "high"))
    assert model.price == CataloguePrice(input=1, output=2, cache_read=1, cache_write=1)
    assert model.key is not None
    assert model.key.to_config() == "env:LOCAL_KEY"


def test_configuration_overrides_only_the_catalogue_values_that_it_sets() -> None:
    text = "[providers.anthropic.models.claude-haiku-5-5]\nmax_output = 9\nprice.output = 7.0\n"
    model = catalogue(text, KEY).resolve("anthropic/claude-haiku-5-5")
    assert (model.max_output, model.context_window, model.title) == (9, 1_000_000, "Claude Haiku 5.5")
    assert model.price == CataloguePrice(input=0.1, output=7.0, cache_read=0.01, cache_write=0.125)


def test_an_empty_table_adds_a_model_that_is_not_in_the_catalogue() -> None:
    text = '[providers.openai.models."gpt-9"]\n'
    model = catalogue(text, {"OPENAI_API_KEY": "x"}).resolve("openai/gpt-9")
    assert (model.model, model.title, model.context_window, model.price) == ("gpt-9", "gpt-9", 0, None)


def test_the_error_for_an_unknown_model_lists_known_ones() -> None:
    with pytest.raises(NoModel) as caught:
        catalogue("", KEY).resolve("anthropic/claude-sonet-5-5")
    assert caught.value.message.startswith(
        "model 'anthropic/claude-sonet-5-5' is not configured; known: anthropic/claude-sonnet-5-5, "
    )
    assert (caught.value.code, caught.value.status) == ("no_model", 409)
    assert "anthropic/claude-opus-5-5" in caught.value.detail["known"]


@pytest.mark.parametrize("name", ["", "/", "x", "nobody/x", "anthropic/", "/x", "anthropic", "a/b/c"])
def test_an_invalid_model_name_is_refused(name: str) -> None:
    with pytest.raises(NoModel, match="is not configured; known:"):
        catalogue("", KEY).resolve(name)


def test_the_error_for_a_provider_without_key_says_how_to_set_it() -> None:
    with pytest.raises(NoModel, match="'openai' has no key; set OPENAI_API_KEY or run 'holdfast key set openai'"):
        catalogue("", KEY).resolve("openai/gpt-6-sol")
    with pytest.raises(NoModel, match="'openai' has no key"):
        catalogue("", KEY).resolve("openai/not-in-the-catalogue")
    with pytest.raises(NoModel, match=r"'azure' has no address; set AZURE_OPENAI_ENDPOINT or providers\.azure"):
        catalogue("", {"AZURE_OPENAI_API_KEY": "x"}).resolve("azure/my-deployment")


def test_a_stored_key_activates_a_provider_and_a_disabled_one_stays_off() -> None:
    assert catalogue("", stored={"openai"}).large().name == "openai/gpt-6-sol"
    off = catalogue("providers.anthropic.enabled = false\n", KEY)
    assert "anthropic" not in [provider.id for provider in off.providers()]
    with pytest.raises(NoModel):
        off.resolve("anthropic/claude-sonnet-5-5")


def test_an_id_alone_is_enough_if_only_one_active_provider_has_it() -> None:
    assert catalogue("", KEY).resolve("claude-haiku-5-5").name == "anthropic/claude-haiku-5-5"


def test_providers_with_unlisted_models_pass_any_id_on() -> None:
    model = catalogue("", {"OPENROUTER_API_KEY": "x"}).resolve("openrouter/some/new-model:free")
    assert (model.provider, model.model, model.price) == ("openrouter", "some/new-model:free", None)


@pytest.mark.parametrize(
    ("name", "env", "address"),
    [
        (
            "azure/d",
            {"AZURE_OPENAI_API_KEY": "x", "AZURE_OPENAI_ENDPOINT": "https://me.test/"},
            "https://me.test/openai/v1",
        ),
        ("ollama/m", {}, "http://127.0.0.1:11434/v1"),
        ("ollama/m", {"OLLAMA_HOST": "0.0.0.0"}, "http://127.0.0.1:11434/v1"),
        ("ollama/m", {"OLLAMA_HOST": "box:99"}, "http://box:99/v1"),
        ("ollama/m", {"OLLAMA_HOST": ":99"}, "http://127.0.0.1:99/v1"),
        ("ollama/m", {"OLLAMA_HOST": "https://box/v1"}, "https://box/v1"),
        ("lmstudio/m", {}, "http://127.0.0.1:1234/v1"),
        ("llamacpp/m", {}, "http://127.0.0.1:8080/v1"),
    ],
)
def test_an_address_may_come_from_the_usual_variable(name: str, env: dict[str, str], address: str) -> None:
    assert catalogue("", env).resolve(name).base_url == address


def test_a_local_model_costs_nothing_and_needs_no_key() -> None:
    model = catalogue("").resolve("ollama/qwen3:8b")
    assert (model.key, model.price, model.local) == (None, CataloguePrice(), True)


def test_discovered_models_of_local_servers_can_be_resolved() -> None:
    found = catalogue("", discovered={"ollama": [CatalogueModel("qwen3:8b", context_window=40_960)]})
    assert found.resolve("ollama/qwen3:8b").context_window == 40_960
    assert "ollama/qwen3:8b" in [model.name for model in found.models()]
    assert found.large().name == "ollama/qwen3:8b"


def test_the_demo_model_always_exists_and_is_never_a_default() -> None:
    assert catalogue("").resolve("offline/demo").wire == "scripted"
    with pytest.raises(NoModel, match="--model offline/demo"):
        catalogue("").large()


@pytest.mark.parametrize(
    ("text", "env", "large", "small"),
    [
        ("", KEY, "anthropic/claude-sonnet-5-5", "anthropic/claude-haiku-5-5"),
        ("", {"OPENAI_API_KEY": "x"}, "openai/gpt-6-sol", "openai/gpt-6-luna"),
        ("", {"OPENAI_API_KEY": "x", **KEY}, "anthropic/claude-sonnet-5-5", "anthropic/claude-haiku-5-5"),
        ("", {"XAI_API_KEY": "x"}, "xai/grok-4.7", "xai/grok-4.7"),
        ("", {"GOOGLE_API_KEY": "x"}, "gemini/gemini-3.8-flash", "gemini/gemini-3.1-flash-lite"),
        (LOCAL, {"LOCAL_KEY": "x", **KEY}, "local/qwen", "local/qwen"),
        ("models.large = 'anthropic/claude-opus-5-5'", KEY, "anthropic/claude-opus-5-5", "anthropic/claude-haiku-5-5"),
        ("models.small = 'offline/demo'", KEY, "anthropic/claude-sonnet-5-5", "offline/demo"),
    ],
)
def test_default_models_come_from_the_active_providers(text: str, env: dict[str, str], large: str, small: str) -> None:
    found = catalogue(text, env)
    assert (found.large().name, found.small().name) == (large, small)


def test_the_small_model_can_be_chosen_beside_the_one_a_run_uses() -> None:
    found = catalogue("", {"OPENAI_API_KEY": "x", **KEY})
    assert found.small(beside=found.resolve("openai/gpt-6-astra")).name == "openai/gpt-6-luna"


def test_a_configured_model_that_cannot_be_used_is_not_silently_replaced() -> None:
    with pytest.raises(NoModel, match="'openai' has no key"):
        catalogue("models.large = 'openai/gpt-6-sol'", KEY).large()


@pytest.mark.promise("W8")
def test_secret_variables_include_every_variable_that_holds_a_key() -> None:
    names = secret_variables(settings(LOCAL + '[web_search]\nprovider = "brave"\napi_key = "env:SEARCH"\n'))
    assert {"ANTHROPIC_API_KEY", "GOOGLE_API_KEY", "LOCAL_KEY", "SEARCH", "HOLDFAST_TOKEN", "TAVILY_API_KEY"} <= names
    assert not {"PATH", "TEAM"} & names
    header = '[providers.local]\nheaders = { Authorization = "env:WHO" }\n'
    assert "WHO" in secret_variables(settings(header))


def test_configured_secrets_include_every_secret_in_the_configuration() -> None:
    text = """
    network.proxy = "http://me:proxy%20pass@p.test:1"
    [providers.anthropic]
    api_key = "literal-key"
    headers = { Authorization = "Bearer token", X-Team = "tools", X-Api-Key = "env:NAME" }
    [mcp.docs]
    command = ["x"]
    env = { API_TOKEN = "token-2", PORT = "80" }
    """
    assert set(configured_secrets(settings(text))) == {
        Secret(text) for text in ("literal-key", "proxy pass", "Bearer token", "token", "token-2")
    }


def test_the_key_for_web_search_is_found_like_a_providers_key() -> None:
    def where(text: str, env: dict[str, str], stored: set[str]) -> str | None:
        found = search_key(settings(text), env=env, stored=stored)
        return found.to_config() if found else None

    brave = "web_search.provider = 'brave'\n"
    assert where(brave, {"BRAVE_API_KEY": "x"}, {"brave"}) == "env:BRAVE_API_KEY"
    assert where(brave, {}, {"brave"}) == "stored:brave"
    assert where(brave + "web_search.api_key = 'env:MINE'", {"MINE": "x"}, set()) == "env:MINE"
    assert where("", {"BRAVE_API_KEY": "x"}, {"brave"}) is None


def test_the_catalogue_survives_a_json_round_trip() -> None:
    assert all(isinstance(provider, CatalogueProvider) for provider in PROVIDERS.values())
    assert msgspec.json.decode(msgspec.json.encode(PROVIDERS), type=dict[str, CatalogueProvider]) == PROVIDERS


def test_a_model_is_resolved_once_and_any_number_of_names_keeps_only_few() -> None:
    models = catalogue('[providers.own]\nwire = "openai-chat"\nbase_url = "http://127.0.0.1:1/v1"')
    first = models.resolve("own/m0")
    assert models.resolve("own/m0") is first
    for number in range(1, 1000):
        assert models.resolve(f"own/m{number}").model == f"m{number}"
    assert models.resolve("own/m0") == first
    assert len(models._resolved) < 100
