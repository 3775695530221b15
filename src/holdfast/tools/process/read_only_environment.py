"""The environment of commands that run without approval because they only read."""

from __future__ import annotations

import re
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
_LOCALE_VARIABLE: Final = re.compile(r"LANG|LC_[A-Z]+")
_PLAIN_LOCALE: Final = re.compile(r"|C|POSIX|(?:C|[A-Za-z]{2,3}(?:_[A-Z]{2})?)\.utf-?8(?:@\w+)?", re.IGNORECASE)
"""In other encodings a backslash can be the second byte of a character, and bash splits words elsewhere."""


def read_only_environment(base: Mapping[str, str], *, directory: Path) -> dict[str, str]:
    """Return `base` without the variables that make bash, grep or git read a line otherwise than it was judged.

    They may name a file of the workspace (``RIPGREP_CONFIG_PATH``), change how words are read (``GLOBIGNORE``) or where
    `cd` leads (``CDPATH``, ``PWD``), or choose an encoding in which characters end elsewhere.
    """
    environment = neutral_git_environment(
        {name: value for name, value in base.items() if name not in _REMOVED and not _is_odd_locale(name, value)}
    )
    environment["PWD"] = str(directory)
    environment.pop("OLDPWD", None)
    return environment


def _is_odd_locale(name: str, value: str) -> bool:
    return bool(name.startswith("L") and _LOCALE_VARIABLE.fullmatch(name) and not _PLAIN_LOCALE.fullmatch(value))
