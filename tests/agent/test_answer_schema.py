"""The answer of a run with a JSON Schema: compared, corrected once, and decoded for every client."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from holdfast.agent.answer_schema import check_answer, check_schema
from holdfast.errors import BadRequest
from holdfast.schema.messages import Notice
from holdfast.testing import Answer, Call, WireName, text
from tests.support.app_harness import open_app_harness
from tests.support.wire_server import asked, conversation, each_wire, model, script, server, spoken

SCHEMA = {
    "type": "object",
    "properties": {"files": {"type": "array", "items": {"type": "string"}}},
    "required": ["files"],
    "additionalProperties": False,
}
CORRECT = (
    "<reminder>\nYour answer does not match the JSON Schema that it must have: $.files[1]: 2 is not of type "
    f'"string". Answer again, with nothing but one JSON value that matches this schema: '
    f"{json.dumps(SCHEMA, separators=(',', ':'))}\n</reminder>"
)


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        ("Sure!", "it is not JSON: JSON is malformed: invalid character (byte 0)"),
        ("", "it is not JSON: Input data was truncated"),
        ('{"files": "a"}', '$.files: "a" is not of type "array"'),
        ("{}", '$: "files" is a required property'),
        ("[" * 100 + "]" * 100, "it is nested more than 64 levels deep"),
        ("[" * 100_000 + "]" * 100_000, "it is not JSON: maximum recursion depth exceeded"),
    ],
)
def test_an_answer_that_does_not_match_says_where(answer: str, problem: str) -> None:
    assert check_answer(SCHEMA, answer).problem.startswith(problem)


def test_formats_count() -> None:
    """Otherwise a wrong date would match the schema, and not be corrected."""
    schema = {"type": "string", "format": "date"}
    assert check_answer(schema, '"2026-02-28"').value == "2026-02-28"
    assert check_answer(schema, '"2026-02-30"').problem == '$: "2026-02-30" is not a "date"'
    assert check_answer({"format": "a-format-of-mine"}, '"x"').problem == ""


@pytest.mark.parametrize("answer", ['{"files": ["a"]}', ' {"files":["a"]}\n', '```json\n{"files": ["a"]}\n```'])
def test_an_answer_that_matches_is_decoded_also_in_a_code_fence(answer: str) -> None:
    checked = check_answer(SCHEMA, answer)
    assert (checked.value, checked.problem) == ({"files": ["a"]}, "")


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        ({"type": "nonsense"}, "is not valid"),
        ({"$ref": "http://127.0.0.1:9/schema"}, "references to other documents are not read"),
        ({"$ref": "file:///etc/passwd"}, "references to other documents are not read"),
        ({"properties": {"a": {"pattern": "("}}}, "is not a"),
    ],
)
async def test_a_schema_that_cannot_be_used_is_refused(tmp_path: Path, schema: dict[str, object], message: str) -> None:
    with pytest.raises(BadRequest, match=message):
        check_schema(schema)
    async with open_app_harness(tmp_path) as harness:
        with pytest.raises(BadRequest, match="output_schema is not a valid JSON Schema"):
            await harness.start("go", output_schema=schema)


@each_wire
async def test_a_wrong_answer_is_corrected_once(tmp_path: Path, wire: WireName) -> None:
    async with server(tmp_path, wire) as (harness, provider):
        wrong = '{"files": ["a", 2]}'
        script(provider, Answer((Call("ls", {}),)), text(wrong), text('{"files": ["a", "b"]}'))
        run = await harness.run("list", model=model(wire), output_schema=SCHEMA)
        assert (run.state, run.steps, run.text) == ("completed", 3, '{"files": ["a", "b"]}')
        assert run.output == {"files": ["a", "b"]}
        assert conversation((await asked(provider, 3))[2])[-2:] == spoken(wire, ("assistant", wrong), ("user", CORRECT))
        messages = await harness.messages(run.session_id)
        notices = [part.code for message in messages for part in message.parts if isinstance(part, Notice)]
        assert notices == ["output_schema"]


async def test_an_answer_that_stays_wrong_fails_with_the_reason(tmp_path: Path) -> None:
    async with server(tmp_path, "anthropic") as (harness, provider):
        script(provider, text("Sure!"), text('{"files": 1}'))
        run = await harness.run("list", model=model("anthropic"), output_schema=SCHEMA)
        assert (run.state, run.reason, run.text, run.output) == ("failed", "output_schema", '{"files": 1}', None)
        assert run.error is not None
        assert run.error.message == 'the answer does not match the schema: $.files: 1 is not of type "array"'
        assert len(await asked(provider, 2)) == 2


async def test_a_cut_answer_is_joined_before_it_is_compared(tmp_path: Path) -> None:
    async with server(tmp_path, "anthropic") as (harness, provider):
        script(provider, text('{"files": ', finish="max_tokens"), text('["a"]}'))
        run = await harness.run("list", model=model("anthropic"), output_schema=SCHEMA)
        assert (run.state, run.output) == ("completed", {"files": ["a"]})


def test_the_library_is_imported_only_for_a_schema() -> None:
    code = "import sys, holdfast.app; sys.exit('jsonschema_rs' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
