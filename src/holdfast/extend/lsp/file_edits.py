"""File addresses of the protocol, and the edits that a language server proposes, by file. Pure."""

from __future__ import annotations

import posixpath
from urllib.parse import quote, unquote, urlsplit

from holdfast.extend.lsp.message_framing import LanguageServerError
from holdfast.extend.lsp.protocol_types import RangeEdit, WorkspaceEdit

MAX_FILES = 500
"""Files that one change may touch."""


def to_uri(path: str) -> str:
    return f"file://{quote(path)}"


def to_path(uri: str) -> str | None:
    """Return the absolute path of a file, normalized; None for other addresses."""
    try:
        parts = urlsplit(uri)
    except ValueError:
        return None
    path = unquote(parts.path)
    if parts.scheme != "file" or parts.netloc not in ("", "localhost") or not path.startswith("/") or "\0" in path:
        return None
    return posixpath.normpath("/" + path.lstrip("/"))


def edits_by_path(edit: WorkspaceEdit) -> dict[str, tuple[RangeEdit, ...]]:
    """Return the edits by path. Raises `LanguageServerError` for anything but changes of texts in files."""
    found: dict[str, tuple[RangeEdit, ...]] = {}
    changes = list((edit.changes or {}).items()) if edit.document_changes is None else []
    for change in edit.document_changes or ():
        if change.kind or change.text_document is None:
            what = f"{change.kind} files" if change.kind else "do something unknown"
            raise LanguageServerError(f"the language server wants to {what}, which is not supported; do it yourself")
        changes.append((change.text_document.uri, change.edits))
    for uri, edits in changes:
        path = to_path(uri)
        if path is None:
            raise LanguageServerError(f"the language server wants to change {uri[:200]!r}, which is not a file")
        found[path] = (*found.get(path, ()), *edits)
    if len(found) > MAX_FILES:
        raise LanguageServerError(f"the change touches {len(found):,} files; the limit is {MAX_FILES}")
    return {path: edits for path, edits in found.items() if edits}
