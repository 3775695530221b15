"""Finds which files of a directory tree changed since the last look at it. Blocking: call it in a thread.

A file whose time of change, inode and settled flag are as before is not read again. A directory whose time is as before
is not listed again. What changed in the last moments before a look may change once more within the same tick of the
file system's clock, so it is not settled, and the next look reads it again.

Where the kernel can tell in which directories something changed (`directory_watch`), only these are looked at.

Ignored files (`.gitignore`, `.holdfastignore`) and git's own are left out. A file that only stops being ignored was not
created, and one that only becomes ignored was not deleted.
"""

from __future__ import annotations

import errno
import os
import stat
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

import msgspec

from holdfast.tools.files.file_access import MAX_FILE_BYTES, content_hash, link_hash
from holdfast.tools.files.held_directory import open_without_links
from holdfast.tools.search.ignore_rules import GIT_IGNORE_FILE, OWN_IGNORE_FILE, IgnoreRules
from holdfast.workspace.undo.directory_watch import DirectoryWatch, open_watch
from holdfast.workspace.undo.file_state import NO_FILE, SETTLE_NS, FileState, is_unstored, unstored_content

_FULL_SECONDS = 300.0
"""After this time everything is looked at, also if the kernel reports no change."""
_BATCH_BYTES = 8 * 1024 * 1024
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_GONE = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ELOOP})
_RULE_NAMES = frozenset({GIT_IGNORE_FILE, OWN_IGNORE_FILE, ".git"})


class TreeTooLarge(Exception):
    """The tree has more names than the limit."""


class TreeLimits(msgspec.Struct, frozen=True, kw_only=True):
    names: int
    """Files and directories that are not below an ignored one."""
    scan_bytes: int = 64 * 1024 * 1024
    """How much one look reads. The next one continues."""
    total_bytes: int = 512 * 1024 * 1024
    """How much of a tree is stored."""
    scan_seconds: float = 2.0
    """How long one look reads."""


class TreeFile(NamedTuple):
    """A file as it was when it was last looked at."""

    changed_ns: int
    inode: int
    settled: bool
    content: str
    mode: int | None
    size: int

    @property
    def state(self) -> FileState:
        return FileState(self.content, self.mode)


class TreeChange(NamedTuple):
    path: str
    """Relative to the root."""
    before: FileState
    after: FileState


class _Directory:
    """What is known of one directory."""

    __slots__ = ("directories", "files", "generation", "ignored", "inode", "names", "rules", "stamp")

    def __init__(self) -> None:
        self.files: dict[str, TreeFile] = {}
        self.directories: frozenset[str] = frozenset()
        self.ignored: frozenset[str] = frozenset()
        self.rules: Mapping[str, tuple[int, int]] = {}
        self.stamp: tuple[int, int] | None = None
        """None: it must be listed."""
        self.generation = 0
        """0: it was never listed."""
        self.names = 0
        self.inode = 0


