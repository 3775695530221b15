"""Listening sockets: private, complete, and not taken from a live server."""

import os
import socket
import stat
from pathlib import Path

import pytest

from holdfast.errors import ConfigError, StoreLocked
from holdfast.server import TcpAccess, TcpAddress, listen_tcp, listen_unix, parse_listen


@pytest.mark.promise("W8")
def test_the_socket_is_private_and_is_removed(home: Path) -> None:
    path = home / "holdfast.sock"
    listener = listen_unix(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert str(listener) == f"unix:{path}"
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(str(path))
    listener.socket.close()
    listener.remove()
    assert os.listdir(home) == []


def test_a_stale_socket_is_replaced_but_one_that_answers_is_not(home: Path) -> None:
    path = home / "holdfast.sock"
    listen_unix(path).socket.close()
    assert path.exists()
    second = listen_unix(path)
    with pytest.raises(StoreLocked, match="another server"):
        listen_unix(path)
    second.socket.close()


def test_a_file_that_is_not_a_socket_is_left_alone(home: Path) -> None:
    path = home / "holdfast.sock"
    path.write_text("mine")
    with pytest.raises(ConfigError, match="in the way"):
        listen_unix(path)
    assert path.read_text() == "mine"


def test_a_stopping_server_does_not_remove_the_socket_of_its_successor(home: Path) -> None:
    path = home / "holdfast.sock"
    old = listen_unix(path)
    old.socket.close()
    new = listen_unix(path)
    old.remove()
    assert path.exists()
    new.socket.close()
    new.remove()
    assert not path.exists()


def test_a_missing_directory_is_reported(home: Path) -> None:
    with pytest.raises(ConfigError, match="cannot listen"):
        listen_unix(home / "absent" / "holdfast.sock")


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("127.0.0.1:0", TcpAddress("127.0.0.1", 0)),
        ("localhost:80", TcpAddress("127.0.0.1", 80)),
        ("[::1]:65535", TcpAddress("::1", 65535)),
    ],
)
def test_loopback_addresses_are_accepted(text: str, address: TcpAddress) -> None:
    assert parse_listen(text) == address


@pytest.mark.promise("W8")
@pytest.mark.parametrize("text", ["0.0.0.0:80", "192.168.1.7:80", "[::]:80"])
def test_other_addresses_need_allow_remote(text: str) -> None:
    with pytest.raises(ConfigError, match="--allow-remote"):
        parse_listen(text)
    assert parse_listen(text, allow_remote=True).port == 80


@pytest.mark.parametrize(
    "text", ["", "80", ":80", "127.0.0.1", "127.0.0.1:", "127.0.0.1:x", "127.0.0.1:65536", "a.b:1"]
)
def test_an_invalid_address_is_refused(text: str) -> None:
    with pytest.raises(ConfigError):
        parse_listen(text, allow_remote=True)


def test_a_port_in_use_is_reported() -> None:
    first = listen_tcp(TcpAddress("127.0.0.1", 0), access=TcpAccess("t" * 16))
    assert str(first) == f"http://127.0.0.1:{first.port}"
    with pytest.raises(ConfigError, match="cannot listen"):
        listen_tcp(TcpAddress("127.0.0.1", first.port), access=TcpAccess("t" * 16))
    first.socket.close()
