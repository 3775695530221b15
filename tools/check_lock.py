"""Checks the lock files without a network: they cover pyproject.toml, hold hashes, and no address of an index.

Run by `make check`. Files that git knows and commit messages are searched for addresses as well: where packages come
from is a matter of each machine.
"""

import re
import subprocess
import sys
import tomllib
from collections.abc import Iterable, Iterator
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

LOCKS = {"lock/dev.txt": ("dev",), "lock/e2e.txt": ("e2e",), "lock/oracles.txt": ("oracles",)}
"""Each lock file, and the dependency groups that it covers besides the project's own dependencies."""

_PIN = re.compile(r"^(?P<name>[A-Za-z0-9._-]+)==(?P<version>[^\s;]+)")
_ADDRESS = re.compile(
    r"""://[^\s"'<>]*/simple\b
      | \bpy[p]i\.[a-z]
      | \bpython[h]osted\b
      | --(?:(?:extra-)?index-url|find-links)[ =]\S*[/:]""",
    re.IGNORECASE | re.VERBOSE,
)


def requirements(pyproject: str, groups: Iterable[str]) -> list[Requirement]:
    """What the project itself and the named groups ask for."""
    table = tomllib.loads(pyproject)
    asked = [*table["project"].get("dependencies", [])]
    for group in groups:
        asked += table["dependency-groups"][group]
    return [Requirement(line) for line in asked]


def stale(lock: str, asked: Iterable[Requirement]) -> Iterator[str]:
    """What the lock does not cover, and each pin that has no hash."""
    pins: dict[str, list[str]] = {}
    for entry in re.split(r"\n(?=\S)", lock):
        if found := _PIN.match(entry):
            pins.setdefault(canonicalize_name(found["name"]), []).append(found["version"])
            if "--hash=sha256:" not in entry:
                yield f"{found['name']!r} has no hash"
    for requirement in asked:
        versions = pins.get(canonicalize_name(requirement.name), [])
        if not versions:
            yield f"{requirement.name!r} is not in it"
        for version in versions:
            if not requirement.specifier.contains(version, prereleases=True):
                yield f"{requirement.name!r} is pinned to {version!r}, but {str(requirement.specifier)!r} is asked for"


def addresses(text: str) -> list[str]:
    """Lines that tell where packages come from."""
    return [line.strip() for line in text.splitlines() if _ADDRESS.search(line)]


def addresses_in_lock(text: str) -> list[str]:
    """In a lock, any address is one too many."""
    return [line.strip() for line in text.splitlines() if "://" in line or _ADDRESS.search(line)]


def complaints(root: Path) -> Iterator[str]:
    pyproject = (root / "pyproject.toml").read_text(encoding="utf-8")
    for name, groups in LOCKS.items():
        lock = (root / name).read_text(encoding="utf-8")
        for what in stale(lock, requirements(pyproject, groups)):
            yield f"{name}: {what}; run `make lock`"
        for line in addresses_in_lock(lock):
            yield f"{name}: holds an address: {line!r}"
    for name in _git(root, "ls-files", "-z").split("\0"):
        path = root / name
        if name and path.is_file() and b"\0" not in (content := path.read_bytes()):
            for line in addresses(content.decode("utf-8", "replace")):
                yield f"{name}: holds the address of an index: {line!r}"
    for line in addresses(_git(root, "log", "--format=%B")):
        yield f"a commit message holds the address of an index: {line!r}"


def _git(root: Path, *arguments: str) -> str:
    """What git says; nothing outside a repository or before its first commit, as in an unpacked release."""
    return subprocess.run(["git", *arguments], cwd=root, capture_output=True, text=True, check=False).stdout


def main() -> int:
    found = list(complaints(Path(__file__).parents[1]))
    for complaint in found:
        print(complaint, file=sys.stderr)
    print("locks: " + (f"{len(found)} complaints" if found else "cover pyproject.toml, hashed, no addresses"))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
