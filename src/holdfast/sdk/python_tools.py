"""Tools written in Python: a function's signature and docstring become the description that the model gets."""

from __future__ import annotations

import asyncio
import inspect
import re
from collections.abc import Callable
from typing import Annotated, Any, get_type_hints

import msgspec
from msgspec import UNSET, Meta, UnsetType

from holdfast.errors import BadRequest
from holdfast.schema.approvals import Effect
from holdfast.schema.client_tools import ClientResult, ClientTool
from holdfast.sdk.structured_output import type_schema

_SECTION = re.compile(r"^(Args|Arguments|Parameters|Returns|Yields|Raises|Examples?|Notes?):\s*$")
_GOOGLE_ARGUMENT = re.compile(r"^\s+\*{0,2}(\w+)(?:\s*\([^)]*\))?:\s*(.*)$")
_SPHINX_ARGUMENT = re.compile(r"^\s*:param\s+(?:[^:]*\s)?(\w+):\s*(.*)$")


class PythonTool:
    """A function as a tool."""

    def __init__(
        self,
        function: Callable[..., Any],
        *,
        name: str | None = None,
        description: str | None = None,
        effect: Effect = "runs",
        parallel: bool = False,
        seconds: float = 600.0,
    ) -> None:
        self._function = function
        name = name or str(getattr(function, "__name__", ""))
        told, documented = read_docstring(inspect.getdoc(function) or "")
        self._arguments = _arguments_type(name, function, documented)
        self.definition = ClientTool(
            name=name,
            description=told if description is None else description,
            parameters=_without_titles(type_schema(self._arguments)),
            effect=effect,
            parallel=parallel,
            seconds=seconds,
        )

    async def run(self, arguments: dict[str, Any]) -> ClientResult:
        """Call the function, in a thread if it is not asynchronous. Its errors become error results."""
        try:
            given = msgspec.convert(arguments, self._arguments, strict=False)
        except msgspec.ValidationError as error:
            return ClientResult(f"invalid arguments: {error}", status="error")
        named = {name: getattr(given, name) for name in self._arguments.__struct_fields__}
        values = {name: value for name, value in named.items() if value is not UNSET}
        try:
            if inspect.iscoroutinefunction(self._function):
                returned = await self._function(**values)
            else:
                returned = await asyncio.to_thread(self._function, **values)
        except (Exception, SystemExit) as error:  # noqa: BLE001 - the model is told, and can go another way
            return ClientResult(f"{type(error).__name__}: {error}", status="error")
        return as_result(returned)


def as_result(returned: Any) -> ClientResult:
    """What a function returned, as the text that the model gets."""
    match returned:
        case ClientResult():
            return returned
        case str():
            return ClientResult(returned)
        case None:
            return ClientResult("done")
    try:
        return ClientResult(msgspec.json.encode(returned, enc_hook=_dump_model).decode())
    except (TypeError, ValueError):  # also msgspec's and pydantic's errors
        return ClientResult(str(returned))


def _dump_model(value: Any) -> Any:
    """A pydantic model as a value that has a JSON form."""
    if hasattr(value, "model_dump"):
        return value.model_dump(mode="json")
    raise TypeError


def read_docstring(doc: str) -> tuple[str, dict[str, str]]:
    """The text before the arguments, and the descriptions of arguments (Google's and Sphinx's style)."""
    told: list[str] = []
    arguments: dict[str, str] = {}
    section, latest = "", ""
    for line in doc.splitlines():
        if found := _SPHINX_ARGUMENT.match(line):
            section, latest = "Sphinx", found[1]
            arguments[latest] = found[2].strip()
        elif found := _SECTION.match(line):
            section, latest = found[1], ""
        elif section in ("Args", "Arguments", "Parameters") and (found := _GOOGLE_ARGUMENT.match(line)):
            latest = found[1]
            arguments[latest] = found[2].strip()
        elif section and latest and line.startswith(" ") and line.strip():
            arguments[latest] += f" {line.strip()}"
        elif not section:
            told.append(line)
        else:
            latest = ""
    return "\n".join(told).strip(), arguments


def _arguments_type(name: str, function: Callable[..., Any], documented: dict[str, str]) -> type[msgspec.Struct]:
    try:
        hints = get_type_hints(function, include_extras=True)
    except NameError as error:
        raise BadRequest(
            f"a type in the signature of {name!r} is not known: {error}; define it in the module"
        ) from None
    fields: list[tuple[str, Any] | tuple[str, Any, Any]] = []
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
            raise BadRequest(f"{name!r} must take its arguments by name, but {str(parameter)!r} cannot be given so")
        has_default = parameter.default is not parameter.empty
        more = {"default": parameter.default} if has_default and _is_plain(parameter.default) else None
        meta = Meta(description=documented.get(parameter.name), extra_json_schema=more)
        hint: Any = Annotated[hints.get(parameter.name, Any), meta]
        fields.append((parameter.name, hint | UnsetType, UNSET) if has_default else (parameter.name, hint))
    return msgspec.defstruct(name, fields, kw_only=True, forbid_unknown_fields=True)


def _is_plain(value: object) -> bool:
    return value is None or isinstance(value, str | int | float | bool)


def _without_titles(schema: dict[str, Any]) -> dict[str, Any]:
    """The name of the struct says nothing that the name of the tool does not."""
    return {key: value for key, value in schema.items() if key != "title"}
