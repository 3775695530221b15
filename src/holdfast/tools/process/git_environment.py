"""The environment in which git runs no program that a repository's settings name, and writes nothing.

Holdfast's own git calls and the commands that run without approval use it. Settings in the environment override those
of the repository and of the user. They cannot override what has a free name: filters, diff drivers and the settings of
submodules. `approvals.git_repository` finds those.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Final

_SETTINGS: Final = (
    ("core.fsmonitor", "false"),
    ("core.hooksPath", os.devnull),
    ("core.pager", "cat"),
    ("core.editor", "false"),
    ("core.sshCommand", "false"),
    ("core.askPass", ""),
    ("credential.helper", ""),
    ("protocol.allow", "never"),
    ("gpg.program", "false"),
    ("gpg.ssh.program", "false"),
    ("gpg.x509.program", "false"),
    ("log.showSignature", "false"),
    ("safe.bareRepository", "explicit"),
    ("submodule.recurse", "false"),
    ("status.submoduleSummary", "false"),
    ("diff.submodule", "short"),
    ("diff.autoRefreshIndex", "false"),
    ("gc.auto", "0"),
    ("maintenance.auto", "false"),
)
_VARIABLES: Final = {
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_PAGER": "cat",
    "GIT_CONFIG_COUNT": str(len(_SETTINGS)),
    **{f"GIT_CONFIG_KEY_{number}": key for number, (key, _) in enumerate(_SETTINGS)},
    **{f"GIT_CONFIG_VALUE_{number}": value for number, (_, value) in enumerate(_SETTINGS)},
}
_KEPT: Final = frozenset(
    {
        *("GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM", "GIT_CONFIG_NOSYSTEM", "GIT_ATTR_NOSYSTEM", "GIT_EXEC_PATH"),
        *("GIT_CEILING_DIRECTORIES", "GIT_DISCOVERY_ACROSS_FILESYSTEM", "GIT_AUTHOR_NAME", "GIT_AUTHOR_EMAIL"),
        *("GIT_COMMITTER_NAME", "GIT_COMMITTER_EMAIL"),
    }
)


def neutral_git_environment(base: Mapping[str, str]) -> dict[str, str]:
    """Return `base` with git's programs, locks, prompts and network turned off.

    Git's own variables are removed, except those that name the user or the user's files: they could choose another
    repository (``GIT_DIR``), start programs (``GIT_EXTERNAL_DIFF``) or write files (``GIT_TRACE``).
    """
    environment = {name: value for name, value in base.items() if not name.startswith("GIT_") or name in _KEPT}
    environment.update(_VARIABLES)
    return environment
