"""The interface of an extension mechanism to its workspace."""

from __future__ import annotations

from typing import Protocol

from holdfast.config import Config
from holdfast.schema.extensions import ExtensionStatus


class ExtensionProvider(Protocol):
    """One kind of extensions of an open workspace, such as its MCP servers."""

    async def refresh(self, config: Config, *, trusted: bool) -> None:
        """Follow the configuration, without waiting for anything to start. ``trusted``: the directory is trusted.

        It is called often, and must be cheap if nothing changed.
        """

    def statuses(self) -> list[ExtensionStatus]:
        """Return the state of each extension, also of those that do not work. Must not block."""

    async def close(self) -> None:
        """End everything that it started. Called once, when the workspace is closed."""
