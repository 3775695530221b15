"""Access control: tokens, hosts and origins (`W8`)."""

import os
import stat
from pathlib import Path

import pytest

from holdfast.errors import ConfigError
from holdfast.server import check_token, read_token_file
from holdfast.server.application import ENDPOINTS
from tests.support.running_server import TOKEN, run_server


@pytest.mark.promise("W8")
async def test_over_tcp_no_route_but_health_and_pairing_answers_without_the_token(home: Path) -> None:
    async with run_server(home) as server:
        before = server.app.store.last_number
        for endpoint in ENDPOINTS:
            path = endpoint.path.replace("{", "").replace("}", "")
            for given in (None, "Bearer wrong", f"Basic {TOKEN}", TOKEN, f"Bearer {TOKEN}x", "Bearer "):
                answer = await server.tcp.send(endpoint.method, path, Authorization=given)
                if endpoint.path == "/v1/pairing":
                    assert (answer.status, answer.code) == (400, "invalid_request")
                elif endpoint.public:
                    assert answer.status == 200
                else:
                    assert (answer.status, answer.code) == (401, "unauthorized"), path
                    assert answer.headers["www-authenticate"] == "Bearer"
        unknown = await server.tcp.get("/v1/nothing", Authorization=None)
        assert unknown.status == 401
        assert server.app.store.last_number == before
        assert (await server.tcp.get("/v1/server", Authorization=f"bearer {TOKEN}")).status == 200


@pytest.mark.promise("W8")
async def test_a_host_name_other_than_localhost_is_refused(home: Path) -> None:
    async with run_server(home) as server:
        for host, status in (
            *(
                ("localhost", 200),
                ("LocalHost:4711", 200),
                ("127.0.0.1:80", 200),
                ("[::1]:80", 200),
                ("192.168.1.7", 200),
            ),
            *(("evil.example", 403), ("evil.example:80", 403), ("localhost.evil.example", 403)),
            *(("127.0.0.1.evil.example", 403), (":80", 400), ("", 400)),
        ):
            for path in ("/v1/server", "/v1/health"):
                assert (await server.tcp.get(path, Host=host)).status == status, host
            assert (await server.http.get("/v1/server", Host=host)).status == 200


@pytest.mark.promise("W8")
async def test_a_page_of_another_site_is_refused_also_on_the_socket(home: Path) -> None:
    async with run_server(home) as server:
        foreign = ("https://localhost", "http://localhost:81", "http://evil.example", "null", "")
        for http in (server.http, server.tcp):
            for origin in ("http://localhost", "http://LOCALHOST"):
                assert (await http.get("/v1/server", Origin=origin)).status == 200
            for origin in foreign:
                answer = await http.get("/v1/server", Origin=origin)
                assert (answer.status, answer.code) == (403, "foreign_origin")
                assert "access-control-allow-origin" not in answer.headers


def test_a_token_file_is_private_and_keeps_its_token(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "token"
    token = read_token_file(path)
    assert len(token) >= 43
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert read_token_file(path) == token
    assert os.listdir(path.parent) == ["token"]


@pytest.mark.parametrize("mode", [0o644, 0o620, 0o604])
def test_a_token_that_others_could_read_or_write_is_replaced(tmp_path: Path, mode: int) -> None:
    path = tmp_path / "token"
    token = read_token_file(path)
    path.chmod(mode)
    assert read_token_file(path) != token
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_symbolic_link_as_token_file_is_replaced(tmp_path: Path) -> None:
    target = tmp_path / "theirs"
    target.write_text("a-token-that-somebody-planted")
    target.chmod(0o600)
    path = tmp_path / "token"
    path.symlink_to(target)
    assert read_token_file(path) != "a-token-that-somebody-planted"
    assert target.read_text() == "a-token-that-somebody-planted"
    assert not path.is_symlink()


def test_a_token_file_that_cannot_be_written_is_reported(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match="token file"):
        read_token_file(tmp_path / "file" / "token")


@pytest.mark.parametrize(
    "token", ["short", "with a space in it all", "üüüüüüüüüüüüüüüüüüüü", "tab\tin-the-middle-of-it"]
)
def test_a_short_or_unprintable_token_is_refused(token: str) -> None:
    with pytest.raises(ConfigError):
        check_token(token)
    assert check_token("x" * 16) == "x" * 16
