"""Tool calls in the words of Crush's client, which draws each tool from its own argument names. Pure."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping
from typing import Any

from holdfast.crush.diff_contents import contents_of_diff, count_changes
from holdfast.schema.approvals import Approval
from holdfast.schema.messages import ToolResult

_NAMES = {"ask": "question", "explore": "agent"}
_ARGUMENTS: Mapping[str, Mapping[str, str]] = {
    "view": {"path": "file_path"},
    "edit": {"path": "file_path", "old_text": "old_string", "new_text": "new_string"},
    "multiedit": {"path": "file_path"},
    "write": {"path": "file_path"},
    "download": {"path": "file_path"},
    "grep": {"literal": "literal_text"},
    "bash": {"background": "run_in_background"},
    "job_output": {"job": "shell_id"},
    "job_kill": {"job": "shell_id"},
}
_EDITS = frozenset({"edit", "multiedit", "write"})
_LINE_NUMBER = re.compile(r"^ *\d+[\t|→: ]", re.MULTILINE)


def tool_name(name: str) -> str:
    """The name under which Crush's client knows a tool. It draws unknown names in a general form."""
    return _NAMES.get(name, name)


def tool_input(name: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of a call, with Crush's names."""
    renamed = _ARGUMENTS.get(name, {})
    found = {renamed.get(key, key): value for key, value in arguments.items()}
    match name:
        case "multiedit" if isinstance(found.get("edits"), list):
            found["edits"] = [_renamed(edit, _ARGUMENTS["edit"]) for edit in found["edits"]]
        case "todos" if isinstance(found.get("todos"), list):
            found["todos"] = [{"active_form": "", **_renamed(todo, {"text": "content"})} for todo in found["todos"]]
        case "view" if isinstance(found.get("offset"), int):
            found["offset"] = max(0, found["offset"] - 1)
        case "job_output":
            found["wait"] = bool(found.get("wait"))
        case _:
            pass
    return found


def result_metadata(result: ToolResult, *, ended_at: int) -> dict[str, Any]:
    """What Crush's client draws besides the text of a result."""
    display = result.display
    diff = display.get("diff", "")
    match result.name:
        case "edit" | "multiedit":
            added, removed = count_changes(diff)
            old, new = contents_of_diff(diff)
            return {"additions": added, "removals": removed, "old_content": old, "new_content": new}
        case "write":
            added, removed = count_changes(diff)
            return {"diff": diff, "additions": added, "removals": removed}
        case "bash":
            job_id = display.get("job_id")
            return {
                "start_time": (ended_at - int(result.duration or 0)) * 1000,
                "end_time": ended_at * 1000,
                "output": result.text,
                "description": "",
                "working_directory": "",
                **({"background": True, "shell_id": job_id} if job_id else {}),
            }
        case "view":
            return {"file_path": display.get("path", ""), "content": _LINE_NUMBER.sub("", result.text)}
        case _:
            return {}


def permission_request(approval: Approval, *, directory: str) -> dict[str, Any]:
    """An approval as Crush's client asks for it. Its parameters have the shape that the client expects of the tool."""
    name = tool_name(approval.tool)
    return {
        "id": approval.id,
        "session_id": approval.root_session_id,
        "tool_call_id": approval.call_id,
        "tool_name": name,
        "description": approval.why or approval.title,
        "action": "execute" if name == "bash" else "write" if name in _EDITS else "use",
        "params": _permission_parameters(name, approval, directory),
        "path": directory,
    }


def _permission_parameters(name: str, approval: Approval, directory: str) -> dict[str, Any]:
    title = approval.title
    match name:
        case "bash":
            return {
                "description": approval.why,
                "command": title,
                "working_dir": directory,
                "run_in_background": False,
                "auto_background_after": 0,
            }
        case "edit" | "multiedit" | "write":
            old, new = contents_of_diff(approval.display.get("diff", ""))
            return {"file_path": posixpath.join(directory, title), "old_content": old, "new_content": new}
        case "download":
            return {"url": title, "file_path": str(approval.display.get("path", ""))}
        case "fetch":
            return {"url": title, "format": "markdown"}
        case "view":
            return {"file_path": posixpath.join(directory, title), "offset": 0, "limit": 0}
        case "ls":
            return {"path": posixpath.join(directory, title), "ignore": [], "depth": 0}
        case _:
            return {"title": title, "why": approval.why}


def _renamed(value: Any, names: Mapping[str, str]) -> Any:
    if not isinstance(value, dict):
        return value
    return {names.get(key, key): one for key, one in value.items()}
