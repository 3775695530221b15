"""Markdown files with front matter: what is read, and what is said about a file that cannot be used."""

from __future__ import annotations

import os
from itertools import pairwise
from pathlib import Path

import pytest

from holdfast.extend.front_matter import (
    MAX_FILE_BYTES,
    MarkdownFiles,
    UnusableFile,
    find_files,
    list_field,
    split_front_matter,
    text_field,
)


def test_front_matter_is_yaml_and_the_rest_is_the_body() -> None:
    text = '---\nname: a\ndescription: >\n  two\n  lines\nlist: [x, "y, z"]\nyes: no\n---\n\n# Body\n---\nrest'
    found = split_front_matter(text)
    assert found.fields["name"] == "a"
    assert text_field(found.fields, "description") == "two lines"
    assert found.fields["yes"] == "no"  # a word, not a boolean
    assert list_field(found.fields, "list") == ("x", "y, z")
    assert found.body == "# Body\n---\nrest"


def test_a_file_without_front_matter_is_all_body() -> None:
    assert split_front_matter("# Title\n---\n") == ({}, "# Title\n---\n")
    assert split_front_matter("---\r\nname: a\r\n---\r\nbody") == ({"name": "a"}, "body")


def test_a_colon_in_a_plain_value_is_text_as_other_agents_read_it() -> None:
    found = split_front_matter(
        "---\ndescription: Use it when: tests fail, and the user's hint is #1\nmodel: a/b\n---\nx"
    )
    assert found.fields == {"description": "Use it when: tests fail, and the user's hint is #1", "model": "a/b"}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("---\nname: a\nbody", "no closing line"),
        ("---\nname: [a\n---\n", "not YAML in line"),
        ("---\n- a\n- b\n---\n", "of the form 'key: value'"),
        ("---\n" + "[" * 5000 + "\n---\n", "not YAML"),
        ("---\n" + "x: y\n" * 5000 + "---\n", "no closing line"),
    ],
)
def test_what_is_wrong_with_the_front_matter_is_said(text: str, words: str) -> None:
    with pytest.raises(UnusableFile, match=words):
        split_front_matter(text)


def test_yaml_tags_and_aliases_make_no_objects_and_no_bombs() -> None:
    found = split_front_matter("---\na: !!python/object/apply:os.system ['true']\nb: &b [x, x]\nc: [*b, *b]\n---\n")
    assert found.fields["a"] == ["true"]
    assert list_field(found.fields, "b") == ("x", "x")
    layers = "".join(
        f"{name}: &{name} [{', '.join(f'*{below}' for _ in range(9))}]\n" for below, name in pairwise("abcdefghij")
    )
    bomb = split_front_matter(f"---\na: &a [x, x]\n{layers}---\n").fields
    assert (list_field(bomb, "j"), text_field(bomb, "j")) == ((), "[]")


def test_lists_are_written_in_several_ways() -> None:
    assert list_field({"tools": "Read, Bash(git add:*, git rm:*) Grep"}, "tools") == (
        "Read",
        "Bash(git add:*, git rm:*)",
        "Grep",
    )
    assert list_field({"other": ["a", "b"]}, "tools", "other") == ("a", "b")
    assert list_field({}, "tools") is None
    assert text_field({"argument-hint": ["issue", "priority"]}, "argument-hint") == "[issue, priority]"


def test_a_file_is_read_again_only_if_it_changed(tmp_path: Path) -> None:
    file, files = tmp_path / "a.md", MarkdownFiles()
    file.write_text("one")
    first = files.read(file, inside=None)
    assert files.read(file, inside=None) is first
    file.write_text("another")
    assert files.read(file, inside=None).body == "another"


def test_links_out_of_the_repository_pipes_and_huge_files_are_not_read(tmp_path: Path) -> None:
    files, inside = MarkdownFiles(), tmp_path / "repo"
    inside.mkdir()
    (tmp_path / "secret.md").write_text("key")
    (inside / "link.md").symlink_to(tmp_path / "secret.md")
    os.mkfifo(inside / "pipe.md")
    (inside / "huge.md").write_bytes(b"x" * (MAX_FILE_BYTES + 1))
    for name, words in (("link", "out of the repository"), ("pipe", "is not a file"), ("huge", "larger than 256 KiB")):
        with pytest.raises(UnusableFile, match=words):
            files.read(inside / f"{name}.md", inside=inside.resolve())
    assert files.read(inside / "link.md", inside=None).body == "key"  # the user's own folders may have links


def test_files_are_found_below_a_folder_but_not_behind_links(tmp_path: Path) -> None:
    (tmp_path / "a/b").mkdir(parents=True)
    (tmp_path / "a/b/deep.md").touch()
    (tmp_path / "top.md").touch()
    (tmp_path / "top.txt").touch()
    (tmp_path / "a/loop").symlink_to(tmp_path)
    assert [path.name for path in find_files(tmp_path)] == ["deep.md", "top.md"]
    assert list(find_files(tmp_path / "absent")) == []
