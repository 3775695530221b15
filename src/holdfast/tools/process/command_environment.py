"""The environment of commands: the server's own without keys, and with nothing that would wait for a person."""

from __future__ import annotations

from collections.abc import Mapping

from holdfast.config import Settings, secret_variables

NON_INTERACTIVE: Mapping[str, str] = {
    "HOLDFAST": "1",
    "TERM": "dumb",
    "PAGER": "cat",
    "GIT_PAGER": "cat",
    "MANPAGER": "cat",
    "SYSTEMD_PAGER": "cat",
    "AWS_PAGER": "",
    "LESS": "-FRX",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_EDITOR": "true",
    "GCM_INTERACTIVE": "never",
    "SSH_ASKPASS_REQUIRE": "never",
    "DEBIAN_FRONTEND": "noninteractive",
    "PIP_NO_INPUT": "1",
    "NO_COLOR": "1",
}
"""No pager, no editor, no prompt, no colour: nobody is there to answer, and a model reads the output."""

_OWN_VARIABLES = frozenset({"HOLDFAST_TOKEN", "HOLDFAST_CALL"})


def child_environment(base: Mapping[str, str], settings: Settings) -> dict[str, str]:
    """What a child process may see of `base`: no provider's key, no token of this server (W8)."""
    secret = {name.upper() for name in secret_variables(settings)} | _OWN_VARIABLES
    return {**{name: value for name, value in base.items() if name.upper() not in secret}, **NON_INTERACTIVE}
