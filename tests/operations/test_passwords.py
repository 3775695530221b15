"""Passwords of the database: where they are read from, what a wrong one says, and that nobody else sees them."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from holdfast.config.setting_types import StoreUrl
from holdfast.errors import ConfigError
from holdfast.store.postgres import with_password
from holdfast.testing import Answer, Call, text
from tests.e2e.player import Player
from tests.e2e.provider import Provider
from tests.e2e.server import free_port
from tests.operations.conftest import StartServer
from tests.support.postgres_cluster import PostgresCluster
from tests.support.stress import StressShare

pytestmark = [pytest.mark.timeout(120)]

PASSWORD = "s3cret-of-the-database"


class ScramCluster(PostgresCluster):
    """Takes TCP connections with a password only."""

    def __init__(self) -> None:
        super().__init__(port=free_port(), hba=("host all all 127.0.0.1/32 scram-sha-256",))

    def address(self, database: str) -> str:
        return f"postgresql://holdfast@127.0.0.1:{self.port}/{database}"


@pytest.fixture(scope="module")
def scram() -> Iterator[ScramCluster]:
    cluster = ScramCluster()
    cluster.admin(f"CREATE ROLE holdfast LOGIN PASSWORD '{PASSWORD}'")
    cluster.admin("CREATE DATABASE holdfast OWNER holdfast")
    yield cluster
    cluster.stop()


@pytest.mark.stress(weight=0.3)
async def test_a_password_is_read_from_each_place_and_is_nowhere_else(
    scram: ScramCluster, start_server: StartServer, provider: Provider, tmp_path: Path, share: StressShare
) -> None:
    server = await asyncio.to_thread(start_server.make, scram.address("holdfast"))

    refused = await asyncio.to_thread(server.refusal)
    assert "no password supplied" in refused
    assert "run 'holdfast store password'" in refused
    assert "Traceback" not in refused

    await asyncio.to_thread(server.cli, "store", "password", given="wrong-password")
    refused = await asyncio.to_thread(server.refusal)
    assert "password authentication failed" in refused
    assert "run 'holdfast store password'" in refused
    assert "wrong-password" not in refused

    await asyncio.to_thread(server.cli, "store", "password", given=PASSWORD)
    await asyncio.to_thread(server.start)
    player = Player(server.new_client(), tmp_path)
    session = await player.session()
    await _check_a_command_does_not_see_it(player, provider, session.id)
    for arguments in (("doctor",), ("doctor", "--json"), ("store",), ("config",), ("logs",), ("fleet", "--json")):
        said = await asyncio.to_thread(server.cli, *arguments, status=None)
        assert PASSWORD not in said, arguments
    assert PASSWORD not in server.shown_by_ps()
    await player.leave()
    assert server.stop() == 0
    assert PASSWORD not in server.everything_written()
    assert server.locations.secrets_file.stat().st_mode & 0o077 == 0
    await asyncio.to_thread(server.cli, "store", "password", given="")

    (Path(server.env["HOME"]) / ".pgpass").write_text(f"127.0.0.1:*:*:holdfast:{PASSWORD}\n")
    (Path(server.env["HOME"]) / ".pgpass").chmod(0o600)
    await asyncio.to_thread(server.start)
    assert server.stop() == 0
    (Path(server.env["HOME"]) / ".pgpass").unlink()

    server.env["PGPASSWORD"] = PASSWORD
    await asyncio.to_thread(server.start)
    player = Player(server.new_client(), tmp_path)
    await _check_a_command_does_not_see_it(player, provider, session.id)
    await player.leave()
    assert server.stop() == 0
    del server.env["PGPASSWORD"]

    server.env["HOLDFAST_STORE"] = scram.address("holdfast").replace("@", f":{PASSWORD}@")
    await asyncio.to_thread(server.start)
    player = Player(server.new_client(), tmp_path)
    await _check_a_command_does_not_see_it(player, provider, session.id)
    await player.leave()
    for arguments in (("doctor",), ("store",), ("config",), ("config", "--json")):
        assert PASSWORD not in await asyncio.to_thread(server.cli, *arguments, status=None), arguments
    assert server.stop() == 0
    assert PASSWORD not in server.everything_written()
    share.count("servers")


async def _check_a_command_does_not_see_it(player: Player, provider: Provider, session_id: str) -> None:
    prompt = provider.tell(
        "env", Answer(pieces=(Call("bash", {"command": "env; echo seen-$((1 + 1))"}),)), text("done")
    )
    await player.run(session_id, prompt, mode="auto")
    said = str(await player.messages(session_id))
    assert "seen-2" in said
    assert PASSWORD not in said


def test_errors_of_an_address_do_not_quote_its_password() -> None:
    with pytest.raises(ConfigError) as refused:
        with_password("postgresql://u:se%cret@h/db", None)
    assert "percent-encoded" in refused.value.message
    assert "se%cret" not in str(refused.value)
    with pytest.raises(ConfigError, match="foo"):
        with_password("postgresql://u:secret@h/db?foo=1", None)


@pytest.mark.parametrize(
    "address",
    [
        "postgresql://u:secret@h/db",
        "postgresql://:secret@h/db",
        "postgresql://u:secret?x@h/db",
        "postgresql://u@h/db?password=secret&sslmode=require",
        "postgresql://u@h/db?sslkey=k&sslpassword=secret",
    ],
)
def test_a_shown_address_hides_every_password(address: str) -> None:
    shown = StoreUrl.from_config(address).to_config()
    assert "secret" not in shown
    assert "h/db" in shown


@pytest.mark.parametrize("address", ["postgresql://u:sec/ret@h/db", "postgresql://u:sec@ret@h/db"])
def test_a_password_that_libpq_would_cut_is_refused(address: str) -> None:
    with pytest.raises(ValueError, match="holdfast store password"):
        StoreUrl.from_config(address)


def test_addresses_without_a_password_are_taken_as_they_are() -> None:
    for address in (
        "postgresql://a@db1:5432,db2:5433/x",
        "postgresql:///x?host=/run/pg",
        "postgresql://h:5432/x?user=a@b",
    ):
        assert StoreUrl.from_config(address) == address
    psycopg.conninfo.conninfo_to_dict("postgresql://h:5432/x?user=a@b")
