"""Fills in the text of a command: arguments, files and shell commands. Pure.

Only the text of the command itself is read for files and shell commands, never the arguments: a pipe may bring them.
Arguments in a shell command are quoted.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from functools import cached_property

from holdfast.schema.commands import CommandOutput, FileMention, PromptPiece, ResourceMention

_PLACEHOLDER = r"\$ARGUMENTS\b|\$[1-9]\d?\b"
_NAMED = r"\$[A-Z][A-Z0-9_]*\b"
_PATH = r"[\w.~/-](?:[\w./~+-]|\$(?:ARGUMENTS\b|[1-9]))*|\$(?:ARGUMENTS\b|[1-9]\d?\b)"
_RESOURCE = r"(?P<server>[\w.-]+):(?P<uri>[A-Za-z][A-Za-z0-9+.-]*:[^\s`]+)"
_PIECES = re.compile(
    rf"(?<![\w`\\])!`(?P<command>[^`\n]+)`|(?<![\w@`/\\])@(?:{_RESOURCE}|(?P<path>{_PATH}))"
    rf"|(?P<placeholder>{_PLACEHOLDER})"
)


class CommandArguments:
    """The arguments of one call of a command."""

    def __init__(self, typed: str, *, names: tuple[str, ...] = ()) -> None:
        """``names`` are the arguments that have names, in their order."""
        self.typed = typed.strip()
        self._names = names

    @cached_property
    def _words(self) -> list[str]:
        try:
            return shlex.split(self.typed)
        except ValueError:  # a quotation mark in plain text
            return self.typed.split()

    @cached_property
    def _named(self) -> dict[str, str]:
        given = [word.partition("=") for word in self._words]
        named = {name: value for name, sign, value in given if sign and name in self._names}
        unnamed = iter(word for word in self._words if word.partition("=")[0] not in named)
        return {name: named.get(name, "") or next(unnamed, "") for name in self._names}

    def value(self, placeholder: str) -> str:
        name = placeholder[1:]
        if name == "ARGUMENTS":
            return self.typed
        if name.isdigit():
            return self._words[int(name) - 1] if int(name) <= len(self._words) else ""
        return self._named.get(name, placeholder)

    def quoted(self, placeholder: str) -> str:
        """The value as words of a shell command."""
        if placeholder == "$ARGUMENTS":
            return shlex.join(self._words)
        value = self.value(placeholder)
        return shlex.quote(value) if value else ""


def fill_template(template: str, typed: str, *, names_arguments: bool = False) -> tuple[PromptPiece, ...]:
    """Return the pieces of the prompt. Arguments for which there is no place are added at the end.

    ``names_arguments``: whether ``$NAME`` stands for an argument too, in the order in which the names appear.
    """
    reserved = ("$ARGUMENTS",)
    names = [name for name in re.findall(_NAMED, template) if name not in reserved] if names_arguments else []
    arguments = CommandArguments(typed, names=tuple(dict.fromkeys(name[1:] for name in names)))
    has_place = bool(names) or re.search(_PLACEHOLDER, template) is not None
    pieces = list(_pieces(template, arguments, named=bool(names)))
    if arguments.typed and not has_place:
        pieces.append(f"\n\n{arguments.typed}")
    return tuple(pieces)


def _pieces(template: str, arguments: CommandArguments, *, named: bool) -> Iterator[PromptPiece]:
    position = 0
    for found in _PIECES.finditer(template):
        yield _fill(template[position : found.start()], arguments, named=named)
        position = found.end()
        if command := found["command"]:
            yield CommandOutput(_fill(command, arguments, named=named, is_shell=True).strip())
        elif uri := found["uri"]:
            kept = uri.rstrip(".,;:!?)]}\"'>")
            yield ResourceMention(found["server"], _fill(kept, arguments, named=named))
            position -= len(uri) - len(kept)
        elif path := found["path"]:
            kept = path.rstrip(".,;:")
            yield FileMention(_fill(kept, arguments, named=named))
            position -= len(path) - len(kept)
        else:
            yield arguments.value(found["placeholder"])
    yield _fill(template[position:], arguments, named=named)


def _fill(text: str, arguments: CommandArguments, *, named: bool, is_shell: bool = False) -> str:
    pattern = rf"{_PLACEHOLDER}|{_NAMED}" if named else _PLACEHOLDER
    return re.sub(pattern, lambda found: (arguments.quoted if is_shell else arguments.value)(found[0]), text)
