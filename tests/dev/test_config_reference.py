"""docs/configuration.md has every setting, and its examples are valid."""

from __future__ import annotations

import os
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

from dev.config_reference import reference, reference_table
from holdfast.config import load_config
from holdfast.locations import Locations

_DOCS = Path(__file__).parents[2] / "docs" / "configuration.md"
_BEGIN, _END = "<!-- generated: keys -->\n", "<!-- end of generated -->"


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
