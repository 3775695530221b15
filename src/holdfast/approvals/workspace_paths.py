"""Where a path leads: inside or outside the workspace, or to a protected file.

These functions read the file system (symlinks, and the files that a glob matches). Call them in a thread.
"""

from __future__ import annotations

import glob
import itertools
import os
from collections.abc import Iterator
from fnmatch import fnmatchcase
from typing import Final

from msgspec.structs import replace

from holdfast.approvals.rule_patterns import relative_to
from holdfast.approvals.shell.shell_words import Arg, has_glob
from holdfast.schema.base import Value

_MAX_MATCHES: Final = 1000
_MAX_GLOB_PARTS: Final = 3
_STREAMS: Final = frozenset({"/dev/null", "/dev/stdin", "/dev/stdout", "/dev/stderr", "/dev/tty"})
_START_UP: Final = frozenset(
    {
        *(".bashrc", ".bash_profile", ".bash_login", ".bash_logout", ".bash_aliases", ".profile", ".inputrc", ".envrc"),
        *(".zshrc", ".zshenv", ".zprofile", ".zlogin", ".zlogout", ".kshrc", ".mkshrc", ".cshrc", ".tcshrc", ".login"),
        *("config.fish", ".gitconfig", ".pam_environment", ".xprofile", ".xinitrc", ".xsessionrc"),
    }
)
_PROTECTED_DIRECTORIES: Final = {
    ".git": "one of git's own files",
    ".holdfast": "part of Holdfast's configuration",
    ".ssh": "part of the SSH configuration",
}
_CLAUDE: Final = ".claude"
_START_UP_ROOTS: Final = (
    "/etc/profile",
    "/etc/profile.d",
    "/etc/bash.bashrc",
    "/etc/bashrc",
    "/etc/zsh",
    "/etc/environment",
)


