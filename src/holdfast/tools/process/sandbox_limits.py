"""What confined commands may write and read. File tools obey the same limits.

Commands read everything except Holdfast's own directories. They write the workspace, the session's temporary directory
and the caches of package managers, but not the files there from which programs are started later: git's configuration
and hooks, Holdfast's project configuration, and Claude Code's settings, which may have hooks.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Iterable, Mapping
from pathlib import Path

from holdfast.config.claude_files import PROJECT_HOOKS, PROJECT_SETTINGS
from holdfast.files import programs_named
from holdfast.schema.base import Value

_GIT_FILES = ("config", "config.worktree", "hooks")
_MAX_NESTED = 200
_NO_NAMES = ("", ".", "..")
_CACHES = (
    ("PIP_CACHE_DIR", "~/.cache/pip", ("pip", "pip3")),
    ("UV_CACHE_DIR", "~/.cache/uv", ("uv",)),
    ("npm_config_cache", "~/.npm", ("npm",)),
    ("YARN_CACHE_FOLDER", "~/.cache/yarn", ("yarn",)),
    ("CARGO_HOME", "~/.cargo", ("cargo",)),
    ("GOCACHE", "~/.cache/go-build", ("go",)),
    ("GOMODCACHE", "~/go/pkg/mod", ("go",)),
)
"""Variable and default of each cache, and the programs that use it. Of Cargo's directory only the parts below are
writable; the rest has programs."""
_CARGO_DIRECTORIES = ("registry", "git")
_CARGO_FILES = (".package-cache", ".global-cache")


class SandboxLimits(Value, frozen=True):
    """Absolute paths with links resolved. A rule of a later field wins over one of an earlier field."""

    writable: tuple[str, ...]
    read_only: tuple[str, ...] = ()
    """Existing files and directories below `writable` that commands may not change."""
    hidden: tuple[str, ...] = ()
    """Directories that commands may not read."""
    visible: tuple[str, ...] = ()
    """Directories below `hidden` that they may read."""
    private_writable: tuple[str, ...] = ()
    """Directories below `hidden` that they may write."""
    network: bool = True

    def may_write(self, path: str) -> bool:
        """Whether a path with all links resolved may be written."""
        if _is_below(path, self.private_writable):
            return True
        return _is_below(path, self.writable) and not _is_below(path, (*self.read_only, *self.hidden))


def _is_below(path: str, directories: tuple[str, ...]) -> bool:
    return any(path == directory or path.startswith(directory.rstrip("/") + "/") for directory in directories)


def sandbox_limits(
    workspace: Path,
    *,
    writes_workspace: bool,
    temporary: Path,
    hidden: tuple[Path, ...] = (),
    visible: tuple[Path, ...] = (),
    extra: tuple[Path, ...] = (),
    network: bool = True,
) -> SandboxLimits:
    """Return the limits for a workspace as its files are now. Blocking: call it in a thread."""
    roots: list[str | Path] = [workspace, *_outer_git_directories(workspace), *extra] if writes_workspace else []
    existing = _ExistingPaths()
    return SandboxLimits(
        writable=existing.of(roots),
        read_only=existing.of(protected_paths(workspace)) if writes_workspace else (),
        hidden=existing.of(hidden),
        visible=existing.of(visible),
        private_writable=existing.of([temporary]),
        network=network,
    )


def extra_directories(settings: tuple[str, ...]) -> tuple[Path, ...]:
    """Return the directories of ``server.sandbox_writable``. A relative one could be anywhere and is left out."""
    found = tuple(Path(path).expanduser() for path in settings)
    return tuple(path for path in found if path.is_absolute())


def cache_directories(environment: Mapping[str, str]) -> tuple[Path, ...]:
    """Return the caches of package managers. Those of installed programs are made if they are missing."""
    home = environment.get("HOME", "")
    found: list[str] = []
    for variable, default, programs in _CACHES:
        path = environment.get(variable) or default.replace("~", home, 1)
        if not home or not os.path.isabs(path) or _is_below(os.path.normpath(home), (os.path.normpath(path),)):
            continue
        directories = [f"{path}/{part}" for part in _CARGO_DIRECTORIES] if variable == "CARGO_HOME" else [path]
        files = [f"{path}/{part}" for part in _CARGO_FILES] if variable == "CARGO_HOME" else []
        if not all(map(os.path.exists, directories)) and _is_installed(programs, environment):
            _make_missing(directories, files, home=Path(home))
        found += (*directories, *files)
    return tuple(Path(path) for path in found if os.path.exists(path))


def _is_installed(programs: tuple[str, ...], environment: Mapping[str, str]) -> bool:
    return any(path for program in programs for path in programs_named(program, environment.get("PATH", "")))


def _make_missing(directories: list[str], files: list[str], *, home: Path) -> None:
    """Make caches in an existing home, because a confined program cannot. What cannot be made is left out."""
    with contextlib.suppress(OSError):
        for directory in directories if home.is_dir() else ():
            Path(directory).mkdir(parents=True, exist_ok=True)
        for file in files if home.is_dir() else ():
            Path(file).touch()


def protected_paths(workspace: Path) -> tuple[str, ...]:
    """Return the files and directories in the workspace from which programs are started later. They need not exist."""
    found = [os.path.join(workspace, name) for name in (".holdfast", *PROJECT_SETTINGS, PROJECT_HOOKS)]
    for git in _git_directories(workspace):
        found += [f"{git}/{name}" for name in _GIT_FILES]
        found += _nested_git_files(git)
    return tuple(found)


def _git_directories(workspace: Path) -> list[str]:
    """The directories with git's files that commands in this workspace can write."""
    git = os.path.join(workspace, ".git")
    return [git] if _is_directory(git) else _outer_git_directories(workspace)


