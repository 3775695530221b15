"""The environment of commands has no keys in it (W8)."""

import pytest

from holdfast.config import PROVIDERS
from holdfast.tools.process.command_environment import NON_INTERACTIVE, child_environment
from tests.support.toolbox import settings_of


@pytest.mark.promise("W8")
@pytest.mark.parametrize("name", [name for provider in PROVIDERS.values() for name in provider.key_env])
def test_no_known_providers_key_is_passed_on(name: str) -> None:
    assert name not in child_environment({name: "secret", "PATH": "/bin"}, settings_of())


@pytest.mark.promise("W8")
@pytest.mark.parametrize(
    "name", ["HOLDFAST_TOKEN", "MY_KEY", "TEAM_TOKEN", "SEARCH_KEY", "TAVILY_API_KEY", "anthropic_api_key"]
)
def test_no_configured_key_and_no_token_is_passed_on(name: str) -> None:
    settings = settings_of(
        providers={
            "mine": {
                "wire": "openai-chat",
                "base_url": "http://127.0.0.1:1",
                "api_key": "env:MY_KEY",
                "headers": {"X-Team": "env:TEAM_TOKEN"},
            }
        },
        web_search={"provider": "brave", "api_key": "env:SEARCH_KEY"},
    )
    assert name not in child_environment({name: "secret"}, settings)


def test_everything_else_is_passed_on() -> None:
    base = {"PATH": "/bin", "HOME": "/root", "GITHUB_TOKEN": "the user's own", "LANG": "C"}
    assert child_environment(base, settings_of()) == {**base, **NON_INTERACTIVE}


def test_a_users_pager_does_not_wait_for_a_key_press() -> None:
    assert child_environment({"PAGER": "less"}, settings_of())["PAGER"] == "cat"
