"""Contents are kept once, durably, and given back only whole."""

import os
import stat
from pathlib import Path

import pytest

from holdfast.errors import StoreDamaged, StoreUnwritable
from holdfast.tools.files.file_access import content_hash
from holdfast.workspace.undo.blob_store import BlobStore


def test_a_content_is_found_by_its_hash(tmp_path: Path) -> None:
    blobs = BlobStore(tmp_path / "kept")
    name = blobs.put(b"old")
    assert name == content_hash(b"old")
    assert blobs.get(name) == b"old"
    assert blobs.get(content_hash(b"other")) is None
    assert blobs.get(blobs.put(b"")) == b""


def test_the_same_content_is_kept_once_and_only_for_its_owner(tmp_path: Path) -> None:
    blobs = BlobStore(tmp_path / "kept")
    blobs.put(b"old")
    blobs.put(b"old")
    (file,) = [path for path in (tmp_path / "kept").rglob("*") if path.is_file()]
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE((tmp_path / "kept").stat().st_mode) == 0o700


def test_what_is_damaged_is_not_given_back_and_is_healed_by_a_new_put(tmp_path: Path) -> None:
    blobs = BlobStore(tmp_path / "kept")
    name = blobs.put(b"old")
    path = tmp_path / "kept" / name[:2] / name
    path.write_bytes(b"cut")
    os.truncate(path, 1)
    with pytest.raises(StoreDamaged, match="does not match its hash"):
        blobs.get(name)
    blobs.put(b"old")
    assert blobs.get(name) == b"old"


def test_a_place_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    (tmp_path / "kept").write_text("a file")
    with pytest.raises(StoreUnwritable, match="cannot store the old content"):
        BlobStore(tmp_path / "kept").put(b"old")


def test_a_content_is_flushed_before_it_has_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    steps: list[str] = []
    fsync, replace = os.fsync, os.replace
    monkeypatch.setattr(os, "fsync", lambda descriptor: (steps.append("flush"), fsync(descriptor)))
    monkeypatch.setattr(os, "replace", lambda source, target: (steps.append("name"), replace(source, target)))
    BlobStore(tmp_path).put(b"old")
    assert steps[-3:] == ["flush", "name", "flush"], "the file, then its name, then the directory that has the name"


def test_what_nobody_needs_is_swept_once_it_is_old(tmp_path: Path) -> None:
    blobs = BlobStore(tmp_path / "kept")
    assert blobs.sweep(lambda names: names, before=0) == 0
    needed, stale, young = (blobs.put(content) for content in (b"needed", b"stale", b"young"))
    for name in (needed, stale):
        os.utime(tmp_path / "kept" / name[:2] / name, (1_000, 1_000))
    assert blobs.sweep(lambda names: {needed}, before=2_000) == 1
    assert [blobs.get(name) for name in (needed, stale, young)] == [b"needed", None, b"young"]
    blobs.put(b"needed")
    assert blobs.sweep(lambda names: (), before=2_000) == 0, "put again makes it young again"
