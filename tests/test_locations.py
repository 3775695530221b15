"""Locations for an environment."""

import os
import stat
from pathlib import Path

import pytest

from holdfast.directories import find_directories
from holdfast.errors import ConfigError
from holdfast.locations import Locations


def test_holdfast_home_puts_everything_into_one_directory() -> None:
    found = Locations.from_env({"HOLDFAST_HOME": "/h", "XDG_CONFIG_HOME": "/elsewhere", "HOME": "/home/me"})
    assert found == Locations(Path("/h/config"), Path("/h/data"), Path("/h/state"), Path("/h/run"))
    assert found.config_file == Path("/h/config/config.toml")
    assert found.database == Path("/h/data/holdfast.db")
    assert found.socket == Path("/h/run/holdfast.sock")
    assert found.logs_dir == Path("/h/state/logs")
    assert found.secrets_file == Path("/h/data/secrets.json")
    assert found.trust_file == Path("/h/data/trust.json")


def test_the_xdg_variables_are_used() -> None:
    env = {"XDG_CONFIG_HOME": "/c", "XDG_DATA_HOME": "/d", "XDG_STATE_HOME": "/s", "XDG_RUNTIME_DIR": "/r", "HOME": "/"}
    expected = Locations(Path("/c/holdfast"), Path("/d/holdfast"), Path("/s/holdfast"), Path("/r/holdfast"))
    assert Locations.from_env(env, platform="linux") == expected
    assert Locations.from_env(env, platform="darwin") == expected


def test_the_defaults_on_linux() -> None:
    assert Locations.from_env({"HOME": "/home/me"}, platform="linux") == Locations(
        Path("/home/me/.config/holdfast"),
        Path("/home/me/.local/share/holdfast"),
        Path("/home/me/.local/state/holdfast"),
        Path("/home/me/.local/state/holdfast/run"),
    )


def test_the_defaults_on_macos() -> None:
    support = Path("/Users/me/Library/Application Support/holdfast")
    found = Locations.from_env({"HOME": "/Users/me", "TMPDIR": "/var/folders/x/T/"}, platform="darwin")
    assert found == Locations(support, support, support / "state", Path("/var/folders/x/T/holdfast"))


def test_a_relative_xdg_path_is_ignored() -> None:
    found = Locations.from_env({"HOME": "/home/me", "XDG_DATA_HOME": "data"}, platform="linux")
    assert found.data_dir == Path("/home/me/.local/share/holdfast")


@pytest.mark.parametrize("home", ["/a//b/", "/a/./b", "//a/b", "///a/b", "/", "/a/../b", "/ä b/c", "/" + "x" * 99])
def test_the_socket_is_found_without_pathlib_at_the_same_place(home: str) -> None:
    root = Path(home)
    expected = root / "run" / "holdfast.sock"
    found = find_directories({"HOLDFAST_HOME": home})
    assert found.data == str(root / "data")
    assert found.socket == str(Locations.from_env({"HOLDFAST_HOME": home}).socket)
    assert (found.socket == str(expected)) == (len(os.fsencode(expected)) <= 100)


def test_directories_inside_another_one_are_not_listed_with_it() -> None:
    found = Locations(Path("/h/config"), Path("/h/data"), Path("/h/data/state"), Path("/h/data"))
    assert found.own_directories == (Path("/h/config"), Path("/h/data"))
    beside = Locations(Path("/h/a"), Path("/h/ab"), Path("/h/a/b/c"), Path("/h/b"))
    assert beside.own_directories == (Path("/h/a"), Path("/h/ab"), Path("/h/b"))


def test_a_relative_holdfast_home_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"HOLDFAST_HOME must be an absolute path, got 'here'"):
        Locations.from_env({"HOLDFAST_HOME": "here"})


def test_the_error_without_a_home_says_what_to_set() -> None:
    with pytest.raises(ConfigError, match="set HOME or HOLDFAST_HOME"):
        Locations.from_env({}, platform="linux", uid=987_654_321)


def test_a_too_long_socket_path_is_replaced_by_a_short_one() -> None:
    long = {"HOLDFAST_HOME": "/" + "x" * 120}
    found = Locations.from_env(long, uid=7)
    assert len(os.fsencode(found.socket)) <= 100
    assert found.socket == Locations.from_env(long, uid=7).socket
    assert found.socket != Locations.from_env({"HOLDFAST_HOME": "/" + "y" * 120}, uid=7).socket
    assert found.data_dir == Path("/" + "x" * 120) / "data"


def test_directories_are_created_private(holdfast_home: Path) -> None:
    locations = Locations.from_env({"HOLDFAST_HOME": str(holdfast_home)})
    locations.prepare()
    locations.prepare()
    for directory in (locations.config_dir, locations.snapshots_dir, locations.outputs_dir, locations.logs_dir):
        assert stat.S_IMODE(directory.stat().st_mode) == 0o700


def test_a_runtime_directory_open_to_others_is_made_private(holdfast_home: Path) -> None:
    locations = Locations.from_env({"HOLDFAST_HOME": str(holdfast_home)})
    locations.runtime_dir.mkdir(parents=True)
    locations.runtime_dir.chmod(0o777)
    locations.prepare()
    assert stat.S_IMODE(locations.runtime_dir.stat().st_mode) == 0o700


def test_a_runtime_directory_that_is_a_link_is_refused(holdfast_home: Path, tmp_path: Path) -> None:
    locations = Locations.from_env({"HOLDFAST_HOME": str(holdfast_home)})
    holdfast_home.mkdir()
    locations.runtime_dir.symlink_to(tmp_path)
    with pytest.raises(ConfigError, match="does not belong to you"):
        locations.prepare()


def test_the_error_names_a_file_where_a_directory_is_needed(holdfast_home: Path) -> None:
    holdfast_home.write_text("")
    with pytest.raises(ConfigError, match=r"cannot create .*; set HOLDFAST_HOME to a directory that can be written"):
        Locations.from_env({"HOLDFAST_HOME": str(holdfast_home)}).prepare()
