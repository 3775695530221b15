"""Translates a call in the dialect of another agent into a call of one of our tools. Pure.

The tables are in `foreign_names`; `argument_adapters` has what needs more than a new name. A call in our own dialect
passes through unchanged.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import msgspec

from holdfast.errors import ToolError
from holdfast.tools.dialects import foreign_names as names
from holdfast.tools.dialects.argument_adapters import ADAPTERS, ForeignCall, number_in, rename_keys
from holdfast.tools.dialects.foreign_names import plain_name

_PREFIXES = ("functions.", "functions:", "tools.", "default_api.", "default_api:", "builtin.", "developer__")
_WRAPPERS = ("arguments", "parameters", "args", "params", "input", "kwargs")


class TranslatedCall(msgspec.Struct, frozen=True):
    name: str
    arguments: Mapping[str, Any]
    notes: tuple[str, ...] = ()
    """What the model must know about the translation."""


def translate_call(name: str, arguments: Mapping[str, Any], *, fields: Mapping[str, Collection[str]]) -> TranslatedCall:
    """Return the call of one of our tools.

    ``fields`` are the known arguments by tool. A name without counterpart is returned as it is.
    """
    own = own_name(name, fields)
    plain = plain_name(_without_decoration(name))
    if plain in names.EDITORS and own not in fields:
        return _translate_editor_call(arguments, fields)
    if plain in names.DELETERS and own not in fields:
        return _delete(arguments)
    known = fields.get(own)
    if known is None or own not in names.ARGUMENTS:
        return TranslatedCall(own, arguments)
    arguments = _unwrapped(arguments, known)
    if own == name and own not in ADAPTERS and arguments.keys() <= set(known):
        return TranslatedCall(own, arguments)
    call = ForeignCall(own, arguments, known, is_foreign=own != name)
    if adapt := ADAPTERS.get(own):
        adapt(call)  # it may find that another tool is meant
    return TranslatedCall(call.name, call.arguments, tuple(call.notes))


def own_name(name: str, known: Collection[str]) -> str:
    """Return our name of a tool, or the name itself if there is none."""
    if name in known:
        return name
    bare = _without_decoration(name)
    if bare in known:
        return bare
    plain = plain_name(bare)
    return names.TOOLS.get(plain) or next((own for own in known if plain_name(own) == plain), name)


def advice_for(name: str) -> str | None:
    """Return what to do instead of a foreign tool that has no counterpart."""
    return names.ADVICE.get(plain_name(_without_decoration(name)))


def own_agent(name: str, known: Collection[str]) -> str:
    """Return our name of a kind of sub-agent, or the name itself if there is none."""
    if name in known:
        return name
    plain = plain_name(name)
    own = names.AGENTS.get(plain, "")
    return own if own in known else next((agent for agent in known if plain_name(agent) == plain), name)


def raw_arguments(name: str, text: str) -> dict[str, Any] | None:
    """Return the arguments of a call whose argument is plain text instead of JSON, as some models send patches."""
    if names.TOOLS.get(plain_name(_without_decoration(name))) == "apply_patch" and "*** Begin Patch" in text[:200]:
        return {"patch": text} if text.lstrip().startswith("***") else None
    return None


def _without_decoration(name: str) -> str:
    """Remove the marks that models of some families leave around names."""
    name = name.partition("<|")[0].strip()
    return next((name[len(prefix) :] for prefix in _PREFIXES if name.startswith(prefix)), name)


def _unwrapped(arguments: Mapping[str, Any], known: Collection[str]) -> Mapping[str, Any]:
    """Return the inner arguments of a call whose only argument holds them all."""
    if len(arguments) == 1:
        ((key, inner),) = arguments.items()
        if key in _WRAPPERS and key not in known and isinstance(inner, dict):
            return inner
    return arguments


def _translate_editor_call(arguments: Mapping[str, Any], fields: Mapping[str, Collection[str]]) -> TranslatedCall:
    """Translate a call of an editor tool, which does what its argument ``command`` says."""
    given = dict(arguments)
    command = str(given.pop("command", ""))
    path = given.get("path") or given.get("file_path") or ""
    match command:
        case "view":
            return translate_call(
                "read", _without(given, "file_text", "old_str", "new_str", "insert_line"), fields=fields
            )
        case "create" | "write":
            return translate_call(
                "write_file", _without(given, "old_str", "new_str", "insert_line", "view_range"), fields=fields
            )
        case "str_replace":
            given.setdefault("new_str", "")  # it may be left out to delete the text
            return translate_call(
                "str_replace", _without(given, "file_text", "insert_line", "view_range"), fields=fields
            )
        case "insert":
            text = given.get("insert_text", given.get("new_str", given.get("insert_content")))
            return _insert(str(path), number_in(given.get("insert_line")), str(text or ""))
        case "undo_edit":
            raise ToolError("undo_edit does not exist; edit the text back, or ask the user to run 'holdfast undo'")
    raise ToolError(f"the editor command {command!r} does not exist; call view, write, edit or apply_patch instead")


def _without(arguments: Mapping[str, Any], *keys: str) -> dict[str, Any]:
    """Leave out arguments of other commands, which some models fill with null or empty text."""
    return {key: value for key, value in arguments.items() if value not in (None, "") or key not in keys}


def _insert(path: str, line: float, text: str) -> TranslatedCall:
    """Insert after a line, as a hunk that only adds lines."""
    if not path or not text:
        raise ToolError("insert needs a path, a line number and a text; or use edit")
    lines = text.removesuffix("\n").split("\n")
    head = f"--- a/{path}\n+++ b/{path}\n@@ -{int(line)},0 +{int(line) + 1},{len(lines)} @@\n"
    return TranslatedCall("apply_patch", {"patch": head + "".join(f"+{row}\n" for row in lines)})


def _delete(arguments: Mapping[str, Any]) -> TranslatedCall:
    found, _ = rename_keys(arguments, names.ARGUMENTS["view"], ("path",))
    path = found.get("path")
    if not isinstance(path, str) or not path.strip():
        raise ToolError("name the file to delete: {'path': …}")
    return TranslatedCall("apply_patch", {"patch": f"*** Begin Patch\n*** Delete File: {path}\n*** End Patch\n"})