class WorkspacePaths(Value, frozen=True):
    """The directories that decide about a path. They are absolute; `real` resolves their symlinks."""

    root: str
    home: str
    own_directories: tuple[str, ...] = ()
    """Holdfast's own directories: configuration, data, state."""
    readable_directories: tuple[str, ...] = ()
    """Directories outside the workspace that may be read like it: full outputs of calls, and skills."""
    writable_directories: tuple[str, ...] = ()
    """Directories outside the workspace that file tools may write like it, because commands may."""
    hook_programs: tuple[str, ...] = ()
    """Files that hooks run."""

    def real(self) -> WorkspacePaths:
        """The same directories with all symlinks resolved."""
        return WorkspacePaths(
            root=os.path.realpath(self.root),
            home=os.path.realpath(self.home),
            own_directories=tuple(os.path.realpath(path) for path in self.own_directories),
            readable_directories=tuple(os.path.realpath(path) for path in self.readable_directories),
            writable_directories=tuple(os.path.realpath(path) for path in self.writable_directories),
        )

    def with_directories(self, *, readable: tuple[str, ...], writable: tuple[str, ...]) -> WorkspacePaths:
        """The same with further readable and writable directories."""
        if not readable and not writable:
            return self
        return replace(
            self,
            readable_directories=(*self.readable_directories, *(os.path.realpath(path) for path in readable)),
            writable_directories=(*self.writable_directories, *(os.path.realpath(path) for path in writable)),
        )

    def with_hook_programs(self, paths: tuple[str, ...]) -> WorkspacePaths:
        """The same, with files that hooks run. Their links are resolved already."""
        return replace(self, hook_programs=paths) if paths else self

    def resolve(self, path: str, *, cwd: str, tilde: bool = False) -> str:
        """The absolute path with all symlinks resolved. The path need not exist."""
        return os.path.realpath(os.path.join(cwd, self._expand_home(path) if tilde else path))

    def _expand_home(self, path: str) -> str:
        """Expand ``~``. Other users' homes are not looked up: any path outside the workspace stands for them."""
        user, slash, rest = path.partition("/")
        return f"{self.home}{slash}{rest}" if user == "~" else f"/home-of{slash}{user}{slash}{rest}"

    def directories_after(self, target: Arg, *, cwd: str) -> tuple[str, ...]:
        """The directories that `cd` may change to. It removes ``..`` before it follows links, unless that fails."""
        joined = os.path.join(cwd, self._expand_home(target.text) if target.tilde else target.text)
        return tuple(dict.fromkeys((os.path.normpath(joined), os.path.realpath(joined))))

    def contains(self, path: str) -> bool:
        return relative_to(path, self.root) is not None

    def may_read(self, path: str) -> bool:
        """Whether a file may be read without approval."""
        return self.contains(path) or any(relative_to(path, root) is not None for root in self.readable_directories)

    def may_write(self, path: str) -> bool:
        """Whether file tools may write a file as if it were in the workspace."""
        return self.contains(path) or any(relative_to(path, root) is not None for root in self.writable_directories)

    def display(self, path: str) -> str:
        """A path as rules name it: relative to the workspace if inside, else absolute."""
        return relative_to(path, self.root) or path

    def why_protected(self, path: str) -> str | None:
        """Why writing to this path always needs approval; ``None`` if it does not."""
        parts = path.split("/")
        ignore_case = [part.casefold() for part in parts]
        for name, what in _PROTECTED_DIRECTORIES.items():
            if name in ignore_case:
                return what
        if _CLAUDE in ignore_case and _is_hook_file(ignore_case[ignore_case.index(_CLAUDE) + 1 :]):
            return "part of Claude Code's settings, from which hooks are run"
        if path in self.hook_programs:
            return "a program that a hook runs"
        if ignore_case[-1] in _START_UP or "/.config/fish/" in path.casefold():
            return "a start-up file"
        if any(relative_to(path, root) is not None for root in _START_UP_ROOTS):
            return "a start-up file"
        if any(relative_to(path, root) is not None for root in self.own_directories):
            return "one of Holdfast's own files"
        return None

    def paths_of(self, arg: Arg, *, cwd: str) -> tuple[str, ...] | None:
        """Every path that a word of a command stands for; ``None`` if they are unknown."""
        if arg.kind == "literal":
            return () if is_stream(arg.text) else (self.resolve(arg.text, cwd=cwd, tilde=arg.tilde),)
        if arg.kind == "stream":
            return ()
        if arg.kind == "dynamic":
            return None
        names = self.expand_glob(arg, cwd=cwd)
        return None if names is None else tuple(self.resolve(name, cwd=cwd) for name in names)

    def expand_glob(self, arg: Arg, *, cwd: str) -> tuple[str, ...] | None:
        """The words that the shell makes of a glob; ``None`` if they are not known or could be options.

        A glob without matches stays as it is. Some shells also match ``..`` with ``.*``.
        """
        parts = arg.text.split("/")
        if arg.tilde or any(part.startswith(".") and part != ".." and fnmatchcase("..", part) for part in parts):
            return None
        if sum(1 for part in parts if has_glob(part)) > _MAX_GLOB_PARTS:
            return None
        found = tuple(itertools.islice(_matches(arg.text, cwd), _MAX_MATCHES + 1))
        if len(found) > _MAX_MATCHES or any(name.startswith("-") for name in found):
            return None
        return found or (arg.text,)

    def why_glob_protected(self, arg: Arg) -> str | None:
        """Why a glob may match a protected file when the command runs, even if it matches none now."""
        for part in arg.text.casefold().split("/"):
            if part.startswith("."):
                for name in (*_PROTECTED_DIRECTORIES, *_START_UP):
                    if fnmatchcase(name, part):
                        return f"a file like {name!r}"
        return None


def _is_hook_file(below: list[str]) -> bool:
    """Whether a path below Claude Code's directory defines hooks or is run by them."""
    return not below or below[0] in ("settings.json", "settings.local.json", "hooks")


def _matches(pattern: str, cwd: str) -> Iterator[str]:
    """The names that a glob matches, in any shell: ``?`` stands for a character in some, and for a byte in others."""
    yield from glob.iglob(pattern, root_dir=cwd)
    if "?" in pattern:
        yield from (os.fsdecode(name) for name in glob.iglob(os.fsencode(pattern), root_dir=os.fsencode(cwd)))


def is_descriptor(path: str) -> bool:
    """Whether opening a path opens again whatever file an open descriptor belongs to."""
    return is_stream(path) and path not in {"/dev/null", "/dev/tty"}


def is_stream(path: str) -> bool:
    """Whether a path is a standard stream, an open descriptor, the terminal or ``/dev/null``."""
    return path in _STREAMS or (path.startswith("/dev/fd/") and path[8:].isdigit())
