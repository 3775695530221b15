"""What is remembered: Markdown files, one entry per line."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.errors import BadRequest
from holdfast.extend.memory import (
    MAX_MEMORY_BYTES,
    add_entry,
    memory_entries,
    memory_files,
    read_memory_text,
    remove_entry,
)


def test_directories_of_a_repository_share_a_file_and_other_projects_have_their_own(tmp_path: Path) -> None:
    for name in ("one/.git", "one/below", "two"):
        (tmp_path / name).mkdir(parents=True)
    memory = tmp_path / "memory"
    one, below, two = (memory_files(memory, tmp_path / name) for name in ("one", "one/below", "two"))
    assert one == below
    assert one.project != two.project
    assert one.user == two.user
    assert one.project.name.startswith("one-")


def test_entries_are_added_once_and_removed_by_number_and_other_text_stays(tmp_path: Path) -> None:
    file = tmp_path / "memory" / "p.md"
    add_entry(file, "use\n  tabs", heading="Mine")
    add_entry(file, "use tabs", heading="Mine")
    add_entry(file, "be kind", heading="Mine")
    assert read_memory_text(file) == "# Mine\n\n- use tabs\n- be kind\n"
    assert file.stat().st_mode & 0o777 == 0o600
    file.write_text(read_memory_text(file) + "\nA note by hand.\n")
    remove_entry(file, 1)
    assert read_memory_text(file) == "# Mine\n\n- be kind\n\nA note by hand.\n"
    assert memory_entries(read_memory_text(file)) == ("be kind",)


@pytest.mark.parametrize("number", [0, 3, -1])
def test_an_entry_that_does_not_exist_cannot_be_removed(tmp_path: Path, number: int) -> None:
    file = tmp_path / "p.md"
    add_entry(file, "one", heading="h")
    with pytest.raises(BadRequest, match="there is no entry"):
        remove_entry(file, number)


def test_a_full_or_unusual_file_is_refused_with_advice(tmp_path: Path) -> None:
    file = tmp_path / "p.md"
    add_entry(file, "x" * (MAX_MEMORY_BYTES - 100), heading="h")
    with pytest.raises(BadRequest, match="the memory is full"):
        add_entry(file, "y" * 200, heading="h")
    with pytest.raises(BadRequest, match="is not a file"):
        add_entry(tmp_path, "one", heading="h")
    with pytest.raises(BadRequest, match="nothing to remember"):
        add_entry(file, " \n ", heading="h")
