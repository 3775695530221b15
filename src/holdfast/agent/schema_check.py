"""Schemas and answers are compared where they can do no harm.

The validator holds Python's lock while it works and cannot be interrupted, and a few lines of schema can keep it busy
for ever. So what is small for certain is compared in a thread, and everything else in a process that is killed when it
takes too long, or when the run is cancelled.
"""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec

from holdfast.agent.answer_schema import CheckedAnswer, Comparison, check_answer, check_schema
from holdfast.agent.schema_size import unfolded_size
from holdfast.errors import BadRequest
from holdfast.schema.base import encode
from holdfast.tools.process.limited_python import call_limited

SECONDS = 5.0
_MAX_WORK = 20_000_000
"""Schemas times characters that are compared in a thread: a fraction of a second."""


async def validate_schema(schema: dict[str, Any], *, field: str = "output_schema", seconds: float = SECONDS) -> None:
    """Raise `BadRequest` if the schema cannot be used."""
    if unfolded_size(schema) is not None:
        await asyncio.to_thread(check_schema, schema, field=field)
        return
    problem = await call_limited(
        "holdfast.agent.answer_schema:find_schema_problem", encode(schema), field, seconds=seconds
    )
    if problem is None:
        raise BadRequest(
            f"{field} is too complex: it cannot be read within {seconds:g} s; use fewer references and alternatives",
            detail={"field": field},
        )
    if problem:
        raise BadRequest(problem.decode(), detail={"field": field})


async def validate_answer(schema: dict[str, Any], text: str, *, seconds: float = SECONDS) -> CheckedAnswer:
    """Decode an answer and compare it with a schema."""
    size = unfolded_size(schema)
    if size is not None and size * (len(text) + 1) <= _MAX_WORK:
        return await asyncio.to_thread(check_answer, schema, text)
    data = encode(Comparison(schema, text))
    checked = await call_limited("holdfast.agent.answer_schema:compare_answer", data, seconds=seconds)
    if checked is None:
        return CheckedAnswer(problem=f"it cannot be compared with the schema within {seconds:g} s; it is too complex")
    return msgspec.json.decode(checked, type=CheckedAnswer)
