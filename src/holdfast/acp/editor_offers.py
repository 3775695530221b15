"""What Holdfast uses of an editor: its files and terminals, and how it names paths. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from holdfast.schema.base import Value
from holdfast.schema.client_tools import EDITOR_READ, EDITOR_RUN, EDITOR_STOP, EDITOR_WRITE, ClientTool

_READ_SECONDS = 5.0
"""How long an editor may take to give a file; then the one on the disk is read."""
_WRITE_SECONDS = 30.0
_RUN_SECONDS = 86_400.0
_STOP_SECONDS = 10.0


class EditorOffers(Value, frozen=True):
    """What the editor offers and the settings allow."""

    reads: bool = False
    writes: bool = False
    terminals: bool = False

    @property
    def tools(self) -> tuple[ClientTool, ...]:
        found = []
        if self.reads:
            found.append(_tool(EDITOR_READ, _READ_SECONDS))
        if self.reads and self.writes:  # who cannot be asked for unsaved changes would overwrite them
            found.append(_tool(EDITOR_WRITE, _WRITE_SECONDS))
        if self.terminals:
            found += [_tool(EDITOR_RUN, _RUN_SECONDS), _tool(EDITOR_STOP, _STOP_SECONDS)]
        return tuple(found)


def editor_offers(capabilities: Mapping[str, Any], values: Mapping[str, Any]) -> EditorOffers:
    """What is used of an editor with these capabilities, as the configuration says."""
    files, settings = capabilities.get("fs") or {}, values.get("acp") or {}
    return EditorOffers(
        reads=bool(files.get("readTextFile")) and settings.get("files") is not False,
        writes=bool(files.get("writeTextFile")) and settings.get("write_files") is True,
        terminals=bool(capabilities.get("terminal")) and settings.get("terminals") is True,
    )


class EditorPaths(Value, frozen=True):
    """The directory as the server names it, without links, and as the editor names it."""

    real: str
    shown: str

    def to_editor(self, path: str) -> str:
        if path == self.real or path.startswith(self.real.rstrip("/") + "/"):
            return self.shown.rstrip("/") + path[len(self.real.rstrip("/")) :]
        return path


def _tool(name: str, seconds: float) -> ClientTool:
    effects = {EDITOR_READ: "reads", EDITOR_STOP: "none"}
    effect: Any = effects.get(name, "runs")
    return ClientTool(name, effect=effect, parallel=True, for_model=False, seconds=seconds)
