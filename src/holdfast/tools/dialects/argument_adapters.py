"""Adapts the arguments of foreign calls to our tools: one adapter for each tool that needs more than new names.

Pure. An adapter gets a call whose arguments already have our names, as far as the tables know them.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Collection, Mapping
from typing import Any

from holdfast.errors import ToolError
from holdfast.tools.dialects import foreign_names as names
from holdfast.tools.dialects.argument_decoding import embedded_json
from holdfast.tools.dialects.foreign_names import ArgumentNames, plain_name
from holdfast.tools.dialects.search_blocks import parse_search_blocks
from holdfast.tools.dialects.shell_calls import join_command, patch_in_command, with_directory

_URL = re.compile(r"https?://[^\s<>\"')\]]+")
_CHECKLIST = re.compile(r"^\s*(?:[-*] )?\[([ xX>-])\] +(.+?)\s*$", re.MULTILINE)
_SURELY_MILLISECONDS = 10_000
"""A time-out of this many seconds or more means milliseconds."""
_FOREIGN_MILLISECONDS = 1_000
"""The same, for a call that is in a foreign dialect anyway."""
_POLL_SECONDS = 30
_TITLE_CHARS = 60


class ForeignCall:
    """A call whose arguments have our names. Adapters change it further."""

    def __init__(self, name: str, given: Mapping[str, Any], known: Collection[str], *, is_foreign: bool) -> None:
        self.name = name
        self.arguments, self.renamed = rename_keys(given, names.ARGUMENTS[name], known)
        self.is_foreign = is_foreign or self.renamed
        self.notes: list[str] = []

    def take(self, key: str) -> Any:
        """Remove and return an argument; None if it is missing."""
        return self.arguments.pop(key, None)

    def items(self, key: str) -> list[Any] | None:
        """Return an argument as a list. Text is read as JSON, and one item counts as a list."""
        value = embedded_json(self.arguments.get(key))
        if value is None or isinstance(value, str | int | float):
            return None
        return value if isinstance(value, list) else [value]


def rename_keys(given: Mapping[str, Any], table: ArgumentNames, known: Collection[str]) -> tuple[dict[str, Any], bool]:
    """Return the arguments with our names, and whether one had a foreign name. Our own names win over foreign ones."""
    plain_known = {plain_name(name): name for name in known}
    done = {key: value for key, value in given.items() if key in known}
    foreign = False
    for key, value in given.items():
        if key in known:
            continue
        plain = plain_name(key)
        foreign = True
        own = plain_known.get(plain) or table.renamed.get(plain) or (plain if plain in table.renamed.values() else key)
        if own == key and plain in table.ignored:
            continue
        if own in done and own == "context":
            done[own] = max(done[own], value, key=number_in)
        elif own in done:
            done.setdefault(key, value)
        else:
            done[own] = value
    return done, foreign


def number_in(value: Any) -> float:
    """Return a number, also one in a text; 0 for anything else."""
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        return 0.0
    return number if math.isfinite(number) else 0.0


def _drop_below(call: ForeignCall, key: str, least: float) -> None:
    """Remove a number that is too small: it means "from the start" or "without limit", as our defaults do."""
    value = call.arguments.get(key)
    if isinstance(value, int | float | str) and not isinstance(value, bool):
        try:
            small = float(value) < least
        except ValueError:
            return
        if small:
            del call.arguments[key]


def _is_true(value: Any) -> bool:
    return value.strip().lower() in ("true", "1", "yes") if isinstance(value, str) else bool(value)


def _adapt_view(call: ForeignCall) -> None:
    end, span = call.take("end"), embedded_json(call.take("range"))
    if isinstance(span, list) and len(span) == 2:
        call.arguments["offset"], end = span
    if call.arguments.get("offset") in (0, "0"):
        del call.arguments["offset"]
    _drop_below(call, "limit", 1)
    if end is not None and "limit" not in call.arguments and number_in(end) > 0:
        first = int(number_in(call.arguments.get("offset", 1)) or 1)
        call.arguments["limit"] = max(1, int(number_in(end)) - first + 1)


def _adapt_edit(call: ForeignCall) -> None:
    count, blocks = call.take("count"), call.take("blocks")
    if count is not None and number_in(count) > 1:
        call.arguments.setdefault("replace_all", True)
    if isinstance(blocks, str):
        if (edits := parse_search_blocks(blocks)) is None:
            raise ToolError(
                "edit needs the old and the new text: pass old_text and new_text, or blocks of '<<<<<<< SEARCH', "
                "'=======' and '>>>>>>> REPLACE'"
            )
        call.name, call.arguments = "multiedit", {"path": call.arguments.get("path"), "edits": edits}
    elif edits := call.items("edits"):
        call.name = "multiedit"
        _adapt_multiedit(call)


def _adapt_multiedit(call: ForeignCall) -> None:
    edits = call.items("edits")
    if edits is None:
        return
    known = ("old_text", "new_text", "replace_all", "path")
    renamed = [rename_keys(edit, names.EDIT_ITEM, known)[0] if isinstance(edit, dict) else edit for edit in edits]
    for edit in renamed:
        if isinstance(edit, dict):
            own = edit.pop("path", None) or next(
                (edit.pop(key) for key in ("file_path", "filePath") if key in edit), None
            )
            if own is not None and call.arguments.setdefault("path", own) != own:
                raise ToolError(
                    "multiedit changes one file; use one call for each file, or apply_patch for all of them"
                )
    call.arguments["edits"] = renamed


def _adapt_write(call: ForeignCall) -> None:
    if str(call.take("mode") or "").lower() in ("append", "a"):
        raise ToolError("write replaces the whole content; to append, use edit on the last lines, or apply_patch")
    content = call.arguments.get("content")
    if isinstance(content, dict | list):
        is_lines = isinstance(content, list) and content and all(isinstance(line, str) for line in content)
        text = "\n".join(map(str, content)) if is_lines else json.dumps(content, indent=2, ensure_ascii=False)
        call.arguments["content"] = f"{text}\n"
        kind = "a list of lines" if is_lines else "JSON"
        call.notes.append(f"content was not a text; it was written as {kind}")


def _adapt_bash(call: ForeignCall) -> None:
    arguments = call.arguments
    if "command" not in arguments and _is_true(arguments.get("restart")):
        raise ToolError("each call of bash is a new shell, so there is nothing to restart; call it with a command")
    directory = call.take("directory")
    arguments.pop("restart", None)
    if "command" in arguments:
        arguments["command"] = join_command(_command_list(arguments["command"]))
    _adapt_timeout(call)
    if (elevate := call.take("elevate")) and (elevate == "require_escalated" or _is_true(elevate)):
        arguments.setdefault("escalate", "unconfined")
    command = arguments.get("command")
    if not isinstance(command, str):
        return
    if isinstance(directory, str) and directory.strip() not in ("", ".", "./"):
        command = arguments["command"] = with_directory(command, directory.strip())
    if (patch := patch_in_command(command)) is not None:
        call.name, call.arguments = "apply_patch", {"patch": patch}
        call.notes.append("the patch was applied with the tool apply_patch; call it directly")


def _command_list(value: Any) -> Any:
    """A command as a JSON list in a text. A bash test ``[ -f x ]`` is not one."""
    if isinstance(value, str) and value.startswith('["') and value.endswith('"]'):
        return embedded_json(value)
    return value


def _adapt_timeout(call: ForeignCall) -> None:
    if (milliseconds := call.take("timeout_ms")) is not None:
        call.arguments.setdefault(
            "timeout", max(1.0, number_in(milliseconds) / 1_000) if number_in(milliseconds) > 0 else 0
        )
        return
    limit = _FOREIGN_MILLISECONDS if call.is_foreign else _SURELY_MILLISECONDS
    given = number_in(call.arguments.get("timeout"))
    if given >= limit:
        call.arguments["timeout"] = given / 1_000
        call.notes.append(f"timeout {given:g} was read as milliseconds ({given / 1_000:g} s); pass seconds")


def _adapt_job_output(call: ForeignCall) -> None:
    block, milliseconds = call.take("block"), call.take("wait_ms")
    wait = call.arguments.get("wait")
    if milliseconds is not None:
        call.arguments["wait"] = number_in(milliseconds) / 1_000
    elif isinstance(wait, bool) or wait in ("true", "false"):
        call.arguments["wait"] = _POLL_SECONDS if _is_true(wait) else 0
    elif wait is not None and number_in(wait) >= _FOREIGN_MILLISECONDS:
        call.arguments["wait"] = number_in(wait) / 1_000
    if block is not None:
        call.arguments["wait"] = call.arguments.get("wait", _POLL_SECONDS) if _is_true(block) else 0


def _adapt_grep(call: ForeignCall) -> None:
    arguments = call.arguments
    if (sensitive := call.take("case_sensitive")) is not None:
        arguments.setdefault("ignore_case", not _is_true(sensitive))
    if (is_regex := call.take("is_regex")) is not None:
        arguments.setdefault("literal", not _is_true(is_regex))
    if isinstance(arguments.get("output"), str):
        arguments["output"] = names.OUTPUTS.get(plain_name(arguments["output"]), arguments["output"])
    _drop_below(call, "limit", 1)
    if isinstance(kind := call.take("type"), str) and "include" not in arguments:
        known = names.FILE_TYPES.get(kind.lower())
        arguments["include"] = known or f"*.{kind.lstrip('.*')}"
    if arguments.get("include") in ("", "*", "**", "**/*"):
        del arguments["include"]
    _single_path(call)


def _single_path(call: ForeignCall) -> None:
    paths = embedded_json(call.arguments.get("path"))
    if isinstance(paths, list) and len(paths) == 1:
        call.arguments["path"] = paths[0]
    if call.arguments.get("path") == "":
        del call.arguments["path"]


def _adapt_glob(call: ForeignCall) -> None:
    _single_path(call)
    _drop_below(call, "limit", 1)


def _adapt_ls(call: ForeignCall) -> None:
    _single_path(call)
    recursive = call.take("recursive")
    if recursive is not None:
        call.arguments.setdefault("depth", 5 if _is_true(recursive) else 1)


def _adapt_fetch(call: ForeignCall) -> None:
    arguments = call.arguments
    url = embedded_json(arguments.get("url"))
    if isinstance(url, list) and len(url) == 1:
        arguments["url"] = url[0]
    prompt = call.take("prompt")
    if isinstance(prompt, str):
        if "url" not in arguments and (found := _URL.search(prompt)):
            arguments["url"] = found[0].rstrip(".,;")
        call.notes.append("fetch returns the page itself and does not answer a prompt")
    if isinstance(arguments.get("format"), str):
        arguments["format"] = {"md": "markdown", "plain": "text", "txt": "text"}.get(
            arguments["format"], arguments["format"]
        )


def _adapt_todos(call: ForeignCall) -> None:
    given = call.arguments.get("todos")
    if isinstance(given, str) and (listed := _CHECKLIST.findall(given)):
        marks = {"x": "completed", "X": "completed", "-": "in_progress", ">": "in_progress"}
        call.arguments["todos"] = [{"text": text, "status": marks.get(mark, "pending")} for mark, text in listed]
    todos = call.items("todos")
    if todos is None:
        return
    done = []
    for todo in todos:
        item = {"text": todo} if isinstance(todo, str) else todo
        if isinstance(item, dict):
            item, _ = rename_keys(item, names.TODO_ITEM, ("text", "status"))
            status = plain_name(str(item.get("status", "pending")))
            if status in names.DROPPED_STATES:
                call.notes.append(f"the task {item.get('text')!r} is {item['status']}; it was left out")
                continue
            item["status"] = names.TODO_STATES.get(status, item.get("status", "pending"))
            item = {key: value for key, value in item.items() if plain_name(key) not in names.TODO_ITEM.renamed}
        done.append(item)
    call.arguments["todos"] = done


def _adapt_agent(call: ForeignCall) -> None:
    arguments = call.arguments
    if "prompt" not in arguments and isinstance(arguments.get("title"), str) and len(arguments["title"]) > _TITLE_CHARS:
        arguments["prompt"] = arguments["title"]
    prompt = arguments.get("prompt")
    title = arguments.get("title") or (prompt if isinstance(prompt, str) else None)
    if isinstance(title, str) and title.strip():
        first = title.strip().splitlines()[0]
        arguments["title"] = first if len(first) <= 200 else f"{first[:_TITLE_CHARS]}…"


def _adapt_ask(call: ForeignCall) -> None:
    arguments = call.arguments
    if "questions" not in arguments and isinstance(arguments.get("question"), str):
        arguments["questions"] = [{"text": call.take("question")}]
        if (options := call.take("options")) is not None:
            arguments["questions"][0]["options"] = options
    questions = call.items("questions")
    if questions is None:
        return
    done = []
    for question in questions:
        item = {"text": question} if isinstance(question, str) else question
        if isinstance(item, dict):
            item, _ = rename_keys(item, names.QUESTION_ITEM, ("text", "kind", "options"))
            options = embedded_json(item.get("options"))
            if isinstance(options, list):
                item["options"] = [_option_text(option) for option in options]
            multiple = item.pop("multiple", None)
            if "kind" not in item and item.get("options"):
                item["kind"] = "multiple" if multiple is not None and _is_true(multiple) else "single"
        done.append(item)
    arguments["questions"] = done


def _option_text(option: Any) -> Any:
    if not isinstance(option, dict):
        return option
    label = next((option[key] for key in ("label", "text", "value", "title", "name") if key in option), None)
    description = option.get("description")
    return f"{label}: {description}" if label and description else label or description


ADAPTERS: Mapping[str, Callable[[ForeignCall], None]] = {
    "view": _adapt_view,
    "edit": _adapt_edit,
    "multiedit": _adapt_multiedit,
    "write": _adapt_write,
    "bash": _adapt_bash,
    "job_output": _adapt_job_output,
    "grep": _adapt_grep,
    "glob": _adapt_glob,
    "ls": _adapt_ls,
    "fetch": _adapt_fetch,
    "todos": _adapt_todos,
    "agent": _adapt_agent,
    "ask": _adapt_ask,
}
