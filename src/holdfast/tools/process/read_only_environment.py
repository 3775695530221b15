"""The environment of commands that run without approval because they only read."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from holdfast.tools.process.git_environment import neutral_git_environment

_REMOVED: Final = frozenset(
    {
        *("BASH_ENV", "ENV", "SHELLOPTS", "BASHOPTS", "BASH_COMPAT", "CDPATH", "GLOBIGNORE", "POSIXLY_CORRECT"),
        *("RIPGREP_CONFIG_PATH", "GREP_OPTIONS", "TIME", "TIMEFORMAT"),
    }
)


def read_only_environment(base: Mapping[str, str], *, directory: Path) -> dict[str, str]:
    """Return `base` without the variables that make bash, grep or git read a line otherwise than it was judged.

    They may name a file of the workspace (``RIPGREP_CONFIG_PATH``), change how words are read (``GLOBIGNORE``) or where
    `cd` leads (``CDPATH``, ``PWD``).
    """
    environment = {name: value for name, value in neutral_git_environment(base).items() if name not in _REMOVED}
    environment["PWD"] = str(directory)
    environment.pop("OLDPWD", None)
    return environment
