"""The JSON Schema of the configuration."""

from __future__ import annotations

import re
from typing import Any

from holdfast.config.config_schema import config_schema
from holdfast.config.setting_validation import decode


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
