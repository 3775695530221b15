"""`make check` finds a stale lock and the address of an index."""

from pathlib import Path

import pytest
from packaging.requirements import Requirement

from dev import check_lock

_LOCK = """\
six==1.17.0 \\
    --hash=sha256:aa
    # via holdfast
ruff==0.12.1 ; sys_platform != 'win32' \\
    --hash=sha256:bb
"""


def _stale(*required: str, lock: str = _LOCK) -> list[str]:
    return list(check_lock.find_stale(lock, [Requirement(line) for line in required]))


def test_lock_that_covers_all_requirements_is_not_stale() -> None:
    assert _stale("six>=1", "Ruff>=0.12; python_version > '3'") == []


def test_new_dependency_makes_the_lock_stale() -> None:
    assert _stale("six", "attrs>=1") == ["'attrs' is not in it"]


def test_raised_minimum_makes_the_lock_stale() -> None:
    assert _stale("six>=2") == ["'six' is pinned to '1.17.0', but '>=2' is required"]


def test_pin_without_a_hash_is_reported() -> None:
    assert _stale("six", lock="six==1.17.0\nruff==1 \\\n    --hash=sha256:bb\n") == ["'six' has no hash"]


@pytest.mark.parametrize(
    "parts",
    [("--index-url", " http://x"), ("--find-links", "=/wheels"), ("https://py", "pi.example"), ("http://h/simp", "le")],
)
def test_address_of_an_index_is_found_in_any_text(parts: tuple[str, str]) -> None:
    line = "".join(parts)
    assert check_lock.addresses(f"before\n  {line}\nafter") == [line]
    assert check_lock.addresses("see https://example.com/docs, --index-url is not emitted") == []


def test_every_address_in_a_lock_is_reported() -> None:
    assert check_lock.addresses_in_lock(f"{_LOCK}# from https://example.com/\n") == ["# from https://example.com/"]


def test_locks_of_this_repository_have_no_problems() -> None:
    assert list(check_lock.find_problems(Path(__file__).parents[2])) == []
