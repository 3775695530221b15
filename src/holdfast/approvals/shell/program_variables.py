"""Variables that change which programs run or what they do."""

from __future__ import annotations

import re
from typing import Final

_SAFE: Final = re.compile(
    r"LANG|LANGUAGE|LC_[A-Z]+|TZ|NO_COLOR|FORCE_COLOR|CLICOLOR|CLICOLOR_FORCE|COLUMNS|LINES|CI|TERM"
    r"|(?!.*proxy)[a-z_][a-z0-9_]*"
)


def changes_programs(name: str) -> bool:
    """Whether setting this variable may change what a command does.

    Programs listen to names in capitals, and to the proxies' names in small ones. A few in capitals only change how
    output looks; every other name counts, since nobody knows all of them.
    """
    return _SAFE.fullmatch(name) is None