def _outer_git_directories(workspace: Path) -> list[str]:
    """The git directory of a workspace that is below a repository's root, or that is a linked work tree."""
    link = os.path.join(workspace, ".git")
    if os.path.islink(link):
        return []
    for parent in workspace.parents if not os.path.exists(link) else ():
        git = os.path.join(parent, ".git")
        if _is_directory(git) and os.path.isfile(f"{git}/HEAD"):
            return [git]
    return _linked_work_tree(Path(link))


def _linked_work_tree(link: Path) -> list[str]:
    """Git's directory of a linked work tree. Its own files must point back, because commands can write the link."""
    try:
        if not stat.S_ISREG(link.lstat().st_mode):
            return []
        own = Path(link.read_text().removeprefix("gitdir:").strip())
        if own.parent.name != "worktrees" or Path((own / "gitdir").read_text().strip()) != link:
            return []
    except (OSError, ValueError):
        return []
    return [str(own.parent.parent)]


def _nested_git_files(git: str) -> list[str]:
    """Configurations and hooks of submodules and linked work trees."""
    found: list[str] = []
    for directory in (f"{git}/modules", f"{git}/worktrees"):
        for path, directories, files in os.walk(directory):
            if "HEAD" in files:
                found += [f"{path}/{name}" for name in _GIT_FILES]
                directories[:] = [name for name in directories if name == "modules"]
            if len(found) > _MAX_NESTED:
                return found
    return found


class _ExistingPaths:
    """Resolves the links of paths, each directory above them only once."""

    def __init__(self) -> None:
        self._directories: dict[str, str] = {}

    def of(self, paths: Iterable[str | Path]) -> tuple[str, ...]:
        """Return the paths that exist, with all links resolved, each once."""
        found = (self._resolve(os.fspath(path)) for path in paths)
        return tuple(dict.fromkeys(path for path in found if path is not None))

    def _resolve(self, path: str) -> str | None:
        """The path without links; None if it does not exist. Raises `OSError` if that cannot be known."""
        try:
            is_link = stat.S_ISLNK(os.lstat(path).st_mode)
        except OSError as error:
            if error.errno in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP):
                return None
            raise
        directory, _, name = path.rpartition("/")
        if is_link or name in _NO_NAMES or not path.startswith("/"):
            return os.path.realpath(path) if Path(path).exists() else None
        return f"{self._resolve_directory(directory)}/{name}"

    def _resolve_directory(self, path: str) -> str:
        """The path of a directory, which begins with a slash, without links and without a slash at its end."""
        if not path:
            return ""
        if path not in self._directories:
            directory, slash, name = path.rpartition("/")
            is_plain = slash and name not in _NO_NAMES and not os.path.islink(path)
            found = f"{self._resolve_directory(directory)}/{name}" if is_plain else os.path.realpath(path)
            self._directories[path] = found.rstrip("/")
        return self._directories[path]


def _is_directory(path: str) -> bool:
    try:
        return stat.S_ISDIR(os.lstat(path).st_mode)
    except OSError:
        return False
