"""Trusting a directory, and taking it back."""

from __future__ import annotations

import os
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from holdfast.config import TrustStore
from holdfast.errors import ConfigError


@pytest.fixture
def store(tmp_path: Path) -> TrustStore:
    return TrustStore(tmp_path / "data" / "trust.json")


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "place" / "below").mkdir(parents=True)
    return tmp_path / "place"


@pytest.mark.promise("W1")
def test_nothing_is_trusted_at_first(store: TrustStore, place: Path) -> None:
    assert not store.is_trusted(place)
    assert store.directories() == ()


def test_trust_covers_directories_below_but_not_beside_or_above(store: TrustStore, place: Path) -> None:
    (place.parent / "place-2").mkdir()
    assert store.trust(place) == place
    assert store.is_trusted(place)
    assert store.is_trusted(place / "below")
    assert not store.is_trusted(place.parent)
    assert not store.is_trusted(place.parent / "place-2")
    assert store.covering(place / "below") == place


def test_trust_follows_the_target_of_a_link(store: TrustStore, place: Path) -> None:
    outside = place.parent / "outside"
    outside.mkdir()
    (place / "out").symlink_to(outside)
    (place.parent / "in").symlink_to(place)
    store.trust(place.parent / "in")
    assert store.directories() == (place,)
    assert not store.is_trusted(place / "out")
    assert store.is_trusted(place.parent / "in" / "below")


def test_trust_can_be_revoked(store: TrustStore, place: Path) -> None:
    store.trust(place)
    assert store.revoke(place) is None
    assert not store.is_trusted(place)
    assert store.revoke(place) is None


def test_revoking_a_directory_also_revokes_those_below(store: TrustStore, place: Path) -> None:
    store.trust(place / "below")
    store.revoke(place)
    assert not store.is_trusted(place / "below")


def test_revoking_below_a_trusted_directory_returns_that_directory(store: TrustStore, place: Path) -> None:
    store.trust(place)
    assert store.revoke(place / "below") == place
    assert store.is_trusted(place / "below")


def test_a_deleted_directory_can_be_revoked_but_not_trusted(store: TrustStore, place: Path) -> None:
    store.trust(place / "below")
    (place / "below").rmdir()
    store.revoke(place / "below")
    assert store.directories() == ()
    with pytest.raises(ConfigError, match="it is not a directory"):
        store.trust(place / "below")


def test_the_root_directory_cannot_be_trusted(store: TrustStore) -> None:
    with pytest.raises(ConfigError, match="contains every directory"):
        store.trust(Path("/"))


def test_a_trust_file_that_others_can_change_is_refused(store: TrustStore, place: Path, tmp_path: Path) -> None:
    store.trust(place)
    file = tmp_path / "data" / "trust.json"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    file.chmod(0o666)
    with pytest.raises(ConfigError, match="other users can change it, so it is not used; run 'chmod 600"):
        store.is_trusted(place)


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b'{"directories": 3}', b"\xff\xfe", b'{"directories": [1]}'])
def test_a_damaged_trust_file_is_an_error_and_trusts_nothing(store: TrustStore, tmp_path: Path, data: bytes) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "trust.json").write_bytes(data)
    (tmp_path / "data" / "trust.json").chmod(0o600)
    with pytest.raises(ConfigError, match="is damaged"):
        store.is_trusted(tmp_path)


def test_concurrent_writers_lose_nothing(store: TrustStore, place: Path, tmp_path: Path) -> None:
    places = [place / str(number) for number in range(20)]
    for directory in places:
        directory.mkdir()
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(TrustStore(tmp_path / "data" / "trust.json").trust, places))
    assert set(store.directories()) == set(places)
    assert sorted(os.listdir(tmp_path / "data")) == ["trust.json"]
