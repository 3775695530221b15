"""Foreign calls mean what their agent means, our own calls stay as they are, and ambiguous ones are refused."""

from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.errors import ToolError
from holdfast.models.model_script import ScriptedCall
from holdfast.schema.messages import ToolResult
from holdfast.tools.dialects.argument_decoding import field_names
from holdfast.tools.dialects.call_translation import own_agent, own_name, translate_call
from holdfast.tools.dialects.foreign_names import ADVICE, ARGUMENTS, TOOLS, plain_name
from holdfast.tools.process.command_process import CommandLauncher
from holdfast.tools.registry import ToolRegistry
from tests.support.app_harness import open_app_harness, saying

REGISTRY = ToolRegistry(CommandLauncher())
FIELDS = {name: field_names(REGISTRY.get(name).arguments) for name in REGISTRY.names}


def test_every_built_in_tool_has_a_row_and_all_names_in_the_tables_are_plain() -> None:
    assert set(ARGUMENTS) == set(FIELDS)
    assert set(TOOLS.values()) == set(FIELDS)
    every = [*TOOLS, *ADVICE, *(key for table in ARGUMENTS.values() for key in (*table.renamed, *table.ignored))]
    assert [name for name in every if plain_name(name) != name] == []
    assert not set(TOOLS) & set(ADVICE)


@pytest.mark.parametrize("name", [name for name in FIELDS if name not in ("bash", "todos")])
def test_no_own_argument_of_a_tool_is_taken_for_a_foreign_one(name: str) -> None:
    assert not {plain_name(own) for own in FIELDS[name]} & ARGUMENTS[name].ignored
    given_arguments = dict.fromkeys(FIELDS[name], 5)
    assert {*translate_call(name, given_arguments, fields=FIELDS).arguments} == {*given_arguments}


def test_a_tool_of_an_extension_wins_over_a_foreign_name_of_ours() -> None:
    fields = {**FIELDS, "read_file": ()}
    call = translate_call("read_file", {"file_path": "a"}, fields=fields)
    assert (call.name, call.arguments) == ("read_file", {"file_path": "a"})
    assert own_name("Read_File", FIELDS) == "view"
    assert own_name("mcp_docs_search", {**FIELDS, "mcp_docs_search": ()}) == "mcp_docs_search"


def test_our_own_arguments_win_over_foreign_ones() -> None:
    call = translate_call("view", {"path": "a", "file_path": "b"}, fields=FIELDS)
    assert call.arguments == {"path": "a", "file_path": "b"}  # the second one is ignored with a note


@pytest.mark.parametrize(
    ("given_arguments", "seconds"),
    [
        ({"timeout": 600}, 600),
        ({"timeout": 7_200}, 7_200),
        ({"timeout": 120_000}, 120),
        ({"timeout": 600, "description": "x"}, 600),
        ({"timeout": 5_000, "description": "x"}, 5),
        ({"timeout_ms": 500}, 1),
        ({"timeoutMs": 90_000}, 90),
        ({"timeout": "60000"}, 60),
        ({"timeout": 0}, 0),
    ],
)
def test_time_outs_in_milliseconds_are_understood(given_arguments: dict[str, Any], seconds: float) -> None:
    call = translate_call("bash", {"command": "x", **given_arguments}, fields=FIELDS)
    assert call.arguments["timeout"] == seconds


@pytest.mark.parametrize(
    "command",
    [
        "apply_patch <<'EOF'\n*** Begin Patch\n*** End Patch\nEOF\nrm -rf x",
        "echo x && apply_patch <<'EOF'\n*** Begin Patch\n*** End Patch\nEOF",
        "cd $HOME && apply_patch <<'EOF'\n*** Begin Patch\n*** End Patch\nEOF",
        "cd a; apply_patch <<'EOF'\n*** Begin Patch\n*** End Patch\nEOF",
        "apply_patch < file",
    ],
)
def test_a_command_that_does_more_than_apply_a_patch_stays_a_command(command: str) -> None:
    assert translate_call("bash", {"command": command}, fields=FIELDS).name == "bash"


def test_a_directory_beside_a_command_is_quoted_and_stops_the_command_if_it_does_not_exist() -> None:
    call = translate_call("shell", {"command": "rm a; rm b", "workdir": "my dir; rm -rf x"}, fields=FIELDS)
    assert call.arguments["command"] == "cd 'my dir; rm -rf x' || exit 1\nrm a; rm b"


def test_foreign_kinds_of_sub_agents_are_understood_unless_one_of_that_name_is_configured() -> None:
    assert own_agent("general-purpose", ("explore", "general")) == "general"
    assert own_agent("Explore", ("explore", "general")) == "explore"
    assert own_agent("general-purpose", ("explore", "general", "general-purpose")) == "general-purpose"
    assert own_agent("poet", ("explore", "general")) == "poet"


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=6,
)
keys = st.sampled_from(sorted({key for table in ARGUMENTS.values() for key in (*table.renamed, *table.ignored)}))


@given(st.sampled_from(sorted(TOOLS)), st.dictionaries(keys | st.text(max_size=6), values, max_size=5))
def test_no_argument_makes_the_translation_fail_in_another_way_than_with_an_error_for_the_model(
    name: str, arguments: dict[str, Any]
) -> None:
    with suppress(ToolError):
        translate_call(name, arguments, fields=FIELDS)


async def test_a_whole_run_in_a_foreign_dialect(tmp_path: Path) -> None:
    calls = (
        ScriptedCall("Read", {"file_path": "a.txt", "colour": "red"}),
        ScriptedCall("Edit", {"file_path": "a.txt", "old_string": "one", "new_string": "two"}),
    )
    async with open_app_harness(tmp_path, saying(calls, "done")) as harness:
        (harness.directory / "a.txt").write_text("one\n")
        run = await harness.run("go", mode="accept_edits")
        messages = await harness.messages(run.session_id)
        read, edited = [part for m in messages for part in m.parts if isinstance(part, ToolResult)]
        assert (read.name, read.status) == ("Read", "ok")
        assert read.text == ("     1\tone\n[note: ignored unknown arguments: 'colour'; view has: path, offset, limit]")
        assert (edited.name, edited.status, edited.display["tool"]) == ("Edit", "ok", "edit")
        assert (read.display["title"], edited.display["title"]) == ("a.txt", "a.txt")
        assert (harness.directory / "a.txt").read_text() == "two\n"


async def test_a_file_that_a_command_with_a_foreign_name_changed_is_not_taken_for_a_change_of_the_user(
    tmp_path: Path,
) -> None:
    script = saying(
        (ScriptedCall("Read", {"file_path": "a.txt"}),),
        (ScriptedCall("Bash", {"command": "echo two > a.txt", "description": "Write"}),),
        (ScriptedCall("Read", {"file_path": "b.txt"}),),
        "done",
    )
    async with open_app_harness(tmp_path, script) as harness:
        (harness.directory / "a.txt").write_text("one\n")
        (harness.directory / "b.txt").write_text("b\n")
        run = await harness.run("go", mode="auto")
        assert (run.state, run.text) == ("completed", "done")
        assert (harness.directory / "a.txt").read_text() == "two\n"
        assert "changed since you last read" not in repr(await harness.messages(run.session_id))