class TreeScanner:
    """One tree. `scan` returns what changed since the last scan; `store` is called with new contents."""

    def __init__(
        self,
        root: Path,
        limits: TreeLimits,
        *,
        store: Callable[[Mapping[str, bytes]], None],
        excluded: Iterable[Path] = (),
    ) -> None:
        """``excluded`` are directories that are left out, such as Holdfast's own."""
        self._root = str(root)
        resolved = [path.resolve() for path in excluded]
        self._excluded = frozenset(str(path.relative_to(root)) for path in resolved if path.is_relative_to(root))
        self._limits = limits
        self._store = store
        self._rules = IgnoreRules(root)
        self._generation = 1
        """Counts changes of the ignore rules. A directory of an older one is listed again."""
        self._tree: dict[str, _Directory] = {}
        self._names = 0
        self._stored_bytes = 0
        self._is_new = True
        self._watch: DirectoryWatch | None = None
        self._may_watch = True
        self._full_at = 0.0
        """When everything was last looked at."""
        self._revisit: set[str] = set()
        """Directories to look at in any case, because some of what is in them is not settled."""
        self._linked: set[str] = set()
        """The same, because files in them have further hard links, through which they may be changed unseen."""

    @property
    def directories(self) -> frozenset[str]:
        return frozenset(self._tree)

    def covers(self, relative: str) -> bool:
        parent, _, name = relative.rpartition("/")
        directory = self._tree.get(parent)
        return directory is not None and name in directory.files

    def load(self, files: Mapping[str, TreeFile]) -> None:
        """Continue from a stored tree. Files that are not in it now were created since, unless they are ignored."""
        for relative, file in files.items():
            parent, _, name = relative.rpartition("/")
            self._directory(parent).files[name] = file
            self._stored_bytes += _stored_size(file)
        for relative in list(self._tree):
            while relative:
                parent, _, name = relative.rpartition("/")
                above = self._directory(parent)
                above.directories |= {name}
                relative = parent
        self._is_new = not files

    def scan(self) -> tuple[list[TreeChange], dict[str, TreeFile | None]]:
        """Return the changes, and the files to store: None for those that are not in the tree any more.

        Raises `TreeTooLarge`.
        """
        looking, generation = _Pass(self._limits), self._generation
        changed = self._changed_directories()
        self._revisit = set()
        if changed is not None:
            self._visit([(relative, False) for relative in sorted(changed)], looking)
        if changed is None or self._generation != generation:
            looking.is_full = True
            self._visit([("", self._is_new)], looking)
            self._full_at = time.monotonic()
        if looking.contents:
            self._store(looking.contents)
        self._is_new = False
        return looking.changes, looking.files

    def close(self) -> None:
        if self._watch is not None:
            self._watch.close()
            self._watch = None

    def _visit(self, waiting: list[tuple[str, bool]], looking: _Pass) -> None:
        while waiting:
            relative, is_baseline = waiting.pop()
            waiting += self._scan_directory(relative, looking, is_baseline=is_baseline)

    def _changed_directories(self) -> set[str] | None:
        """Return the directories to look at; None: all."""
        if self._watch is not None and time.monotonic() - self._full_at < _FULL_SECONDS:
            changed = self._watch.take_changed()
            if changed is not None:
                return {relative for relative in changed | self._revisit | self._linked if relative in self._tree}
        self.close()
        if self._may_watch:
            self._watch = open_watch(self._root)
        return None

    def _directory(self, relative: str) -> _Directory:
        return self._tree.setdefault(relative, _Directory())

    def _scan_directory(self, relative: str, looking: _Pass, *, is_baseline: bool) -> list[tuple[str, bool]]:
        """Look at one directory. Returns the directories in it, with whether all in them counts as known before."""
        if self._watch is not None and not self._watch.add(relative):
            self.close()
            self._may_watch = False
        try:
            descriptor = open_without_links(Path(self._root, relative), _DIRECTORY)
        except OSError as error:
            if error.errno in _GONE:
                self._forget(relative, looking, deleted=True)
            return []  # a directory that cannot be read now keeps what is known of it
        try:
            directory = self._directory(relative)
            status = os.fstat(descriptor)
            stamp = (status.st_mtime_ns, status.st_ino)
            is_other = directory.inode != status.st_ino
            directory.inode = status.st_ino
            appeared: Mapping[str, bool] = {}
            became_visible: frozenset[str] = frozenset()
            self._check_rules(directory, descriptor)
            if directory.stamp != stamp or directory.generation != self._generation:
                appeared, became_visible = self._list(relative, directory, descriptor, looking, is_baseline=is_baseline)
                directory.stamp = stamp if status.st_mtime_ns < looking.settled_before else None
                directory.generation = self._generation
            self._check_files(relative, directory, descriptor, looking)
            for name, was_known in appeared.items():
                self._add(relative, directory, name, descriptor, looking, was_known=was_known)
            if directory.stamp is None:
                self._revisit.add(relative)
            prefix = f"{relative}/" if relative else ""
            below = [(f"{prefix}{name}", is_baseline or name in became_visible) for name in directory.directories]
            return below if looking.is_full or is_other else [pair for pair in below if pair[0] not in self._tree]
        finally:
            os.close(descriptor)

    def _check_rules(self, directory: _Directory, descriptor: int) -> None:
        """Read the ignore rules again if a file with rules, seen when the directory was listed, changed."""
        for name, known in directory.rules.items():
            try:
                status = os.stat(name, dir_fd=descriptor, follow_symlinks=False)
            except OSError:
                continue  # the directory is listed again anyway
            if name != ".git" and (status.st_ctime_ns, status.st_ino) != known:
                self._renew_rules()
                return

    def _renew_rules(self) -> None:
        self._rules = IgnoreRules(Path(self._root))
        self._generation += 1

    def _list(
        self, relative: str, directory: _Directory, descriptor: int, looking: _Pass, *, is_baseline: bool
    ) -> tuple[dict[str, bool], frozenset[str]]:
        """Compare the names with those known. Returns new files, with whether they were there before but ignored, and
        the directories that were ignored before.
        """
        with os.scandir(descriptor) as found:
            entries = {entry.name: entry.is_dir(follow_symlinks=False) for entry in found if _is_text(entry.name)}
        rules = {name: _identity(name, descriptor) for name in _RULE_NAMES & entries.keys()}
        if rules != directory.rules:
            if directory.generation:
                self._renew_rules()
            directory.rules = rules
        prefix = f"{relative}/" if relative else ""
        is_ignored = self._rules.entry_ignored
        ignored = frozenset(
            name
            for name, is_dir in entries.items()
            if is_ignored(f"{prefix}{name}", is_dir=is_dir) or f"{prefix}{name}" in self._excluded
        )
        directories = frozenset(name for name, is_dir in entries.items() if is_dir and name not in ignored)
        files = [name for name, is_dir in entries.items() if not is_dir and name not in ignored]
        self._names += len(entries) - directory.names
        directory.names = len(entries)
        if self._names > self._limits.names:
            raise TreeTooLarge
        for name in directory.directories - directories:
            self._forget(f"{prefix}{name}", looking, deleted=name not in entries or not entries[name])
        for name in directory.files.keys() - set(files):
            self._remove(relative, directory, name, looking, deleted=name not in ignored)
        new = {name: is_baseline or name in directory.ignored for name in files if name not in directory.files}
        became_visible = directories & directory.ignored
        directory.directories, directory.ignored = directories, ignored
        return new, became_visible

    def _check_files(self, relative: str, directory: _Directory, descriptor: int, looking: _Pass) -> None:
        get_status = os.stat
        files = directory.files
        gone = []
        for name, known in files.items():
            try:
                status = get_status(name, dir_fd=descriptor, follow_symlinks=False)
            except OSError:
                gone.append(name)
                continue
            if status.st_nlink > 1:
                self._linked.add(relative)
            if status.st_ctime_ns == known[0] and status.st_ino == known[1] and known[2]:
                continue
            self._stored_bytes -= _stored_size(known)
            found = self._read(name, descriptor, status, looking)
            if found is None:
                gone.append(name)
                continue
            if not found.settled:
                self._revisit.add(relative)
            if found == known:
                continue
            files[name] = found
            path = f"{relative}/{name}" if relative else name
            looking.files[path] = found
            is_same_file = (found.changed_ns, found.inode) == (known.changed_ns, known.inode)
            if found.state != known.state and not (is_same_file and is_unstored(known.content)):
                looking.changes.append(TreeChange(path, known.state, found.state))
        for name in gone:
            self._remove(relative, directory, name, looking, deleted=True)

    def _add(
        self, relative: str, directory: _Directory, name: str, descriptor: int, looking: _Pass, *, was_known: bool
    ) -> None:
        try:
            status = os.stat(name, dir_fd=descriptor, follow_symlinks=False)
        except OSError:
            return
        found = self._read(name, descriptor, status, looking)
        if found is None:
            return
        if not found.settled:
            self._revisit.add(relative)
        if status.st_nlink > 1:
            self._linked.add(relative)
        path = f"{relative}/{name}" if relative else name
        directory.files[name] = looking.files[path] = found
        if not was_known:
            looking.changes.append(TreeChange(path, NO_FILE, found.state))

    def _remove(self, relative: str, directory: _Directory, name: str, looking: _Pass, *, deleted: bool) -> None:
        known = directory.files.pop(name)
        path = f"{relative}/{name}" if relative else name
        looking.files[path] = None
        self._stored_bytes -= _stored_size(known)
        if deleted:
            looking.changes.append(TreeChange(path, known.state, NO_FILE))

    def _forget(self, relative: str, looking: _Pass, *, deleted: bool) -> None:
        """Remove a directory and all below it from the tree."""
        directory = self._tree.pop(relative, None)
        if directory is None:
            return
        for name in list(directory.files):
            self._remove(relative, directory, name, looking, deleted=deleted)
        self._names -= directory.names
        if directory.rules:
            self._renew_rules()
        for name in directory.directories:
            self._forget(f"{relative}/{name}" if relative else name, looking, deleted=deleted)

    def _read(self, name: str, descriptor: int, status: os.stat_result, looking: _Pass) -> TreeFile | None:
        """Read a file. None: it is neither a regular file nor a symlink, or has just been removed."""
        settled = status.st_ctime_ns < looking.settled_before
        if stat.S_ISLNK(status.st_mode):
            try:
                target = os.readlink(name, dir_fd=descriptor)
            except OSError:
                return None
            return TreeFile(status.st_ctime_ns, status.st_ino, settled, link_hash(target), None, 0)
        if not stat.S_ISREG(status.st_mode):
            return None
        content = None
        if status.st_size <= MAX_FILE_BYTES and self._stored_bytes + status.st_size <= self._limits.total_bytes:
            content, status = self._read_content(name, descriptor, status, looking)
        mode = stat.S_IMODE(status.st_mode)
        if content is None:
            is_final = settled and status.st_size > MAX_FILE_BYTES
            unstored = unstored_content(size=status.st_size, modified_ns=status.st_mtime_ns)
            return TreeFile(status.st_ctime_ns, status.st_ino, is_final, unstored, mode, status.st_size)
        self._stored_bytes += status.st_size
        settled = status.st_ctime_ns < looking.settled_before
        return TreeFile(status.st_ctime_ns, status.st_ino, settled, content, mode, status.st_size)

    def _read_content(
        self, name: str, descriptor: int, status: os.stat_result, looking: _Pass
    ) -> tuple[str | None, os.stat_result]:
        if not looking.may_read(status.st_size):
            return None, status
        try:
            opened = os.open(name, _FILE, dir_fd=descriptor)
        except OSError:
            return None, status
        with open(opened, "rb", buffering=0) as file:
            status = os.fstat(opened)
            if not stat.S_ISREG(status.st_mode):
                return None, status
            try:
                data = file.read(MAX_FILE_BYTES + 1)
            except OSError:
                return None, status
        if data is None or len(data) > MAX_FILE_BYTES:
            return None, status
        content = content_hash(data)
        if looking.add(content, data) > _BATCH_BYTES:
            self._store(looking.take_contents())
        return content, status


