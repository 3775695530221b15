"""Addresses of providers, and the proxy to use for them."""

from __future__ import annotations

import pytest

from holdfast.config.setting_types import ProxyUrl
from holdfast.config.settings import NetworkSettings
from holdfast.models.provider_address import build_address, choose_proxy, is_loopback


@pytest.mark.parametrize(
    ("base", "path", "url", "host"),
    [
        ("https://api.example.com/v1", "/messages", "https://api.example.com/v1/messages", "api.example.com"),
        ("https://api.example.com/v1/", "/m?alt=sse", "https://api.example.com/v1/m?alt=sse", "api.example.com"),
        (
            "https://x.example/openai?api-version=1",
            "/c?a=b",
            "https://x.example/openai/c?api-version=1&a=b",
            "x.example",
        ),
        ("http://127.0.0.1:8080", "/c", "http://127.0.0.1:8080/c", "127.0.0.1:8080"),
        ("http://[::1]:8080/v1", "/c", "http://[::1]:8080/v1/c", "[::1]:8080"),
        ("http://user:pass@host:1/v1", "/c", "http://host:1/v1/c", "host:1"),
    ],
)
def test_path_is_appended_to_the_base_url(base: str, path: str, url: str, host: str) -> None:
    found = build_address(base, path)
    assert (found.url, found.host) == (url, host)


def test_password_in_the_url_becomes_a_header_that_repr_hides() -> None:
    found = build_address("http://user:p%20w@host/v1", "/c")
    assert found.authorization == "Basic dXNlcjpwIHc="
    assert "dXNl" not in repr(found)


@pytest.mark.parametrize(
    "host", ["localhost", "localhost:8080", "127.0.0.1", "127.8.9.1:1", "[::1]:5", "app.localhost"]
)
def test_loopback_never_uses_the_proxy(host: str) -> None:
    assert is_loopback(host)
    assert choose_proxy(build_address(f"http://{host}/"), NetworkSettings(proxy=ProxyUrl("http://proxy:1"))) is None


@pytest.mark.parametrize(
    ("host", "direct"),
    [
        ("api.example.com", True),
        ("example.com", True),
        ("EXAMPLE.com", True),
        ("notexample.com", False),
        ("other.net", False),
        ("other.net:8443", True),
        ("10.1.2.3", True),
        ("11.1.2.3", False),
        ("deep.internal", True),
    ],
)
def test_hosts_in_no_proxy_are_reached_directly(host: str, direct: bool) -> None:
    network = NetworkSettings(
        proxy=ProxyUrl("http://proxy:1"), no_proxy=("example.com", "other.net:8443", "10.0.0.0/8", "*.internal")
    )
    assert (choose_proxy(build_address(f"https://{host}/"), network) is None) is direct


def test_star_in_no_proxy_matches_every_host_and_empty_entries_match_none() -> None:
    there = build_address("https://host/")
    assert choose_proxy(there, NetworkSettings(proxy=ProxyUrl("http://p:1"), no_proxy=("*",))) is None
    assert choose_proxy(there, NetworkSettings(proxy=ProxyUrl("http://p:1"), no_proxy=("", " "))) == "http://p:1"
    assert choose_proxy(there, NetworkSettings()) is None


def test_repr_of_network_settings_hides_the_proxy_password() -> None:
    assert "secret" not in repr(NetworkSettings(proxy=ProxyUrl("http://me:secret@proxy:1")))
