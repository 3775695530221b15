"""Contents are stored once and durably, and damaged ones are not returned."""

import os
import stat
from pathlib import Path

import pytest

from holdfast.errors import StoreDamaged, StoreUnwritable
from holdfast.tools.files.file_access import content_hash
from holdfast.workspace.undo.blob_store import BlobStore


def test_a_content_is_found_by_its_hash(tmp_path: Path) -> None:
    blobs = BlobStore(tmp_path / "blobs")
    name = blobs.put(b"old")
    assert name == content_hash(b"old")
    assert blobs.get(name) == b"old"
    assert blobs.get(content_hash(b"other")) is None
    assert blobs.get(blobs.put(b"")) == b""


def test_a_content_is_stored_once_and_readable_only_by_its_owner(tmp_path: Path) -> None:
    blobs = BlobStore(tmp_path / "blobs")
    blobs.put(b"old")
    blobs.put(b"old")
    (file,) = [path for path in (tmp_path / "blobs").rglob("*") if path.is_file()]
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE((tmp_path / "blobs").stat().st_mode) == 0o700


def test_a_damaged_content_is_not_returned_and_is_repaired_by_storing_it_again(tmp_path: Path) -> None:
    blobs = BlobStore(tmp_path / "blobs")
    name = blobs.put(b"old")
    path = tmp_path / "blobs" / name[:2] / name
    path.write_bytes(b"cut")
    os.truncate(path, 1)
    with pytest.raises(StoreDamaged, match="does not match its hash"):
        blobs.get(name)
    blobs.put(b"old")
    assert blobs.get(name) == b"old"


def test_a_directory_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "blobs").write_text("a file")
    with pytest.raises(StoreUnwritable, match="cannot store the old content"):
        BlobStore(tmp_path / "blobs").put(b"old")


def test_a_content_is_flushed_before_it_is_renamed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    steps: list[str] = []
    fsync, replace = os.fsync, os.replace
    monkeypatch.setattr(os, "fsync", lambda descriptor: (steps.append("flush"), fsync(descriptor)))
    monkeypatch.setattr(os, "replace", lambda source, target: (steps.append("name"), replace(source, target)))
    BlobStore(tmp_path).put(b"old")
    assert steps[-3:] == ["flush", "name", "flush"], "the file, then its name, then the directory that has the name"


def test_old_contents_that_are_not_referenced_are_removed(tmp_path: Path) -> None:
    blobs = BlobStore(tmp_path / "blobs")
    assert blobs.sweep(lambda names: names, before=0) == 0
    needed, stale, young = (blobs.put(content) for content in (b"needed", b"stale", b"young"))
    for name in (needed, stale):
        os.utime(tmp_path / "blobs" / name[:2] / name, (1_000, 1_000))
    assert blobs.sweep(lambda names: {needed}, before=2_000) == 1
    assert [blobs.get(name) for name in (needed, stale, young)] == [b"needed", None, b"young"]
    blobs.put(b"needed")
    assert blobs.sweep(lambda names: (), before=2_000) == 0, "put again makes it young again"
