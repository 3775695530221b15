"""Where a path leads: inside the workspace or out of it, and to files that are always asked about.

Looks at the file system (symlinks, and what a glob matches), so it is called in a thread, not on the event loop.
"""

from __future__ import annotations

import glob
import itertools
import os
from fnmatch import fnmatchcase
from typing import Final

from holdfast.approvals.rule_patterns import relative_to
from holdfast.approvals.shell.shell_words import Arg
from holdfast.schema.base import Value

_MAX_MATCHES: Final = 1000
_STREAMS: Final = frozenset({"/dev/null", "/dev/stdin", "/dev/stdout", "/dev/stderr", "/dev/tty"})
_START_UP: Final = frozenset(
    {
        *(".bashrc", ".bash_profile", ".bash_login", ".bash_logout", ".bash_aliases", ".profile", ".inputrc", ".envrc"),
        *(".zshrc", ".zshenv", ".zprofile", ".zlogin", ".zlogout", ".kshrc", ".mkshrc", ".cshrc", ".tcshrc", ".login"),
        *("config.fish", ".gitconfig", ".pam_environment", ".xprofile", ".xinitrc", ".xsessionrc"),
    }
)
_PROTECTED_DIRECTORIES: Final = {".git": "git's own files", ".holdfast": "Holdfast's configuration", ".ssh": "ssh keys"}
_START_UP_ROOTS: Final = (
    "/etc/profile",
    "/etc/profile.d",
    "/etc/bash.bashrc",
    "/etc/bashrc",
    "/etc/zsh",
    "/etc/environment",
)


class Places(Value, frozen=True):
    """A workspace's place in the file system. Paths are absolute; `real` follows their symlinks."""

    workspace: str
    home: str
    own: tuple[str, ...] = ()
    """Holdfast's own directories: configuration, data, state."""
    readable: tuple[str, ...] = ()
    """Directories outside of the workspace that may be read like it: whole outputs of calls."""

    def real(self) -> Places:
        """The same with every symlink followed, as paths that are compared with it are."""
        return Places(
            workspace=os.path.realpath(self.workspace),
            home=os.path.realpath(self.home),
            own=tuple(os.path.realpath(path) for path in self.own),
            readable=tuple(os.path.realpath(path) for path in self.readable),
        )

    def resolve(self, path: str, *, cwd: str, tilde: bool = False) -> str:
        """Where a path leads, symlinks followed; what does not exist yet is placed below what does."""
        if tilde:
            user, slash, rest = path.partition("/")
            path = f"{self.home}{slash}{rest}" if user == "~" else f"/home/{user[1:]}{slash}{rest}"
        return os.path.realpath(os.path.join(cwd, path))

    def inside(self, path: str) -> bool:
        return relative_to(path, self.workspace) is not None

    def may_read(self, path: str) -> bool:
        """Whether reading there is not asked about."""
        return self.inside(path) or any(relative_to(path, root) is not None for root in self.readable)

    def shown(self, path: str) -> str:
        """A path as rules name it: relative to the workspace, or absolute outside of it."""
        return relative_to(path, self.workspace) or path

    def protected(self, path: str) -> str | None:
        """Why writing here is always asked about; ``None`` where it is not."""
        parts = path.split("/")
        folded = [part.casefold() for part in parts]
        for name, what in _PROTECTED_DIRECTORIES.items():
            if name in folded:
                return what
        if folded[-1] in _START_UP or "/.config/fish/" in path.casefold():
            return "a start-up file"
        if any(relative_to(path, root) is not None for root in _START_UP_ROOTS):
            return "a start-up file"
        return "Holdfast's own files" if any(relative_to(path, root) is not None for root in self.own) else None

    def leads_to(self, arg: Arg, *, cwd: str) -> tuple[str, ...] | None:
        """Every path that a word of a command stands for; ``None`` if that cannot be told."""
        if arg.kind == "literal":
            return () if is_stream(arg.text) else (self.resolve(arg.text, cwd=cwd, tilde=arg.tilde),)
        if arg.kind == "stream":
            return ()
        if arg.kind == "dynamic":
            return None
        if arg.tilde:
            return (self.resolve(arg.text, cwd=cwd, tilde=True),)
        pattern = os.path.join(glob.escape(cwd), arg.text)
        found = list(itertools.islice(glob.iglob(pattern), _MAX_MATCHES + 1))
        could_be_options = "/" not in arg.text and any(os.path.basename(path).startswith("-") for path in found)
        if len(found) > _MAX_MATCHES or could_be_options:
            return None
        return tuple(os.path.realpath(path) for path in found) or (self.resolve(arg.text, cwd=cwd),)

    def glob_may_protect(self, arg: Arg) -> str | None:
        """Why a glob, which may match more when it runs than now, could reach a protected file."""
        for part in arg.text.casefold().split("/"):
            if part.startswith("."):
                for name in (*_PROTECTED_DIRECTORIES, *_START_UP):
                    if fnmatchcase(name, part):
                        return f"a file like {name!r}"
        return None


def is_stream(path: str) -> bool:
    """Whether a path is one of the process's own streams, or nothing."""
    return path in _STREAMS or (path.startswith("/dev/fd/") and path[8:].isdigit())
