"""Shell calls of other agents: commands as lists, a directory beside the command, patches inside a command. Pure."""

from __future__ import annotations

import posixpath
import re
import shlex
from typing import Any

_SHELLS = frozenset({"bash", "sh", "zsh", "/bin/bash", "/bin/sh", "/usr/bin/bash", "/bin/zsh", "/usr/bin/env"})
_LOGIN_LINE = re.compile(
    r"""\A\s*(?:(?:/usr)?/bin/)?bash\s+-(?:lc|cl)\s+(?:'(?P<single>[^']+)'|"(?P<double>[^"$`\\!]+)")\s*\Z""", re.DOTALL
)
"""One script for a login shell, in quotes between which nothing is expanded."""
_HEREDOC = re.compile(
    r"""\A\s*(?:cd\s+(?P<directory>[^\s;&|<>$`()'"]+|'[^']*'|"[^"$`\\]*")\s*&&\s*)?
        (?:apply_patch|applypatch)\s*<<-?\s*(?P<quote>['"]?)(?P<word>\w+)(?P=quote)[ \t]*\n
        (?P<patch>.*?)\n[ \t]*(?P=word)\s*\Z""",
    re.DOTALL | re.VERBOSE,
)
_ARGUMENT = re.compile(
    r"""\A\s*(?:apply_patch|applypatch)\s+(?P<quote>['"])
        (?P<patch>\s*\*\*\*\ Begin\ Patch.*\*\*\*\ End\ Patch\s*)(?P=quote)\s*\Z""",
    re.DOTALL | re.VERBOSE,
)
_PATH_LINE = re.compile(r"^(\*\*\* (?:Add File|Update File|Delete File|Move to): )(?=[^/~\s])", re.MULTILINE)


def join_command(command: Any) -> Any:
    """Return a command that is a list as one line. ``["bash", "-lc", line]`` is the line itself.

    So is a text ``bash -lc 'line'``: models write it by habit, and a login shell would need approval for every line.
    """
    if isinstance(command, str) and (login := _LOGIN_LINE.match(command)):
        return login["single"] or login["double"]
    if not isinstance(command, list) or not command or not all(isinstance(word, str) for word in command):
        return command
    if len(command) == 3 and command[0] in _SHELLS and command[1] in ("-c", "-lc", "-ic"):
        return command[2]
    if len(command) == 1:
        return command[0]
    if command[0] in ("apply_patch", "applypatch") and len(command) == 2:
        return f"apply_patch <<'HOLDFAST_PATCH'\n{command[1]}\nHOLDFAST_PATCH"
    return shlex.join(command)


def with_directory(command: str, directory: str) -> str:
    """Return a line that runs the command in a directory, and nothing if the directory does not exist."""
    folder = f"~/{shlex.quote(directory[2:])}" if directory.startswith("~/") else shlex.quote(directory)
    if patch_in_command(command) is not None or not re.search(r"[;&|\n#]", command):
        return f"cd {folder} && {command}"
    return f"cd {folder} || exit 1\n{command}"


def patch_in_command(command: str) -> str | None:
    """Return the patch of a command that only calls ``apply_patch``, with paths relative to where it starts."""
    found = _HEREDOC.match(command)
    if found is None:
        argument = _ARGUMENT.match(command)
        return argument["patch"] if argument else None
    directory = shlex.split(found["directory"])[0] if found["directory"] else ""
    if not directory:
        return found["patch"]
    return _PATH_LINE.sub(lambda line: line[1] + posixpath.join(directory, ""), found["patch"])
