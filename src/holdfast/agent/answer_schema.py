"""The JSON Schema of a run's answer: whether the schema is valid, and whether an answer matches it.

Reading a schema and checking an answer may take a while, so callers do both in a thread. The library is imported only
when there is a schema. A schema cannot make it read files or addresses.
"""

from __future__ import annotations

import re
from typing import Any

import msgspec

from holdfast.errors import BadRequest
from holdfast.schema.base import MAX_DEPTH, Value, is_nested_deeper

_MAX_PROBLEMS = 5
_MAX_PROBLEM = 300
_FENCE = re.compile(r"\A```[a-z]*[ \t]*\n(?P<inside>.*?)\n?```\Z", re.DOTALL)


class CheckedAnswer(Value, frozen=True):
    """An answer that was compared with the schema."""

    value: Any = None
    """The answer as JSON, if it matches."""
    problem: str = ""
    """Why it does not match; empty if it does."""


def check_schema(schema: dict[str, Any], *, field: str = "output_schema") -> None:
    """Raise `BadRequest` if the schema cannot be used."""
    try:
        _validator(schema)
    except ValueError as error:
        raise BadRequest(
            f"{field} is not a valid JSON Schema: {_first_line(str(error))}", detail={"field": field}
        ) from None


def check_answer(schema: dict[str, Any], text: str) -> CheckedAnswer:
    """Decode an answer and compare it with a schema. A code fence around it is ignored."""
    inside = text.strip()
    if found := _FENCE.match(inside):
        inside = found["inside"]
    try:
        value = msgspec.json.decode(inside)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError) as error:
        return CheckedAnswer(problem=f"it is not JSON: {_first_line(str(error))}")
    if is_nested_deeper(value, MAX_DEPTH):
        return CheckedAnswer(problem=f"it is nested more than {MAX_DEPTH} levels deep")
    problems: list[str] = []
    for found_error in _validator(schema).iter_errors(value):
        if len(problems) == _MAX_PROBLEMS:
            problems.append("and more")
            break
        place = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in found_error.instance_path)
        problems.append(f"${place}: {_first_line(found_error.message)}")
    return CheckedAnswer(problem="; ".join(problems)) if problems else CheckedAnswer(value)


def _validator(schema: dict[str, Any]) -> Any:
    """Raises `ValueError` if the schema is invalid."""
    import jsonschema_rs

    return jsonschema_rs.validator_for(schema, retriever=_refuse_to_read)


def _refuse_to_read(address: str) -> Any:
    raise ValueError("a schema must be complete; references to other documents are not read")


def _first_line(text: str) -> str:
    line = text.partition("\n")[0]
    return line if len(line) <= _MAX_PROBLEM else line[: _MAX_PROBLEM - 1] + "…"
