"""How the UI was started."""

from __future__ import annotations

import os
from typing import Literal

from holdfast.schema.base import Value


class TuiOptions(Value, frozen=True, kw_only=True):
    """Options of one start."""

    directory: str
    session_id: str | None = None
    resume: bool = False
    prompt: str = ""
    """Sent as soon as the UI is open."""
    background: Literal["dark", "light"] = "dark"
    typed: str = ""
    """What was typed before the first frame."""
    colours: int = 1 << 24
    reduced_motion: bool = False
    plain: bool = False
    """For screen readers, as ``tui.plain`` in the configuration."""

    @property
    def shown_directory(self) -> str:
        home = os.path.expanduser("~")
        return f"~{self.directory[len(home) :]}" if self.directory.startswith(home + "/") else self.directory
