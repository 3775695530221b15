"""Shell text that every POSIX shell reads as bash does.

`sh` is dash, busybox, bash or something else. The parser reads bash. So a script for `sh` is only understood if it is
written with the few forms that all of them read alike: plain words, quotes without escapes, simple expansions, pipes,
lists, plain redirections and the usual keywords.
"""

from __future__ import annotations

import re
from typing import Final

_EXPANSION: Final = r"\$(?:[A-Za-z_][A-Za-z0-9_]*|\{[A-Za-z_][A-Za-z0-9_]*\}|[0-9?#])"
_TOKEN: Final = re.compile(
    rf"""
    [A-Za-z0-9_./:@%,-]+            # plain characters
    | (?<=[A-Za-z0-9_])=(?![(~])    # an assignment, or an equals sign in a word
    | (?:(?<=\s)|^)=(?=\s)          # the operator of a test
    | (?:(?<=\s)|^)!=?(?=\s)        # not
    | '[^'\n]*'
    | "(?:[^"\\$`!]|{_EXPANSION})*"
    | {_EXPANSION}
    | [*?]
    | (?<![^\s/=:'"])~(?=[/\s]|$)
    | (?:(?<=\s)|^)[\[\]](?=\s|;|$)   # the test command
    | \$\((?!\()
    | (?:(?<=[\s;|&])|^)\((?![(])
    | \)
    | [ \t\n]+
    | ;;?(?!&)
    | \|\|?(?![|&])
    | &&(?!&) | (?<![<>&])&(?=\s|$)
    | (?:(?<=\s)[0-9])?(?:>>?|<)(?![<>(|&])
    | (?:(?<=\s)[0-9])?[<>]&[0-9](?=\s|$|;|\)|\|)
    """,
    re.VERBOSE,
)
_LONG_DESCRIPTOR: Final = re.compile(r"\d\d[<>]")
_BASH_WORDS: Final = re.compile(
    r"(?:^|[\s;|&(])(?:time|function|select|coproc|source|declare|typeset|let|local)(?=\s|$)"
)


def is_posix_subset(text: str) -> bool:
    """Whether every POSIX shell reads the text as bash does."""
    position = 0
    while position < len(text):
        found = _TOKEN.match(text, position)
        if found is None or found.end() == position:
            return False
        position = found.end()
    return not (_BASH_WORDS.search(text) or _LONG_DESCRIPTOR.search(text))
