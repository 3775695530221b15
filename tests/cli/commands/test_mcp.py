"""`holdfast mcp`."""

import asyncio
import json
import re
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from holdfast.cli.commands.mcp import server_settings
from holdfast.cli.exit_status import CommandError
from holdfast.client.server_address import ServerAddress
from holdfast.client.sync_client import SyncClient
from holdfast.schema.runs import Run, RunRequest
from tests.cli.cli_shell import CliShell
from tests.cli.test_terminal import terminal
from tests.extend.mcp.oauth_server import OAuthServer, open_oauth_server
from tests.support.mcp_peers import open_server, plain_command


def test_a_server_is_added_tested_shown_and_removed(sh: CliShell) -> None:
    assert "no MCP server is configured" in sh.ok("mcp")
    sh.ok("mcp", "add", "peer", "--", *plain_command())
    listed = sh("mcp", "--json").json["servers"]
    assert [(one["name"], one["state"]) for one in listed] == [("peer", "ready")]
    assert listed[0]["source"].startswith(str(sh.locations.config_file))
    tested = sh.ok("mcp", "test", "peer")
    assert "peer__read (reads only, says the server)" in tested
    assert "  /peer:explain\n  @peer:note://a" in tested
    assert "peer:explain  ready  Explain it  MCP server peer" in sh.ok("commands")
    mentioned = sh("run", "!say ok @peer:note://a")
    why = "this needs approval, and this run cannot ask for it: note://a; the rule 'mcp: peer__resource' allows it"
    assert (
        mentioned.err.count(f"@peer:note://a was not read: the prompt needs 'note://a', which was denied: {why}") == 1
    )
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
    def look_around(*run_ids: str) -> tuple[list[str | None], Run]:
        """The modes of runs, and a run in another directory."""
        with SyncClient(ServerAddress(path=str(sh.locations.socket))) as client:
            other = client.open_workspace(str(sh.work.parent)).id
            started = client.start_session(other, RunRequest(prompt="!say a secret")).run
            return [client.get_run(run_id).mode for run_id in run_ids], started

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
            planned = (await probe.call("run_prompt", prompt="!say planned", mode="plan"))["structuredContent"]
            modes, elsewhere = await asyncio.to_thread(look_around, run["run_id"], planned["run_id"])
            assert modes == ["ask", "plan"]
            for mode in ("accept_edits", "auto"):
                refused = await probe.call("run_prompt", prompt="!say free", mode=mode)
                assert (refused["isError"], f"mode '{mode}' is not offered" in str(refused)) == (True, True)
            for tool, other in (
                ("run_prompt", {"prompt": "go on", "session_id": elsewhere.session_id}),
                ("read_session", {"session_id": elsewhere.session_id}),
                ("wait_run", {"run_id": elsewhere.id}),
                ("cancel_run", {"run_id": elsewhere.id}),
            ):
                refused = await probe.call(tool, **other)
                assert (refused["isError"], "belongs to another directory" in str(refused)) == (True, True)
        free = (*command, "--max-mode", "accept_edits")
        async with open_server(sh.work, free, env=sh.env, start_timeout=50.0, timeout=50.0) as probe:
            edited = (await probe.call("run_prompt", prompt="!say free", mode="accept_edits"))["structuredContent"]
            assert edited["state"] == "completed"
            assert (await probe.call("run_prompt", prompt="!say free", mode="auto"))["isError"]

    asyncio.run(use())


@contextmanager
def oauth_in_thread() -> Iterator[OAuthServer]:
    """Run the authorization server beside a test that is not asynchronous."""
    loop, begun, found = asyncio.new_event_loop(), threading.Event(), list[OAuthServer]()
    done = asyncio.Event()

    async def serve() -> None:
        async with open_oauth_server() as oauth:
            found.append(oauth)
            begun.set()
            await done.wait()

    thread = threading.Thread(target=lambda: loop.run_until_complete(serve()))
    thread.start()
    try:
        assert begun.wait(30)
        yield found[0]
    finally:
        loop.call_soon_threadsafe(done.set)
        thread.join(30)
        loop.close()


def test_a_person_logs_in_with_a_browser_here_or_elsewhere_and_logs_out(sh: CliShell) -> None:
    with oauth_in_thread() as oauth:
        sh.ok("mcp", "add", "--transport", "http", "tracker", f"{oauth.url}/mcp")
        refused = sh("mcp", "test", "tracker")
        assert (refused.status, "log in with 'holdfast mcp login tracker'" in refused.err) == (1, True)
        waiting = sh("mcp", "login", "tracker", "--answer", "http://127.0.0.1:1/callback?code=a&state=b")
        assert (waiting.status, "no login to the MCP server 'tracker' is waiting" in waiting.err) == (2, True)
        # a browser on this machine
        command = [sys.executable, "-m", "holdfast", "mcp", "login", "tracker"]
        pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        with subprocess.Popen(command, cwd=sh.work, env=sh.env, text=True, **pipes) as process:  # type: ignore[call-overload]
            shown = ""
            while not (address := re.search(r"http://\S+/authorize\S+", shown)):
                shown += process.stderr.readline()
            with urllib.request.urlopen(oauth.authorize(address[0]), timeout=30) as page:
                assert b"logged in" in page.read()
            assert "tracker__say" in process.stdout.read()
            assert process.wait(60) == 0
        assert sh.ok("mcp", "logout", "tracker").strip() == "logged out"
        assert "log in with" in sh("mcp", "test", "tracker").err
        # a browser that does not reach the machine of the server
        with terminal(sh, "mcp", "login", "tracker") as shown_here:
            shown_here.until("paste the address that it shows at the end here:")
            address = re.search(r"http://\S+/authorize\S+", shown_here.plain)
            assert address is not None
            shown_here.type("what?\n")
            shown_here.until("the address has no code")
            shown_here.type(oauth.authorize(address[0], state="wrong") + "\n")
            shown_here.until("the address belongs to another login")
            assert oauth.count("/oauth/token") == 1, "nothing was exchanged for the wrong state"
            shown_here.type(oauth.authorize(address[0]) + "\n")
            assert shown_here.end() == 0
        assert "tracker__say" in shown_here.plain
        sh.ok("mcp", "remove", "tracker")
