"""The part of a client's environment that goes with a prompt. Pure.

The server lists the names that it wants (`WorkspaceView.variables`), and the client sends those that it has. Neither
side takes a variable that may hold a secret.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping

OWN_VARIABLES = ("HOLDFAST_MODEL", "HOLDFAST_SMALL_MODEL", "HOLDFAST_CONFIG")
"""Settings of the calling shell. They are not passed on to commands from here."""

SHELL_VARIABLES = (
    "PATH",
    # Python
    *("VIRTUAL_ENV", "CONDA_*", "MAMBA_*", "PYENV_*", "PYTHONPATH", "POETRY_ACTIVE", "UV_PROJECT_ENVIRONMENT"),
    # JavaScript
    *("NVM_*", "FNM_*", "VOLTA_HOME", "NODE_ENV", "NODE_PATH", "PNPM_HOME", "BUN_INSTALL", "DENO_DIR"),
    # Ruby, PHP, Perl
    *("RBENV_*", "RUBY_VERSION", "GEM_HOME", "GEM_PATH", "BUNDLE_GEMFILE", "COMPOSER_HOME", "PERL5LIB"),
    # Go, Rust, C
    *("GOPATH", "GOROOT", "GOBIN", "GOFLAGS", "GOOS", "GOARCH", "GOTOOLCHAIN", "CGO_ENABLED"),
    *("CARGO_HOME", "CARGO_TARGET_DIR", "RUSTUP_*", "CC", "CXX", "PKG_CONFIG_PATH"),
    # Java, Android, .NET
    *("JAVA_HOME", "JDK_HOME", "SDKMAN_*", "MAVEN_HOME", "M2_HOME", "GRADLE_HOME", "GRADLE_USER_HOME"),
    *("ANDROID_HOME", "ANDROID_SDK_ROOT", "DOTNET_ROOT"),
    # Managers of several languages
    *("ASDF_*", "MISE_*", "NIX_PATH", "NIX_PROFILES", "IN_NIX_SHELL", "HOMEBREW_PREFIX"),
    # What commands talk to
    *("SSH_AUTH_SOCK", "DOCKER_HOST", "DOCKER_CONTEXT", "KUBECONFIG"),
    *("AWS_PROFILE", "AWS_REGION", "AWS_DEFAULT_REGION", "CLOUDSDK_ACTIVE_CONFIG_NAME"),
    # Locale
    *("LANG", "LANGUAGE", "LC_*", "TZ"),
)
"""Names, or the beginnings of names, that commands get from the shell of the client."""

MAX_VARIABLES = 200
MAX_LENGTH = 32_768
_SECRET_WORDS = ("key", "token", "secret", "passw", "credential", "cookie", "auth")
_SECRET_VALUE = r"://[^/\s@]+:[^/\s@]+@"
"""An address with a password."""


def matching_names(names: Collection[str], patterns: Collection[str]) -> frozenset[str]:
    """The names that are one of the patterns; a ``*`` at the end of a pattern stands for any rest."""
    beginnings = tuple(pattern.removesuffix("*") for pattern in patterns if pattern.endswith("*"))
    return frozenset(name for name in names if name in patterns or name.startswith(beginnings))


def is_secret(name: str, value: str) -> bool:
    """Whether a variable looks as if it holds a secret."""
    folded = name.casefold()
    if name not in SHELL_VARIABLES and any(word in folded for word in _SECRET_WORDS):
        return True
    return "://" in value and re.search(_SECRET_VALUE, value) is not None


def select_variables(env: Mapping[str, str], patterns: Collection[str]) -> dict[str, str]:
    """The variables that go with a prompt: those that match, fit, are text and hold no secret."""
    found = [name for name in sorted(matching_names(env, patterns)) if _fits(env[name])]
    return {name: env[name] for name in found[:MAX_VARIABLES] if not is_secret(name, env[name])}


def merge_variables(base: Mapping[str, str], sent: Mapping[str, str], patterns: Collection[str]) -> dict[str, str]:
    """The server's environment, in which the variables that match are those of the client."""
    replaced = matching_names(base, patterns)
    given = matching_names(sent, patterns) - set(OWN_VARIABLES)
    return {name: value for name, value in base.items() if name not in replaced} | {
        name: value for name, value in sent.items() if name in given
    }


def _fits(value: str) -> bool:
    if len(value) > MAX_LENGTH or "\0" in value:
        return False
    return value.isascii() or not any("\ud800" <= char <= "\udfff" for char in value)
