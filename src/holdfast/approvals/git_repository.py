"""Which repository git would use in a directory, and whether its own settings can make git run a program.

Git runs programs for filters, diff drivers and file system monitors, and it runs itself in submodules. A repository
that came from elsewhere may name such programs. So `why_git_may_run_programs` accepts only settings that are known to
be harmless, settings that the environment of such commands overrides, and no submodules. These functions read the file
system; call them in a thread.
"""

from __future__ import annotations

import os
import re
import stat
import struct
from pathlib import Path
from typing import Final

from holdfast.files import read_limited

_MAX_CONFIG: Final = 200_000
_MAX_INDEX: Final = 64 << 20
_SECTION: Final = re.compile(r'\[([A-Za-z0-9-]+)(?:[ \t]+"([^"\\\n]*)")?\]')
_SETTING: Final = re.compile(r"([A-Za-z][A-Za-z0-9-]*)(?:[ \t]*=[ \t]*([^\\]*))?")
_HARMLESS: Final = re.compile(
    r"core\.(?:repositoryformatversion|filemode|bare|logallrefupdates|ignorecase|precomposeunicode|symlinks|autocrlf|eol"
    r"|safecrlf|quotepath|abbrev|longpaths|compression|hidedotfiles|protecthfs|protectntfs)"
    r"|remote\..*\.(?:url|fetch|pushurl|push|tagopt|prune)|branch\..*\.(?:remote|merge|rebase|description|pushremote)"
    r"|branch\.(?:autosetuprebase|autosetupmerge|sort)|user\.(?:name|email|signingkey)|init\.defaultbranch|advice\..*"
    r"|color\..*|pull\.(?:rebase|ff)|push\.(?:default|autosetupremote|followtags)|fetch\.prune|merge\.(?:ff|conflictstyle)"
    r"|rebase\.(?:autostash|autosquash)|commit\.gpgsign|tag\.gpgsign|gc\..*|pack\..*|rerere\.enabled|lfs\.(?:repositoryformatversion|.*\.access)"
    r"|log\.(?:date|decorate)|diff\.(?:renames|algorithm|colormoved|mnemonicprefix|noprefix)",
    re.IGNORECASE,
)
OVERRIDDEN: Final = frozenset(
    {
        *("core.fsmonitor", "core.hookspath", "core.pager", "core.editor", "core.sshcommand", "core.askpass"),
        *("credential.helper", "gpg.program", "gpg.ssh.program", "gpg.x509.program", "log.showsignature"),
        *("submodule.recurse", "status.submodulesummary", "diff.submodule", "diff.autorefreshindex"),
        "maintenance.auto",
    }
)
"""Settings of a repository that have no effect, because `tools.process.git_environment` sets them itself."""
_INDEX_ENTRY: Final = 62
_MODE_OFFSET: Final = 24
_GITLINK: Final = 0o160000
_CHECKSUM: Final = 20


def repository_at(directory: str) -> str | None:
    """The path of the repository that git would use: a ``.git``, or a bare repository; ``None`` if there is none."""
    current = os.path.realpath(directory)
    while True:
        found = os.path.join(current, ".git")
        if os.path.lexists(found):
            return found
        if all(os.path.exists(os.path.join(current, name)) for name in ("HEAD", "objects", "refs")):
            return current
        parent = os.path.dirname(current)
        if parent == current:
            return None
        current = parent


def why_git_may_run_programs(directory: str) -> str | None:
    """Why git may run programs in this directory that its repository names; ``None`` if it runs none."""
    repository = repository_at(directory)
    if repository is None:
        return None
    path = Path(repository)
    if path.name != ".git" or not stat.S_ISDIR(path.lstat().st_mode):
        return "its repository is a bare one or in another directory"
    if any((path / name).exists() for name in ("commondir", "config.worktree", "objects/info/alternates")):
        return "its repository shares files with another one"
    if any((path / name).is_symlink() for name in ("HEAD", "config", "index", "objects", "refs", "packed-refs")):
        return "its repository contains links"
    try:
        config = read_limited(path / "config", limit=_MAX_CONFIG).decode() if (path / "config").exists() else ""
        index = read_limited(path / "index", limit=_MAX_INDEX) if (path / "index").exists() else b""
    except (OSError, UnicodeDecodeError):
        return "the settings of its repository cannot be read"
    if (key := _first_unknown_setting(config)) is not None:
        return f"its repository has the setting {key!r}"
    return "its repository has submodules" if index and _may_have_submodules(index) else None


def _first_unknown_setting(config: str) -> str | None:
    """The first setting that is not known to be harmless, or the line that is not understood."""
    section = ""
    for line in config.split("\n"):
        text = line.strip(" \t")
        if not text or text.startswith(("#", ";")):
            continue
        if header := _SECTION.fullmatch(text):
            section = header[1] + (f".{header[2]}" if header[2] is not None else "")
            continue
        setting = _SETTING.fullmatch(text)
        key = f"{section}.{setting[1]}" if setting else text
        if not setting or (not _HARMLESS.fullmatch(key) and key.lower() not in OVERRIDDEN):
            return key
        if key.lower() == "core.bare" and setting[2] != "false":
            return key
    return None


def _may_have_submodules(index: bytes) -> bool:
    """Whether the index has an entry for a submodule, or is not understood."""
    if len(index) < 12 or index[:4] != b"DIRC":
        return True
    version, count = struct.unpack_from(">II", index, 4)
    if version not in {2, 3}:
        return True
    position = 12
    for _ in range(count):
        if position + _INDEX_ENTRY > len(index):
            return True
        if struct.unpack_from(">I", index, position + _MODE_OFFSET)[0] == _GITLINK:
            return True
        flags = struct.unpack_from(">H", index, position + _INDEX_ENTRY - 2)[0]
        name = position + _INDEX_ENTRY + (2 if flags & 0x4000 else 0)
        end = index.find(b"\0", name)
        if end < 0:
            return True
        position += (end - position + 8) // 8 * 8
    return _is_split(index, position)


def _is_split(index: bytes, position: int) -> bool:
    """Whether an extension says that more entries are in another file."""
    while position + 8 <= len(index) - _CHECKSUM:
        name, size = struct.unpack_from(">4sI", index, position)
        if name == b"link":
            return True
        position += 8 + size
    return False
