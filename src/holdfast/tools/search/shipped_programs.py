"""The programs that Holdfast brings along, for the agent's commands: a directory with links to them, last on the PATH.

The directory of this Python's scripts is not on the PATH itself, because it also has a ``python`` and a ``pip`` that
are not the user's.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Mapping
from pathlib import Path

from holdfast.files import programs_named

PROGRAMS = ("rg",)

_log = logging.getLogger(__name__)


def link_shipped_programs(directory: Path) -> None:
    """Make the links, or those that are out of date. Blocking. An error only costs the programs."""
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        for name in PROGRAMS:
            program = find_shipped_program(name)
            link = directory / name
            if program is not None and _target(link) != program:
                fresh = directory / f".{name}.{os.getpid()}"
                fresh.unlink(missing_ok=True)
                fresh.symlink_to(program)
                fresh.replace(link)
    except OSError as error:
        _log.warning("cannot link the shipped programs in %s: %s", directory, error)


def find_shipped_program(name: str) -> str | None:
    """Return the program's path among the scripts of this Python, or None. Blocking."""
    if sys.prefix != sys.base_prefix:  # in a virtual environment, they are beside the interpreter
        scripts = os.path.dirname(sys.executable)
    else:
        import sysconfig  # not above: it reads hundreds of variables of Python's build

        scripts = sysconfig.get_path("scripts")
    return next(programs_named(name, scripts), None)


def with_shipped_programs(environment: Mapping[str, str], directory: Path) -> dict[str, str]:
    """Return the environment with the directory at the end of the PATH: a program of the user comes first."""
    path = environment.get("PATH") or os.defpath
    return {**environment, "PATH": f"{path.rstrip(os.pathsep)}{os.pathsep}{directory}"}


def _target(link: Path) -> str | None:
    try:
        return os.readlink(link)
    except OSError:
        return None
