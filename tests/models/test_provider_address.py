"""Where a provider is, and whether a proxy stands in between."""

from __future__ import annotations

import pytest

from holdfast.models.provider_address import Network, is_loopback, provider_address, proxy_for


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
def test_a_path_is_put_below_the_base(base: str, path: str, url: str, host: str) -> None:
    found = provider_address(base, path)
    assert (found.url, found.host) == (url, host)


def test_a_password_becomes_a_header_and_is_not_shown() -> None:
    found = provider_address("http://user:p%20w@host/v1", "/c")
    assert found.authorization == "Basic dXNlcjpwIHc="
    assert "dXNl" not in repr(found)


@pytest.mark.parametrize(
    "host", ["localhost", "localhost:8080", "127.0.0.1", "127.8.9.1:1", "[::1]:5", "app.localhost"]
)
def test_this_machine_is_never_reached_through_a_proxy(host: str) -> None:
    assert is_loopback(host)
    assert proxy_for(provider_address(f"http://{host}/"), Network(proxy="http://proxy:1")) is None


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
def test_hosts_that_are_named_are_reached_directly(host: str, direct: bool) -> None:
    network = Network(proxy="http://proxy:1", no_proxy=("example.com", "other.net:8443", "10.0.0.0/8", "*.internal"))
    assert (proxy_for(provider_address(f"https://{host}/"), network) is None) is direct


def test_a_star_means_everything_and_nothing_means_the_proxy() -> None:
    there = provider_address("https://host/")
    assert proxy_for(there, Network(proxy="http://p:1", no_proxy=("*",))) is None
    assert proxy_for(there, Network(proxy="http://p:1", no_proxy=("", " "))) == "http://p:1"
    assert proxy_for(there, Network()) is None


def test_a_proxys_password_is_not_shown() -> None:
    assert "secret" not in repr(Network(proxy="http://me:secret@proxy:1"))
