"""Tools that a client attaches to a session and executes itself."""

from __future__ import annotations

from typing import Any, Literal

from holdfast.schema.approvals import Effect
from holdfast.schema.base import Value
from holdfast.schema.messages import File

ClientCallState = Literal["open", "answered", "cancelled", "expired", "gone"]
"""``expired``: not answered in time; ``gone``: the client has disconnected or detached the tool."""


class ClientTool(Value, frozen=True):
    """A tool that the client executes."""

    name: str
    description: str = ""
    """For the model."""
    parameters: dict[str, Any] = {}
    """JSON Schema of the arguments, an object."""
    effect: Effect = "runs"
    """Decides about approvals and plan mode as for other tools. ``none`` and ``reads`` need no approval."""
    parallel: bool = False
    """Whether calls may run in parallel with other calls of the same step."""
    for_model: bool = True
    """``False``: the model does not see it. Only the server's own tools call it."""
    seconds: float = 600.0
    """How long a call may take."""


class ClientTools(Value, frozen=True):
    """The tools that one client has attached to a session."""

    session_id: str
    client: str
    """The client, as prompts name it."""
    tools: tuple[ClientTool, ...] = ()


class ClientCall(Value, frozen=True):
    """A call that waits for a client's result, or waited for it."""

    id: str
    workspace_id: str
    session_id: str
    """The session of the call; for a sub-agent its own session."""
    root_session_id: str
    """The session that the tool is attached to."""
    run_id: str
    call_id: str
    """The model's tool call to which it belongs."""
    client_id: str
    """The client that executes it."""
    tool: str
    arguments: dict[str, Any] = {}
    state: ClientCallState = "open"


class ClientResult(Value, frozen=True):
    """The result of a call, for the model."""

    text: str = ""
    status: Literal["ok", "error"] = "ok"
    files: tuple[File, ...] = ()
    """Images."""


EDITOR_READ = "editor_read_file"
"""The tool by which an editor's client returns the text of a file as the editor has it: ``path``."""
EDITOR_WRITE = "editor_write_file"
"""The tool by which an editor writes and saves a file: ``path`` and ``text``."""
EDITOR_RUN = "editor_run"
"""The tool by which an editor runs an `EditorCommand` in one of its terminals. Its result is an `EditorCommandEnd`."""
EDITOR_STOP = "editor_stop"
"""The tool that returns when the command of a closed `EDITOR_RUN` has ended: ``call_id``. The same result."""


class EditorCommand(Value, frozen=True):
    """A command for a terminal of the user's editor."""

    program: str
    arguments: tuple[str, ...]
    directory: str
    environment: dict[str, str]


class EditorCommandEnd(Value, frozen=True):
    """How a command in a terminal of the user's editor ended."""

    output: str = ""
    truncated: bool = False
    """Whether the editor kept only the end of the output."""
    exit_code: int | None = None
    signal: str | None = None
