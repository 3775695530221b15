"""An environment in which a test can touch neither the user's home nor the user's accounts."""

import os
from pathlib import Path

_SECRET_ENDINGS = ("_API_KEY", "_AUTH_TOKEN", "_ACCESS_TOKEN")
_PROXIES = frozenset({"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"})


def isolated_environment(home: Path) -> dict[str, str]:
    """What every test adds to its environment: its own home, and a git that knows nobody's settings."""
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


def leaks_into_tests(name: str) -> bool:
    """Whether a variable of the outer environment would change what a test does.

    Keys and tokens, our own settings, the user's data locations, and proxies (a loopback request must stay one).
    `HOLDFAST_TEST_*` is for choosing what the tests run against, and stays.
    """
    upper = name.upper()
    if upper.startswith("HOLDFAST_"):
        return not upper.startswith("HOLDFAST_TEST_")
    return upper.endswith(_SECRET_ENDINGS) or upper.startswith("XDG_") or upper in _PROXIES
