"""The sandbox of a call: what its commands may write and read, and what the model is told when it blocked one."""

from __future__ import annotations

import re
from pathlib import Path

from holdfast.tools.process.sandbox_limits import SandboxLimits, cache_directories, extra_directories, sandbox_limits
from holdfast.tools.protocol import ToolContext

_WRITE_FAILED = re.compile(
    r"read-only file system|permission denied|operation not permitted|EROFS|EACCES", re.IGNORECASE
)
_NETWORK_FAILED = re.compile(
    r"could ?n.t resolve|could not resolve|name resolution|name or service not known|network is unreachable|ENOTFOUND"
    r"|EAI_AGAIN|ENETUNREACH|failed to connect|could not connect|couldn't connect|permission denied|connection refused",
    re.IGNORECASE,
)


def command_limits(context: ToolContext) -> SandboxLimits:
    """Return what confined commands of a call may write and read. Blocking: call it in a thread."""
    server = context.settings.server
    writable = [*extra_directories(server.sandbox_writable)]
    if server.sandbox_caches:
        writable += cache_directories(context.environment)
    return sandbox_limits(
        context.workspace,
        writes_workspace=server.sandbox != "read-only",
        temporary=context.temporary,
        hidden=context.hidden,
        visible=(context.outputs, *context.visible),
        extra=tuple(writable),
        network=server.sandbox_network == "allow",
    )


def describe_restored(restored: tuple[str, ...], rejected: Path) -> str:
    if not restored:
        return ""
    names = ", ".join(restored)
    return (
        f"\n[sandbox: commands may not change {names}, because programs are started from there later."
        f" The change was undone; the changed files are in {rejected}.]\n"
    )


def describe_block(output: str, limits: SandboxLimits, context: ToolContext) -> str:
    """Return a note for the model and the user if the sandbox is probably why a command failed, else nothing."""
    if not limits.network and _NETWORK_FAILED.search(output):
        if context.settings.server.sandbox_network == "ask":
            hint = 'if the command needs it, call bash again with escalate="network" and a reason'
        else:
            hint = "the user has turned it off (server.sandbox_network)"
        return f"\n[sandbox: the command had no network, which is probably why it failed; {hint}]"
    if _WRITE_FAILED.search(output):
        where = "the workspace and $TMPDIR" if limits.writable else "$TMPDIR"
        return (
            f"\n[sandbox: commands can write only {where}, not .git/config, .git/hooks, .holdfast or .claude;"
            " that may be why it failed. If it must write elsewhere, call bash again with"
            ' escalate="unconfined" and a reason]'
        )
    return ""
