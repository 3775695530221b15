"""Where a project has its own programs: formatters and language servers are looked up there first. Blocking."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path

from holdfast.files import programs_named

_LOCAL_PROGRAMS = ("node_modules/.bin", ".venv/bin", "venv/bin")


def find_project_program(name: str, directories: Iterable[Path], environment: Mapping[str, str]) -> str | None:
    """Return a program of the project, from the nearest of the directories, or one on the search path."""
    if "/" in name:
        return name
    for directory in directories:
        for place in _LOCAL_PROGRAMS:
            found = directory / place / name
            if os.access(found, os.X_OK):
                return str(found)
    return next(programs_named(name, environment.get("PATH", "")), None)
