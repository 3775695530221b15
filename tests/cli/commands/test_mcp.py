"""`holdfast mcp`."""

import asyncio
import json
import sys

import pytest

from holdfast.cli.commands.mcp import server_settings
from holdfast.cli.exit_status import CommandError
from holdfast.client.server_address import ServerAddress
from holdfast.client.sync_client import SyncClient
from tests.cli.cli_shell import CliShell
from tests.support.mcp_peers import open_server, plain_command


def test_a_server_is_added_tested_shown_and_removed(sh: CliShell) -> None:
    assert "no MCP server is configured" in sh.ok("mcp")
    sh.ok("mcp", "add", "peer", "--", *plain_command())
    listed = sh("mcp", "--json").json["servers"]
    assert [(one["name"], one["state"]) for one in listed] == [("peer", "ready")]
    assert listed[0]["source"].startswith(str(sh.locations.config_file))
    assert "peer__read (reads only, says the server)" in sh.ok("mcp", "test", "peer")
    assert "3 tools" in sh.ok("mcp", "list")
    assert "mcp peer: ready" in sh.ok("doctor")
    again = sh("mcp", "add", "peer", "--", "x")
    assert (again.status, "there is a server 'peer' already" in again.err) == (2, True)
    sh.ok("mcp", "remove", "peer")
    assert "no MCP server is configured" in sh.ok("mcp", "list")
    assert sh("mcp", "remove", "peer").status != 0


def test_a_server_that_fails_says_why(sh: CliShell) -> None:
    sh.ok("mcp", "add", "broken", "--", *plain_command("die:initialize"))
    tried = sh("mcp", "test", "broken")
    assert tried.status == 1
    assert "it is all over" in tried.err
    assert "it is all over" in sh.ok("mcp", "logs", "broken")
    sh.ok("mcp", "remove", "broken")


def test_arguments_become_settings() -> None:
    def settings(*target: str, **options: object) -> str:
        given = {"env": [], "headers": [], "transport": None, **options}
        return json.dumps(server_settings("docs", list(target), **given))

    assert (
        settings("npx", "-y", "x", env=["A=env:B"])
        == '{"mcp.docs": {"command": ["npx", "-y", "x"], "env": {"A": "env:B"}}}'
    )
    assert settings("https://x.org/mcp", headers=["A=b=c"], transport="sse") == (
        '{"mcp.docs": {"url": "https://x.org/mcp", "headers": {"A": "b=c"}, "transport": "sse"}}'
    )
    for wrong in ({"env": ["A=b"]}, {"headers": ["rubbish"]}):
        with pytest.raises(CommandError):
            settings("https://x.org", **wrong)
    with pytest.raises(CommandError):
        settings("npx", headers=["A=b"])


def test_another_agent_runs_prompts_and_reads_sessions(sh: CliShell) -> None:
    async def use() -> None:
        command = (sys.executable, "-m", "holdfast", "mcp", "serve")
        async with open_server(sh.work, command, env=sh.env, start_timeout=50.0, timeout=50.0) as probe:
            assert probe.server.status.state == "ready", probe.server.log.lines
            names = [one.tool for one in probe.server.tools.definitions]
            assert names == ["run_prompt", "wait_run", "cancel_run", "read_session"]
            run = (await probe.call("run_prompt", prompt="!say hello from holdfast"))["structuredContent"]
            assert (run["state"], run["text"]) == ("completed", "hello from holdfast")
            again = (await probe.call("wait_run", run_id=run["run_id"]))["structuredContent"]
            assert again == run
            session = (await probe.call("read_session", session_id=run["session_id"]))["structuredContent"]["result"]
            assert [one["role"] for one in session] == ["user", "assistant"]
            hanging = asyncio.create_task(probe.call("run_prompt", prompt="!hang", session_id=run["session_id"]))
            with SyncClient(ServerAddress(path=str(sh.locations.socket))) as client:
                active = ""
                while not active:
                    found = await asyncio.to_thread(client.runs, run["session_id"], limit=1)
                    active = found.items[0].id if found.items[0].state == "active" else ""
            cancelled = (await probe.call("cancel_run", run_id=active))["structuredContent"]
            assert cancelled["state"] == "cancelled"
            assert (await hanging)["structuredContent"]["state"] == "cancelled"
            refused = await probe.call("wait_run", run_id="run_absent")
            assert refused["isError"]

    asyncio.run(use())