class _Pass:
    """One look at a tree."""

    def __init__(self, limits: TreeLimits) -> None:
        self.settled_before = time.time_ns() - SETTLE_NS
        self.changes: list[TreeChange] = []
        self.files: dict[str, TreeFile | None] = {}
        self.contents: dict[str, bytes] = {}
        self.is_full = False
        self._limits = limits
        self._batch = 0
        self._read = 0
        self._deadline: float | None = None

    def may_read(self, size: int) -> bool:
        now = time.monotonic()
        if self._deadline is None:
            self._deadline = now + self._limits.scan_seconds
        return now < self._deadline and self._read + size <= self._limits.scan_bytes

    def add(self, content: str, data: bytes) -> int:
        """Keep a content to be stored. Returns how many bytes wait."""
        self.contents[content] = data
        self._read += len(data)
        self._batch += len(data)
        return self._batch

    def take_contents(self) -> dict[str, bytes]:
        contents, self.contents, self._batch = self.contents, {}, 0
        return contents


def compose_changes(changes: Iterable[TreeChange]) -> dict[str, TreeChange]:
    """Join the changes of each file to one. A file that is as it was before is left out."""
    joined: dict[str, TreeChange] = {}
    for change in changes:
        first = joined.get(change.path)
        joined[change.path] = change if first is None else TreeChange(change.path, first.before, change.after)
    return {path: change for path, change in joined.items() if change.before != change.after}


def _stored_size(file: TreeFile) -> int:
    return 0 if is_unstored(file.content) else file.size


def _identity(name: str, descriptor: int) -> tuple[int, int]:
    if name == ".git":
        return (0, 0)
    try:
        status = os.stat(name, dir_fd=descriptor, follow_symlinks=False)
    except OSError:
        return (0, 0)
    return (status.st_ctime_ns, status.st_ino)


def _is_text(name: str) -> bool:
    """Whether a name is UTF-8. Others cannot be recorded."""
    return name.isascii() or not any("\udc80" <= character <= "\udcff" for character in name)
