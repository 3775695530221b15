"""The sockets: private, never half made, never taken from somebody who answers."""

import os
import socket
import stat
from pathlib import Path

import pytest

from holdfast.errors import ConfigError, StoreLocked
from holdfast.server import TcpAddress, listen_tcp, listen_unix, parse_listen


@pytest.mark.promise("W8")
def test_the_socket_is_its_owners_alone_and_leaves_nothing_behind(home: Path) -> None:
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


def test_what_is_no_socket_is_not_touched(home: Path) -> None:
    path = home / "holdfast.sock"
    path.write_text("mine")
    with pytest.raises(ConfigError, match="in the way"):
        listen_unix(path)
    assert path.read_text() == "mine"


def test_a_server_that_leaves_does_not_remove_its_successors_socket(home: Path) -> None:
    path = home / "holdfast.sock"
    old = listen_unix(path)
    old.socket.close()
    new = listen_unix(path)
    old.remove()
    assert path.exists()
    new.socket.close()
    new.remove()
    assert not path.exists()


def test_a_directory_that_is_not_there_is_said(home: Path) -> None:
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
def test_addresses_of_this_machine_are_taken(text: str, address: TcpAddress) -> None:
    assert parse_listen(text) == address


@pytest.mark.promise("W8")
@pytest.mark.parametrize("text", ["0.0.0.0:80", "192.168.1.7:80", "[::]:80"])
def test_other_addresses_need_a_word_from_the_person(text: str) -> None:
    with pytest.raises(ConfigError, match="--allow-remote"):
        parse_listen(text)
    assert parse_listen(text, allow_remote=True).port == 80


@pytest.mark.parametrize(
    "text", ["", "80", ":80", "127.0.0.1", "127.0.0.1:", "127.0.0.1:x", "127.0.0.1:65536", "a.b:1"]
)
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(ConfigError):
        parse_listen(text, allow_remote=True)


def test_a_port_that_is_taken_is_said() -> None:
    first = listen_tcp(TcpAddress("127.0.0.1", 0), token="t" * 16)
    assert str(first) == f"http://127.0.0.1:{first.port}"
    with pytest.raises(ConfigError, match="cannot listen"):
        listen_tcp(TcpAddress("127.0.0.1", first.port), token="t" * 16)
    first.socket.close()
