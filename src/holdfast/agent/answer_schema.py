"""The JSON Schema of a run's answer: whether the schema is valid, and whether an answer matches it.

Both may take long; `schema_check` decides where they are done. The library is imported only when there is a schema. A
schema cannot make it read files or addresses.
"""

from __future__ import annotations

import re
from typing import Any

import msgspec

from holdfast.errors import BadRequest
from holdfast.schema.base import MAX_DEPTH, Value, encode, is_nested_deeper

_MAX_PROBLEMS = 5
_MAX_PROBLEM = 300
_FENCE = re.compile(r"\A```[a-z]*[ \t]*\n(?P<inside>.*?)\n?```\Z", re.DOTALL)


class CheckedAnswer(Value, frozen=True):
    """An answer that was compared with the schema."""

    value: Any = None
    """The answer as JSON, if it matches."""
    problem: str = ""
    """Why it does not match; empty if it does."""


class Comparison(Value, frozen=True):
    """An answer that is to be compared with a schema."""

    output_schema: dict[str, Any]
    text: str


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


def find_schema_problem(data: bytes, field: str) -> bytes:
    """Why an encoded schema cannot be used; empty if it can. For a process that can be killed."""
    try:
        check_schema(msgspec.json.decode(data), field=field)
    except BadRequest as error:
        return error.message.encode()
    return b""


def compare_answer(data: bytes) -> bytes:
    """Compare what an encoded `Comparison` has. For a process that can be killed."""
    given = msgspec.json.decode(data, type=Comparison)
    return encode(check_answer(given.output_schema, given.text))


def _validator(schema: dict[str, Any]) -> Any:
    """Raises `ValueError` if the schema is invalid."""
    import jsonschema_rs

    return jsonschema_rs.validator_for(schema, retriever=_refuse_to_read, validate_formats=True)


def _refuse_to_read(address: str) -> Any:
    raise ValueError("a schema must be complete; references to other documents are not read")


def _first_line(text: str) -> str:
    line = text.partition("\n")[0]
    return line if len(line) <= _MAX_PROBLEM else line[: _MAX_PROBLEM - 1] + "…"
