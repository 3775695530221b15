"""`holdfast serve`."""

import pytest

from tests.cli.cli_shell import CliShell, open_shell


def test_serve_prints_its_addresses_and_the_token_file() -> None:
    with open_shell() as sh:
        token_file = sh.base / "token"
        server = sh.start("serve", "--listen", "127.0.0.1:0", "--token-file", str(token_file))
        output = server.until("token in ")
        address = next(line for line in output.splitlines() if line.startswith("http://"))
        there = {"HOLDFAST_SERVER": address, "HOLDFAST_TOKEN": token_file.read_text().strip()}
        assert sh.ok("run", "!say over tcp", env=there) == "over tcp"
        assert sh("run", "x", env={"HOLDFAST_SERVER": address}).status == 3
        second = sh("serve")
        assert (second.status, second.out) == (75, "")
        assert sh("serve", "--listen", "0.0.0.0:0").status in (3, 75)
        sh.ok("stop")
        assert server.end().status == 0


@pytest.mark.parametrize("listen", ["nonsense", "127.0.0.1:99999", "0.0.0.0:0"])
def test_an_invalid_listen_address_is_a_usage_error(sh: CliShell, listen: str) -> None:
    done = sh("serve", "--listen", listen)
    assert (done.status, done.out) == (2, "")
    assert "config edit" not in done.err
