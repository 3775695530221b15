"""Arguments that are not valid JSON: repaired if only one reading is possible, else refused with the exact place. Pure.

Repaired are raw newlines and tabs in strings, backslashes before characters that need none, commas before a closing
bracket, a code fence around the object, an object inside a JSON string, and Python's spelling. Nothing is added: a text
that ends early may be cut off, and half a command or half a file must not be used.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Callable
from typing import Any

import msgspec

from holdfast.errors import ToolError

_FENCE = re.compile(r"\A```[a-z]*\s*\n(?P<inside>.*)\n```\Z", re.DOTALL)
_STRING_OR_COMMA = re.compile(r'(?P<string>"[^"\\]*(?:\\.[^"\\]*)*(?:"|\\?\Z))|,(?=\s*[}\]])', re.DOTALL)
_ESCAPE = re.compile(r"\\(?:(?P<known>[\"\\/bfnrt]|u[0-9a-fA-F]{4})|(?P<other>.))", re.DOTALL)
_UNUSUAL_ESCAPE = re.compile(r"""\\(?:[^\\'"nrt]|\Z)""")
_NEAR = 40
_MAX_PYTHON = 20_000
"""Characters of a text that is read as Python, which is slow."""


class RepairedArguments(msgspec.Struct, frozen=True):
    arguments: dict[str, Any]
    note: str
    """Tells the model what was wrong."""


def repair_arguments(tool: str, text: str) -> RepairedArguments:
    """Read the arguments of a call. Raises `ToolError` that names the place if they cannot be read safely."""
    inside = _unfenced(text.strip())
    problem: json.JSONDecodeError | None = None
    for read in (_read_lenient, _read_without_slips, _read_python):
        try:
            found = _unwrapped(read(inside), read)
        except json.JSONDecodeError as error:
            problem = problem or error
        except (ValueError, SyntaxError, RecursionError, MemoryError):
            continue
        else:
            if isinstance(found, dict):
                return RepairedArguments(found, "the arguments were not valid JSON and were repaired")
            kind = "list" if isinstance(found, list) else type(found).__name__
            raise ToolError(f"the arguments of {tool!r} are not a JSON object but a {kind}: {_start_of(text)}")
    raise ToolError(f"the arguments of {tool!r} are not valid JSON: {_place(inside, problem)}")


def _unfenced(text: str) -> str:
    found = _FENCE.match(text)
    return found["inside"].strip() if found else text


def _unwrapped(found: Any, read: Callable[[str], Any]) -> Any:
    """Read an object that was written into a JSON string."""
    return read(found) if isinstance(found, str) and found.lstrip().startswith("{") else found


def _read_lenient(text: str) -> Any:
    return json.loads(text, strict=False)


def _read_without_slips(text: str) -> Any:
    """Read after removing needless backslashes and commas. Text in strings keeps its characters."""
    return json.loads(_STRING_OR_COMMA.sub(_corrected, text), strict=False)


def _corrected(found: re.Match[str]) -> str:
    return _ESCAPE.sub(_escape, found["string"]) if found["string"] else ""


def _escape(found: re.Match[str]) -> str:
    if found["known"]:
        return found[0]
    # \' and \` are over-escaped quotes; in \d or \( the backslash itself was meant
    return found["other"] if found["other"] in "'`" else f"\\\\{found['other']}"


def _read_python(text: str) -> Any:
    if len(text) > _MAX_PYTHON or _UNUSUAL_ESCAPE.search(text):
        raise ValueError("too long, or with an escape that Python does not have")
    return ast.literal_eval(text)


def _place(text: str, problem: json.JSONDecodeError | None) -> str:
    if problem is None:
        return f"it is nested too deep or too long to be repaired: {_start_of(text)}"
    if problem.msg.startswith("Unterminated string") or problem.pos >= len(text.rstrip()):
        inside = f" inside a string (it begins at line {problem.lineno}, column {problem.colno})"
        where = inside if problem.msg.startswith("Unterminated string") else ""
        return (
            f"the text ends early{where}, so it may be cut off; its end is {text[-_NEAR:]!r}. "
            "Send the call again; if the arguments are long, send them in parts"
        )
    before, after = text[max(0, problem.pos - _NEAR) : problem.pos], text[problem.pos : problem.pos + _NEAR]
    reason = problem.msg[:1].lower() + problem.msg[1:]
    hint = 'Escape double quotes in strings as \\"' if before else "Send one JSON object"
    place = f"line {problem.lineno}, column {problem.colno}: {reason}, after {before!r} and before {after!r}"
    return f"{place}. {hint} and send the call again"


def _start_of(text: str) -> str:
    return repr(text[:200]) + ("…" if len(text) > 200 else "")
