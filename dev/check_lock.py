"""Check, without a network, that the lock files cover pyproject.toml, have hashes and contain no index address.

Run by `make check`. Tracked files and commit messages are searched for index addresses as well: which index is used is
a setting of each machine.
"""

import re
import subprocess
import sys
import tomllib
from collections.abc import Iterable, Iterator
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

LOCKS = {
    "lock/dev.txt": ("dev",),
    "lock/e2e.txt": ("e2e",),
    "lock/oracles.txt": ("oracles",),
    "lock/web.txt": ("dev", "web"),
}
"""Each lock file, and the dependency groups that it covers in addition to the project's dependencies."""

_PIN = re.compile(r"^(?P<name>[A-Za-z0-9._-]+)==(?P<version>[^\s;]+)")
_ADDRESS = re.compile(
    r"""://[^\s"'<>]*/simple\b
      | \bpy[p]i\.[a-z]
      | \bpython[h]osted\b
      | --(?:(?:extra-)?index-url|find-links)[ =]\S*[/:]""",
    re.IGNORECASE | re.VERBOSE,
)


def requirements(pyproject: str, groups: Iterable[str]) -> list[Requirement]:
    """The dependencies of the project and of these groups."""
    table = tomllib.loads(pyproject)
    lines = [*table["project"].get("dependencies", [])]
    for group in groups:
        lines += table["dependency-groups"][group]
    return [Requirement(line) for line in lines]


def find_stale(lock: str, required: Iterable[Requirement]) -> Iterator[str]:
    """Each requirement that the lock does not cover, and each pin without a hash."""
    pins: dict[str, list[str]] = {}
    for entry in re.split(r"\n(?=\S)", lock):
        if found := _PIN.match(entry):
            pins.setdefault(canonicalize_name(found["name"]), []).append(found["version"])
            if "--hash=sha256:" not in entry:
                yield f"{found['name']!r} has no hash"
    for requirement in required:
        versions = pins.get(canonicalize_name(requirement.name), [])
        if not versions:
            yield f"{requirement.name!r} is not in it"
        for version in versions:
            if not requirement.specifier.contains(version, prereleases=True):
                yield f"{requirement.name!r} is pinned to {version!r}, but {str(requirement.specifier)!r} is required"


def addresses(text: str) -> list[str]:
    """Lines that contain the address of a package index."""
    return [line.strip() for line in text.splitlines() if _ADDRESS.search(line)]


def addresses_in_lock(text: str) -> list[str]:
    """Lines of a lock that contain any address at all."""
    return [line.strip() for line in text.splitlines() if "://" in line or _ADDRESS.search(line)]


def find_problems(root: Path) -> Iterator[str]:
    pyproject = (root / "pyproject.toml").read_text(encoding="utf-8")
    for name, groups in LOCKS.items():
        lock = (root / name).read_text(encoding="utf-8")
        for problem in find_stale(lock, requirements(pyproject, groups)):
            yield f"{name}: {problem}; run `make lock`"
        for line in addresses_in_lock(lock):
            yield f"{name}: contains an address: {line!r}"
    for name in _git(root, "ls-files", "-z").split("\0"):
        path = root / name
        if name and path.is_file() and b"\0" not in (content := path.read_bytes()):
            for line in addresses(content.decode("utf-8", "replace")):
                yield f"{name}: contains the address of an index: {line!r}"
    for line in addresses(_git(root, "log", "--format=%B")):
        yield f"a commit message contains the address of an index: {line!r}"


def _git(root: Path, *arguments: str) -> str:
    """Git's output; empty outside a repository (an unpacked release) and before the first commit."""
    return subprocess.run(["git", *arguments], cwd=root, capture_output=True, text=True, check=False).stdout


def main() -> int:
    problems = list(find_problems(Path(__file__).parents[1]))
    for problem in problems:
        print(problem, file=sys.stderr)
    print("locks: " + (f"{len(problems)} problems" if problems else "cover pyproject.toml, hashed, no addresses"))
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
