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
_SECRET_NAME = r"(?i)key|token|secret|passw|credential|cookie|auth"
_SECRET_VALUE = r"://[^/\s@]+:[^/\s@]+@"
"""An address with a password."""


def matches(name: str, patterns: Collection[str]) -> bool:
    """Whether a name is one of the patterns; a ``*`` at the end of a pattern stands for any rest."""
    return name in patterns or any(
        pattern.endswith("*") and name.startswith(pattern.removesuffix("*")) for pattern in patterns
    )


def is_secret(name: str, value: str) -> bool:
    """Whether a variable looks as if it holds a secret."""
    by_name = name not in SHELL_VARIABLES and re.search(_SECRET_NAME, name) is not None
    return by_name or re.search(_SECRET_VALUE, value) is not None


def select_variables(env: Mapping[str, str], patterns: Collection[str]) -> dict[str, str]:
    """The variables that go with a prompt: those that match, fit, are text and hold no secret."""
    found = [name for name in sorted(env) if matches(name, patterns) and _fits(env[name])]
    return {name: env[name] for name in found[:MAX_VARIABLES] if not is_secret(name, env[name])}


def merge_variables(base: Mapping[str, str], sent: Mapping[str, str], patterns: Collection[str]) -> dict[str, str]:
    """The server's environment, in which the variables that match are those of the client."""
    kept = {name: value for name, value in base.items() if not matches(name, patterns)}
    given = {name: value for name, value in sent.items() if matches(name, patterns) and name not in OWN_VARIABLES}
    return {**kept, **given}


def _fits(value: str) -> bool:
    return len(value) <= MAX_LENGTH and "\0" not in value and not any("\ud800" <= char <= "\udfff" for char in value)
