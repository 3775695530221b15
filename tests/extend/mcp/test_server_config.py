"""Which MCP servers are configured, from both kinds of files."""

import json
from pathlib import Path
from typing import Any

import pytest

from holdfast.config import load_config
from holdfast.extend.mcp.server_config import (
    McpServerConfig,
    configured_servers,
    project_files,
    read_project_file,
    secrets_of,
    server_environment,
)
from holdfast.locations import Locations

ENV = {"TOKEN": "s3cret!value", "HOME": "/home/me", "ANTHROPIC_API_KEY": "sk-1", "LC_ALL": "C", "FUNCTION": "() { :; }"}


def read(tmp_path: Path, content: Any) -> list[McpServerConfig]:
    file = tmp_path / ".mcp.json"
    file.write_text(content if isinstance(content, str) else json.dumps(content))
    return read_project_file(file, env=ENV, secret={"ANTHROPIC_API_KEY"})


def test_servers_of_a_project_are_read_with_their_variables(tmp_path: Path) -> None:
    docs, web, old = read(
        tmp_path,
        {
            "mcpServers": {
                "docs": {"command": "npx", "args": ["-y", "${NAME:-docs}"], "env": {"DOCS_TOKEN": "${TOKEN}"}},
                "web": {"type": "http", "url": "https://x.org/mcp", "headers": {"Authorization": "Bearer ${TOKEN}"}},
                "old": {"type": "sse", "url": "https://x.org/sse", "disabled": True},
            }
        },
    )
    assert (docs.command, dict(docs.env), docs.url) == (("npx", "-y", "docs"), {"DOCS_TOKEN": "s3cret!value"}, None)
    assert (web.url, web.transport, dict(web.headers)) == (
        "https://x.org/mcp",
        "http",
        {"Authorization": "Bearer s3cret!value"},
    )
    assert (old.transport, old.enabled) == ("sse", False)
    assert {docs.source, web.source} == {str(tmp_path / ".mcp.json")}
    assert set(secrets_of([docs, web])) == {"s3cret!value", "Bearer s3cret!value"}
    assert "s3cret!value" not in repr(web)


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("{", "not valid JSON"),
        ([], "no object 'mcpServers'"),
        ({"mcpServers": {"a b": {"command": "x"}}}, "a name may contain only"),
        ({"mcpServers": {"a": 7}}, "expected an object"),
        ({"mcpServers": {"a": {}}}, "either 'command' or 'url'"),
        ({"mcpServers": {"a": {"command": "x", "url": "https://x.org"}}}, "either 'command' or 'url'"),
        ({"mcpServers": {"a": {"type": "ws", "url": "https://x.org"}}}, "'ws' is not known"),
        ({"mcpServers": {"a": {"type": "http", "url": "ftp://x.org"}}}, "expected an address"),
        ({"mcpServers": {"a": {"command": "x", "args": "y"}}}, "'args' must be a list"),
        ({"mcpServers": {"a": {"command": "x", "args": [7]}}}, "expected a text"),
        ({"mcpServers": {"a": {"command": " "}}}, "the command is empty"),
        ({"mcpServers": {"a": {"command": "x", "env": {"A": "${ABSENT}"}}}}, "'ABSENT' is not set"),
        ({"mcpServers": {"a": {"command": "x", "env": {"A": "${ANTHROPIC_API_KEY}"}}}}, "which holds a key"),
    ],
)
def test_what_is_wrong_is_said_and_nothing_can_be_started(tmp_path: Path, content: Any, problem: str) -> None:
    (server,) = read(tmp_path, content)
    assert problem in server.problem
    assert server.command == ()
    assert server.url is None


def test_your_own_configuration_wins_and_says_where_it_is(tmp_path: Path) -> None:
    locations = Locations.from_env({"HOLDFAST_HOME": str(tmp_path)})
    locations.config_file.parent.mkdir(parents=True)
    locations.config_file.write_text(
        '[mcp.docs]\ncommand = ["own"]\nenv = { A = "env:TOKEN" }\ntimeout = "5s"\ndisabled_tools = ["delete_*"]\n'
    )
    config = load_config(locations, env=ENV)
    project = read(tmp_path, {"mcpServers": {"docs": {"command": "theirs"}, "more": {"command": "x"}}})
    found = configured_servers(config, project, env=ENV)
    assert list(found) == ["more", "docs"]
    assert (found["docs"].command, dict(found["docs"].env), found["docs"].timeout) == (
        ("own",),
        {"A": "s3cret!value"},
        5.0,
    )
    assert found["docs"].disabled_tools == ("delete_*",)
    assert found["docs"].source == f"{locations.config_file}:2"


def test_a_server_gets_few_variables_and_no_keys() -> None:
    server = McpServerConfig(name="a", command=("x",), start_timeout=1, timeout=1)
    assert server_environment(server, ENV, secret={"ANTHROPIC_API_KEY"}) == {"HOME": "/home/me", "LC_ALL": "C"}


def test_files_are_found_from_the_root_of_the_repository_down(tmp_path: Path) -> None:
    (tmp_path / "repo" / ".git").mkdir(parents=True)
    inner = tmp_path / "repo" / "a"
    inner.mkdir()
    for folder in (tmp_path, tmp_path / "repo", inner):
        (folder / ".mcp.json").write_text("{}")
    assert project_files(inner) == (tmp_path / "repo" / ".mcp.json", inner / ".mcp.json")


def test_the_examples_of_the_documentation_are_valid(tmp_path: Path) -> None:
    text = (Path(__file__).parents[3] / "docs" / "extensions.md").read_text()
    section = text.partition("\n## MCP servers\n")[2].partition("\n## ")[0]
    example = {kind: section.partition(f"```{kind}\n")[2].partition("```")[0] for kind in ("toml", "json")}
    locations = Locations.from_env({"HOLDFAST_HOME": str(tmp_path)})
    locations.config_file.parent.mkdir(parents=True)
    locations.config_file.write_text(example["toml"])
    env = {"DOCS_TOKEN": "d", "TRACKER_AUTH": "Bearer t"}
    found = configured_servers(load_config(locations, env=env), (), env=env)
    assert (found["docs"].command[0], dict(found["docs"].env)) == ("npx", {"DOCS_TOKEN": "d"})
    assert (found["tracker"].url, found["tracker"].timeout) == ("https://mcp.example.org/mcp", 120.0)
    (tmp_path / ".mcp.json").write_text(example["json"])
    (server,) = read_project_file(tmp_path / ".mcp.json", env=env, secret=())
    assert (server.problem, server.command, dict(server.env)) == ("", found["docs"].command, {"DOCS_TOKEN": "d"})
