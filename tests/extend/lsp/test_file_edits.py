"""Addresses of files are read strictly, and a server may only propose changes of texts."""

import msgspec
import pytest

from holdfast.extend.lsp.file_edits import MAX_FILES, edits_by_path, to_path, to_uri
from holdfast.extend.lsp.message_framing import LanguageServerError
from holdfast.extend.lsp.protocol_types import Position, RangeEdit, TextRange, WorkspaceEdit

EDIT = RangeEdit(TextRange(Position(0, 0), Position(0, 1)), "x")


@pytest.mark.parametrize("path", ["/a/b.py", "/a b/ü#?%.py", "/a:b/[c].py"])
def test_a_path_survives_the_way_through_an_address(path: str) -> None:
    assert to_path(to_uri(path)) == path


@pytest.mark.parametrize(
    ("uri", "path"),
    [
        ("file:///a/%2e%2e/b", "/b"),
        ("file:///a/../../etc/passwd", "/etc/passwd"),
        ("file://localhost/a", "/a"),
        ("file:////a", "/a"),
        ("file://other/a", None),
        ("http://a/b", None),
        ("untitled:1", None),
        ("file:///a%00b", None),
        ("", None),
        ("file://[", None),
    ],
)
def test_only_local_files_have_a_path_and_it_is_normalized(uri: str, path: str | None) -> None:
    assert to_path(uri) == path


def test_both_forms_of_an_edit_are_read() -> None:
    plain = WorkspaceEdit(changes={"file:///a": (EDIT,), "file:///empty": ()})
    assert edits_by_path(plain) == {"/a": (EDIT,)}
    raw = {
        "documentChanges": [{"textDocument": {"uri": "file:///a", "version": 1}, "edits": [msgspec.to_builtins(EDIT)]}]
    }
    assert edits_by_path(msgspec.convert(raw, WorkspaceEdit)) == {"/a": (EDIT,)}


@pytest.mark.parametrize(
    "raw",
    [
        {"documentChanges": [{"kind": "delete", "uri": "file:///a"}]},
        {"documentChanges": [{"kind": "rename", "oldUri": "file:///a", "newUri": "file:///b"}]},
        {"changes": {"http://a/b": [msgspec.to_builtins(EDIT)]}},
        {"changes": {f"file:///{number}": [msgspec.to_builtins(EDIT)] for number in range(MAX_FILES + 1)}},
    ],
)
def test_anything_else_is_refused(raw: dict[str, object]) -> None:
    with pytest.raises(LanguageServerError):
        edits_by_path(msgspec.convert(raw, WorkspaceEdit))
