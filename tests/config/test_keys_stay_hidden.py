"""No repr, message, plain value or log line contains a configured key."""

from __future__ import annotations

import asyncio
import logging
import traceback
from pathlib import Path

import pytest

from holdfast.config import (
    Catalogue,
    Config,
    Keyring,
    Secret,
    SecretStore,
    load_config,
    plain_values,
)
from holdfast.errors import HoldfastError
from holdfast.locations import Locations

PLANTED = "sk-planted-0123456789abcdef"
EVERYWHERE = f"""
network.proxy = "http://user:{PLANTED}@proxy.test:3128"
[providers.anthropic]
api_key = "{PLANTED}"
headers = {{ X-Key = "{PLANTED}" }}
[providers.own]
wire = "gemini"
base_url = "https://user:{PLANTED}@own.test/v1"
[web_search]
provider = "brave"
api_key = "{PLANTED}"
[mcp.docs]
command = ["x"]
env = {{ TOKEN = "{PLANTED}" }}
headers = {{ Authorization = "Bearer {PLANTED}" }}
"""


@pytest.fixture
def locations(holdfast_home: Path) -> Locations:
    found = Locations.from_env({"HOLDFAST_HOME": str(holdfast_home)})
    found.prepare()
    return found


def load(locations: Locations, text: str) -> Config:
    locations.config_file.write_text(text)
    return load_config(locations, env={"OPENAI_API_KEY": PLANTED})


@pytest.mark.promise("W8")
def test_no_display_of_a_configuration_contains_the_key(locations: Locations) -> None:
    config = load(locations, EVERYWHERE)
    catalogue = Catalogue(config.settings, env={"OPENAI_API_KEY": PLANTED}, stored={"gemini"})
    shown = [
        *(repr(config), str(config), repr(config.settings), str(plain_values(config.settings)), str(config.warnings)),
        *(repr(catalogue.providers()), repr(catalogue.models()), repr(catalogue.large()), str(config.origins)),
    ]
    assert [text for text in shown if PLANTED in text] == []


@pytest.mark.promise("W8")
async def test_all_output_is_redacted_once_the_configuration_is_loaded(locations: Locations) -> None:
    config = await asyncio.to_thread(load, locations, EVERYWHERE)
    store = SecretStore(locations.secrets_file)
    await asyncio.to_thread(store.put, "gemini", Secret("stored-9876543210"))
    ring = Keyring(store, env={"OPENAI_API_KEY": "from-the-environment"})
    assert await ring.learn(config.settings) == {"gemini"}
    text = f"{EVERYWHERE} stored-9876543210 from-the-environment"
    assert ring.redactor.redact(text).count("[redacted]") == EVERYWHERE.count(PLANTED) + 2
    assert PLANTED not in ring.redactor.redact(text)
    assert PLANTED not in repr(ring.redactor)


@pytest.mark.parametrize(
    "text",
    [
        f'[providers.anthropic]\napi_key = "env:{PLANTED}"',
        f'[providers.anthropic]\napi_key = "file:{PLANTED}"',
        f'[providers.anthropic]\napi_keys = "{PLANTED}"',
        f'[providers.anthropic]\napi_key = ["{PLANTED}"]',
        f'[providers.anthropic]\napi_key = "{PLANTED}',
        f'[providers.anthropic]\nheaders = {{ A = ["{PLANTED}"] }}',
        f'[providers.anthropic]\nheaders = "Authorization: {PLANTED}"',
        f'[providers.anthropic]\nbase_url = "{PLANTED}"',
        f'[providers.own]\napi_key = "{PLANTED}"',
        f'network.proxy = "user:{PLANTED}@proxy"',
        f'limits = "{PLANTED}"',
        f'[limits]\nmax_steps = "{PLANTED}"',
        f'[mcp.x]\nenv = {{ TOKEN = "{PLANTED}" }}',
    ],
)
def test_no_error_about_a_file_repeats_a_key_in_it(locations: Locations, text: str) -> None:
    with pytest.raises(HoldfastError) as caught:
        load(locations, text)
    formatted = "".join(traceback.format_exception(caught.value))
    assert PLANTED not in f"{caught.value!r} {caught.value.detail} {formatted}"


def test_a_log_line_does_not_show_a_secret(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        logging.getLogger("test").info("using %s and %r", Secret(PLANTED), [Secret(PLANTED)])
    assert PLANTED not in caplog.text
    assert "(hidden)" in caplog.text
