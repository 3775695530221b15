"""An environment in which tests cannot use the user's home or accounts."""

import os
import sys
from pathlib import Path

_SECRET_ENDINGS = ("_API_KEY", "_AUTH_TOKEN", "_ACCESS_TOKEN")
_PROXIES = frozenset({"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"})


def isolated_environment(home: Path) -> dict[str, str]:
    """Return the variables of every test: its own home, and git without user settings."""
    return {
        "HOME": str(home),
        "HOLDFAST_HOME": str(home / "holdfast"),
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_AUTHOR_NAME": "Test",
        "GIT_AUTHOR_EMAIL": "test@localhost",
        "GIT_COMMITTER_NAME": "Test",
        "GIT_COMMITTER_EMAIL": "test@localhost",
    }


def keep_compiled_code() -> None:
    """Compile each module once, also where ``PYTHONDONTWRITEBYTECODE`` is set.

    Otherwise every worker rewrites the assertions of all tests, and every server and command that a test starts
    compiles all of Holdfast again.
    """
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    sys.dont_write_bytecode = False


def leaks_into_tests(name: str) -> bool:
    """Whether a variable of the outer environment would change the result of a test.

    These are keys and tokens, settings of Holdfast, data locations of the user, and proxies. `HOLDFAST_TEST_*` selects
    what the tests run against, and is kept.
    """
    upper = name.upper()
    if upper.startswith("HOLDFAST_"):
        return not upper.startswith("HOLDFAST_TEST_")
    return upper.endswith(_SECRET_ENDINGS) or upper.startswith("XDG_") or upper in _PROXIES
