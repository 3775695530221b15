"""Server addresses are parsed, and invalid ones are refused."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.client.server_address import ServerAddress, address_from_env
from holdfast.errors import ConfigError


@pytest.mark.parametrize(
    ("text", "address", "authority"),
    [
        ("unix:/run/holdfast.sock", ServerAddress(path="/run/holdfast.sock"), "localhost"),
        ("unix:///run/holdfast.sock", ServerAddress(path="/run/holdfast.sock"), "localhost"),
        ("http://127.0.0.1:8080", ServerAddress(host="127.0.0.1", port=8080), "127.0.0.1:8080"),
        ("http://box:8080/", ServerAddress(host="box", port=8080), "box:8080"),
        ("http://[::1]:8080", ServerAddress(host="::1", port=8080), "[::1]:8080"),
    ],
)
def test_addresses_are_parsed(text: str, address: ServerAddress, authority: str) -> None:
    assert ServerAddress.parse(text) == address
    assert address.authority == authority


@pytest.mark.parametrize(
    "text",
    [
        *("", "unix:", "unix:relative", "unix:/a\0b", "/run/holdfast.sock", "https://host:1", "http://host"),
        *("http://host:", "http://host:0", "http://host:65536", "http://host:x", "http://:80", "http://a:b:80"),
        *("http://user@host:80", "http://host/path:80", "http://ho st:80", "http://host:٣"),
    ],
)
def test_an_invalid_address_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match=r"HOLDFAST_SERVER must be unix:/PATH or http://host:port"):
        ServerAddress.parse(text, name="HOLDFAST_SERVER")


def test_the_address_is_read_from_the_environment() -> None:
    assert address_from_env({}) is None
    assert address_from_env({"HOLDFAST_SERVER": ""}) is None
    assert address_from_env({"HOLDFAST_SERVER": "unix:/s"}) == ServerAddress(path="/s")


@given(text=st.text())
def test_a_parsed_address_formats_back_to_itself(text: str) -> None:
    try:
        address = ServerAddress.parse(text)
    except ConfigError:
        return
    assert ServerAddress.parse(str(address)) == address
