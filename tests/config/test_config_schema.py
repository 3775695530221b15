"""The configuration described from its types, and the documentation that follows from it."""

from __future__ import annotations

import os
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

from holdfast.config import load_config
from holdfast.config.config_schema import config_schema, reference, reference_table
from holdfast.config.setting_validation import decode
from holdfast.locations import Locations

_DOCS = Path(__file__).parents[2] / "docs" / "configuration.md"
_BEGIN, _END = "<!-- generated: keys -->\n", "<!-- end of generated -->"


def test_the_schema_describes_every_key_and_forbids_all_others() -> None:
    schema = config_schema()
    for table in (schema, *schema["$defs"].values()):
        assert table["additionalProperties"] is False
        assert table["description"]
        if table is not schema:
            assert all(field["description"] for field in table["properties"].values())
    limits = schema["$defs"]["LimitSettings"]["properties"]
    assert limits["max_steps"] == {
        "type": "integer",
        "minimum": 1,
        "default": 200,
        "description": "Maximum model requests of one run.",
    }
    assert limits["first_token"]["default"] == "2m"
    assert schema["$defs"]["ApprovalSettings"]["properties"]["mode"]["enum"] == ["accept_edits", "ask", "auto", "plan"]
    assert schema["$defs"]["LongPrice"]["required"] == ["above"]


def test_every_reference_of_the_schema_is_defined() -> None:
    schema = config_schema()
    found = set(re.findall(r"'\$ref': '#/\$defs/(\w+)'", repr(schema)))
    assert found == schema["$defs"].keys()


def test_the_defaults_of_the_schema_are_valid_settings() -> None:
    defaults = {
        name: {key: field["default"] for key, field in table_of(field)["properties"].items() if "default" in field}
        for name, field in config_schema()["properties"].items()
        if "$ref" in field
    }
    assert decode(defaults)[1] == []


def table_of(field: dict[str, Any]) -> dict[str, Any]:
    return config_schema()["$defs"][field["$ref"].rpartition("/")[2]]


def test_the_documentation_has_every_key() -> None:
    text = _DOCS.read_text()
    before, begin, rest = text.partition(_BEGIN)
    _, end, after = rest.partition(_END)
    assert begin
    assert end
    wanted = f"{before}{_BEGIN}\n{reference_table()}\n{_END}{after}"
    if os.environ.get("HOLDFAST_TEST_UPDATE"):
        _DOCS.write_text(wanted)
    assert text == wanted, "docs/configuration.md is stale: run this test with HOLDFAST_TEST_UPDATE=1"
    assert all(f"`{row.key}`" in text and row.description for row in reference())


def test_the_examples_in_the_documentation_are_valid(holdfast_home: Path, tmp_path: Path) -> None:
    locations = Locations.from_env({"HOLDFAST_HOME": str(holdfast_home)})
    locations.prepare()
    examples = re.findall(r"```toml\n(.*?)```", _DOCS.read_text(), flags=re.DOTALL)
    assert len(examples) >= 2
    for example in examples:
        tomllib.loads(example)
        locations.config_file.write_text(example)
        load_config(locations, env={})


@pytest.mark.parametrize("row", reference(), ids=lambda row: row.key)
def test_every_key_of_the_reference_can_be_looked_up(row: Any) -> None:
    assert row.kind
    assert row.description.endswith(".") or "`" in row.description
