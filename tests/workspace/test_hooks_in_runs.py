"""Hooks in whole runs: real programs under the supervisor, the scripted model."""

import asyncio
import json
import os
import re
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from holdfast.config import Config, PolicyFile
from holdfast.errors import ConfigError
from holdfast.extend.hooks.workspace_hooks import WorkspaceHooks
from holdfast.models.model_script import ScriptedCall, ScriptedText
from holdfast.schema.events import ApprovalRequested, MessageFinished, RunFinished
from holdfast.schema.extensions import ExtensionStatus
from holdfast.schema.messages import Notice, Part, ToolResult, text_of
from holdfast.schema.runs import Run
from tests.support.app_harness import AppHarness, open_app_harness, saying

TOUCH = ScriptedCall("bash", {"command": "touch made-by-the-agent"})


def hook(
    directory: Path, name: str, script: str, *, events: tuple[str, ...] = ("before_tool",), **settings: Any
) -> str:
    """Write a program outside the workspace, and return the settings of a hook that runs it."""
    path = directory / f"{name}.sh"
    path.write_text(f"#!/bin/sh\n{script}\n")
    lines = [f"[hooks.{name}]", f"events = {json.dumps(events)}", f'command = ["sh", "{path}"]']
    return "\n".join([*lines, *(f"{key} = {json.dumps(value)}" for key, value in settings.items()), ""])


def answering(answer: object) -> str:
    return f"cat >/dev/null; echo '{json.dumps(answer)}'"


def saving(path: Path) -> str:
    """A script that saves what it is given, in one step."""
    return f"cat >'{path}.new'; echo >>'{path}.new'; mv '{path}.new' '{path}'"


async def parts_of(harness: AppHarness, run: Run) -> list[Part]:
    return [part for message in await harness.messages(run.session_id) for part in message.parts]


async def results_of(harness: AppHarness, run: Run) -> list[ToolResult]:
    return [part for part in await parts_of(harness, run) if isinstance(part, ToolResult)]


async def notices_of(harness: AppHarness, run: Run) -> list[Notice]:
    return [part for part in await parts_of(harness, run) if isinstance(part, Notice)]


async def _announce_to_nobody(_status: ExtensionStatus) -> None:
    pass


def hooks_shown(result: ToolResult) -> list[tuple[str, str]]:
    return [(one["name"], one["outcome"]) for one in result.display.get("hooks", ())]


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


async def read_when_written(path: Path) -> str:
    deadline = time.monotonic() + 30
    while not path.exists() or not path.read_text().endswith("\n"):
        assert time.monotonic() < deadline, f"{path} was not written"
        await asyncio.sleep(0.02)
    return path.read_text()


async def test_a_hook_denies_a_call_and_the_reason_reaches_the_model(tmp_path: Path) -> None:
    config = hook(tmp_path, "guard", "echo 'not on Fridays' >&2; exit 2", tools=["ba*"])
    async with open_app_harness(tmp_path, saying(TOUCH, "done"), config=config) as harness:
        run = await harness.run("go", mode="auto")
        [result] = await results_of(harness, run)
        assert (run.state, result.status) == ("completed", "denied")
        assert "hook guard: not on Fridays" in result.text
        [shown] = result.display["hooks"]
        assert (shown["name"], shown["event"], shown["outcome"]) == ("guard", "before_tool", "denied")
        assert shown["seconds"] > 0
        assert not (harness.directory / "made-by-the-agent").exists()


async def test_a_run_that_begins_while_the_hooks_are_read_for_another_one_waits_for_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise it would begin without them."""
    load, is_inside, may_go_on = WorkspaceHooks._load, threading.Event(), threading.Event()

    def load_slowly(self: WorkspaceHooks, config: Config, *, trusted: bool) -> None:
        is_inside.set()
        assert may_go_on.wait(30)
        load(self, config, trusted=trusted)

    monkeypatch.setattr(WorkspaceHooks, "_load", load_slowly)
    config = hook(tmp_path, "guard", "exit 2", tools=["ba*"])
    async with open_app_harness(tmp_path, saying(TOUCH, "done"), config=config) as harness:
        setup = await harness.app.open_workspaces.require(harness.workspace_id).setup()
        hooks = WorkspaceHooks(tmp_path, home=None, launcher=harness.app.shared.launcher, announce=_announce_to_nobody)
        reading = [asyncio.create_task(hooks.refresh(setup.config, trusted=True)) for _ in range(2)]
        assert await asyncio.to_thread(is_inside.wait, 30)
        for _ in range(10):
            await asyncio.sleep(0)
        assert [task.done() for task in reading] == [False, False]
        may_go_on.set()
        await asyncio.gather(*reading)
        assert hooks.has_any


async def test_a_hook_gets_one_object_and_variables(tmp_path: Path) -> None:
    script = f'cat >"{tmp_path}/given"; env >"{tmp_path}/variables"; echo >>"{tmp_path}/given"'
    config = hook(tmp_path, "log", script, events=("before_tool", "after_tool"), tools=["bash"])
    env = {"ANTHROPIC_API_KEY": "sk-ant-planted-0123456789"}
    async with open_app_harness(tmp_path, saying(TOUCH, "done"), config=config, env=env) as harness:
        run = await harness.run("go", mode="auto")
        given = json.loads((tmp_path / "given").read_text())
        assert given["input"]["command"] == "touch made-by-the-agent"
        assert (given["event"], given["tool"], given["status"], given["hook"]) == ("after_tool", "bash", "ok", "log")
        assert (given["run_id"], given["session_id"], given["mode"]) == (run.id, run.session_id, "auto")
        variables = dict(
            line.split("=", 1) for line in (tmp_path / "variables").read_text().splitlines() if "=" in line
        )
        assert (variables["HOLDFAST_EVENT"], variables["HOLDFAST_TOOL"]) == ("after_tool", "bash")
        assert variables["HOLDFAST_WORKSPACE"] == str(harness.directory)
        assert "ANTHROPIC_API_KEY" not in variables
        [result] = await results_of(harness, run)
        assert hooks_shown(result) == [("log", "ok"), ("log", "ok")]


@pytest.mark.promise("W11")
async def test_a_hook_that_allows_never_beats_a_deny_rule_or_plan_mode(tmp_path: Path) -> None:
    config = hook(tmp_path, "yes", answering({"decision": "allow"}))
    script = saying(TOUCH, "done")
    async with open_app_harness(tmp_path, script, config=config) as harness:
        allowed = await harness.run("go", mode="ask", interactive=False)
        assert [result.status for result in await results_of(harness, allowed)] == ["ok"]
        (harness.directory / "made-by-the-agent").unlink()
        planned = await harness.run("go", mode="plan", interactive=False)
        assert [result.status for result in await results_of(harness, planned)] == ["denied"]
        await harness.app.services.settings.change({"approvals.deny": ["bash: touch *"]})
        denied = await harness.run("go", mode="ask", interactive=False)
        [result] = await results_of(harness, denied)
        assert "denied by the rule 'bash: touch *'" in result.text
        assert not (harness.directory / "made-by-the-agent").exists()


async def test_a_hook_can_require_an_approval(tmp_path: Path) -> None:
    config = hook(tmp_path, "careful", answering({"decision": "ask"})) + hook(
        tmp_path, "yes", answering({"decision": "allow"})
    )
    async with open_app_harness(tmp_path, saying(TOUCH, "done"), config=config) as harness:
        started = await harness.start("go", mode="auto")
        asked = await harness.until(ApprovalRequested)
        assert "a hook wants it to be approved" in asked.approval.why
        await harness.app.shared.approvals.answer(asked.approval.id, "once", client="test")
        run = await harness.ended(started)
        [result] = await results_of(harness, run)
        assert result.status == "ok"
        assert hooks_shown(result) == [("careful", "asked"), ("yes", "allowed")]
        unasked = await harness.run("go", mode="auto", interactive=False)
        assert (unasked.state, unasked.reason) == ("failed", "denied")


@pytest.mark.promise("W11")
async def test_a_replaced_input_is_judged_from_the_start(tmp_path: Path) -> None:
    changed = json.dumps({"input": {"command": "touch made-by-the-hook"}})
    script = f"case $(cat) in *made-by-the-agent*) echo '{changed}';; esac"
    config = hook(tmp_path, "rewrite", script)
    async with open_app_harness(tmp_path, saying(TOUCH, "done"), config=config) as harness:
        run = await harness.run("go", mode="auto")
        [result] = await results_of(harness, run)
        assert result.status == "ok"
        assert "a hook changed the input of this call to" in result.text
        assert hooks_shown(result) == [("rewrite", "changed"), ("rewrite", "ok")]
        assert (harness.directory / "made-by-the-hook").exists()
        assert not (harness.directory / "made-by-the-agent").exists()
        await harness.app.services.settings.change({"approvals.deny": ["bash: touch made-by-the-hook"]})
        denied = await harness.run("go", mode="auto")
        [result] = await results_of(harness, denied)
        assert "denied by the rule 'bash: touch made-by-the-hook'" in result.text


async def test_hooks_that_never_agree_on_an_input_deny_the_call(tmp_path: Path) -> None:
    count = 'cat >/dev/null; echo x >>"$0.count"; n=$(wc -l <"$0.count")'
    script = f'{count}; echo "{{\\"input\\": {{\\"command\\": \\"echo $n\\"}}}}"'
    async with open_app_harness(tmp_path, saying(TOUCH, "done"), config=hook(tmp_path, "restless", script)) as harness:
        run = await harness.run("go", mode="auto")
        [result] = await results_of(harness, run)
        assert (result.status, "do not agree" in result.text) == ("denied", True)


async def test_what_a_hook_adds_after_a_call_reaches_the_model_and_it_can_stop_the_run(tmp_path: Path) -> None:
    config = hook(tmp_path, "check", answering({"decision": "deny", "reason": "lint: 1 error"}), events=("after_tool",))
    config += hook(tmp_path, "stop", answering({"stop": "enough for today"}), events=("after_tool",))
    async with open_app_harness(tmp_path, saying(TOUCH, "never said"), config=config) as harness:
        run = await harness.run("go", mode="auto")
        [result] = await results_of(harness, run)
        assert (result.status, result.text.splitlines()[-1]) == ("ok", "[hook check: lint: 1 error]")
        assert (run.state, run.reason) == ("failed", "denied")
        assert run.error is not None
        assert run.error.message == "hook stop: enough for today"


async def test_hooks_add_context_at_the_start_and_with_each_prompt(tmp_path: Path) -> None:
    config = hook(tmp_path, "start", "cat >/dev/null; echo the branch is main", events=("session_start",))
    config += hook(tmp_path, "ticket", answering({"context": "ticket 7 is open"}), events=("prompt",))
    async with open_app_harness(tmp_path, saying("done"), config=config) as harness:
        run = await harness.run("go")
        found = await notices_of(harness, run)
        assert [one.text for one in found if one.for_model] == [
            "hook start: the branch is main",
            "hook ticket: ticket 7 is open",
        ]
        assert [one.text.split(" in ")[0] for one in found if not one.for_model] == [
            "hook start (session_start) added context",
            "hook ticket (prompt) added context",
        ]
        again = await harness.run("and now", session_id=run.session_id)
        later = [one for one in await notices_of(harness, again) if one.for_model]
        assert [one.text for one in later].count("hook start: the branch is main") == 1
        assert [one.text for one in later].count("hook ticket: ticket 7 is open") == 2


async def test_a_hook_refuses_a_prompt_and_the_run_ends_once(tmp_path: Path) -> None:
    config = hook(tmp_path, "polite", "echo 'say please' >&2; exit 2", events=("prompt",))
    async with open_app_harness(tmp_path, saying("never said"), config=config) as harness:
        run = await harness.run("go")
        assert (run.state, run.reason) == ("failed", "denied")
        assert run.error is not None
        assert run.error.message == "the prompt was refused: hook polite: say please"
        assert sum(isinstance(event, RunFinished) for event in await harness.events()) == 1
        assert run.steps == 0
        assert "never said" not in repr(await harness.messages(run.session_id))


async def test_a_hook_sends_the_agent_back_once(tmp_path: Path) -> None:
    denial = json.dumps({"decision": "deny", "reason": "run the tests"})
    script = f"cat >>'{tmp_path}/given'; echo >>'{tmp_path}/given'; echo '{denial}'"
    config = hook(tmp_path, "tests", script, events=("before_end",))
    async with open_app_harness(tmp_path, saying("first answer", "second answer"), config=config) as harness:
        run = await harness.run("go")
        assert (run.state, run.text, run.steps) == ("completed", "second answer", 2)
        told = [one.text for one in await notices_of(harness, run) if one.for_model]
        assert told == ["You are not done yet, says a hook of the user: hook tests: run the tests"]
        given = [json.loads(line) for line in (tmp_path / "given").read_text().splitlines()]
        assert [(one["answer"], one["sent_back"]) for one in given] == [
            ("first answer", False),
            ("second answer", True),
        ]
        texts = [text_of(message.parts) for message in await harness.messages(run.session_id)]
        assert [text for text in texts if text] == ["go", "first answer", "second answer"]


@pytest.mark.promise("W11")
async def test_hooks_of_the_end_run_after_it_is_committed_and_cannot_change_it(tmp_path: Path) -> None:
    script = f"{saving(tmp_path / 'ended')}; exit 2"
    config = hook(tmp_path, "after", script, events=("end",))
    async with open_app_harness(tmp_path, saying("done"), config=config) as harness:
        run = await harness.run("go")
        given = json.loads(await read_when_written(tmp_path / "ended"))
        assert (given["state"], given["answer"], given["run_id"]) == ("completed", "done", run.id)
        assert (await harness.app.engine.wait_run(run.id, timeout=1)).state == "completed"
        async for item in harness.app.hub.subscribe(after=f"{harness.app.store.log_id}.0"):
            if item.kind == "message.finished" and b"hook after" in item.body:
                break
        shown = await notices_of(harness, run)
        assert shown[0].text.startswith("hook after (end) ")
        assert re.search(r" in \d+\.\d\d s", shown[0].text)
        events = await harness.events()
        finished = next(number for number, event in enumerate(events) if isinstance(event, RunFinished))
        (told,) = [event.message for event in events[finished:] if isinstance(event, MessageFinished)]
        assert (told.run_id, told.role, text_of(told.parts)) == (run.id, "user", "")


@pytest.mark.promise("W11")
async def test_a_hook_that_fails_or_hangs_is_shown_and_does_not_stop_the_work(tmp_path: Path) -> None:
    config = hook(tmp_path, "broken", "echo boom >&2; exit 1")
    config += hook(tmp_path, "slow", f'echo $$ >"{tmp_path}/pid"; exec sleep 1000', timeout="300ms")
    config += hook(tmp_path, "gone", "exit 0").replace("sh", "no-such-program", 1)
    async with open_app_harness(tmp_path, saying(TOUCH, "done"), config=config) as harness:
        run = await harness.run("go", mode="auto")
        [result] = await results_of(harness, run)
        assert (run.state, result.status) == ("completed", "ok")
        details = {one["name"]: (one["outcome"], one.get("detail", "")) for one in result.display["hooks"]}
        assert details["broken"] == ("failed", "exit code 1: boom")
        assert details["slow"] == ("failed", "it did not end within 0.3 s and was ended")
        assert not is_alive(int((tmp_path / "pid").read_text()))
        page = await harness.app.services.extensions.list_statuses(harness.workspace_id, wait=0)
        states = {status.name: status.state for status in page.items}
        assert (states["broken"], states["slow"]) == ("failed", "failed")


@pytest.mark.promise("W11")
@pytest.mark.parametrize(
    "event",
    ["session_start", "prompt", "before_tool", "approval", "notification", "after_tool", "compaction", "before_end"],
)
async def test_a_cancel_ends_a_hook_and_nothing_is_left_running(tmp_path: Path, event: str) -> None:
    script = f'trap "" INT TERM; sleep 1000 & echo $! >"{tmp_path}/child"; echo $$ >"{tmp_path}/pid"; wait; sleep 1000'
    config = hook(tmp_path, "hangs", script, events=(event,))
    async with open_app_harness(tmp_path, saying(TOUCH, "the answer"), config=config) as harness:
        if event == "compaction":
            before = await harness.run("go", mode="auto")
            started = await harness.start("", session_id=before.session_id, kind="compact")
        else:
            started = await harness.start("go", mode="ask" if event in ("approval", "notification") else "auto")
        await read_when_written(tmp_path / "pid")
        await harness.app.engine.cancel_session(started.run.session_id)
        run = await harness.ended(started)
        assert run.state == "cancelled"
        for name in ("pid", "child"):
            assert not is_alive(int((tmp_path / name).read_text()))
        if event == "after_tool":
            [result] = await results_of(harness, run)
            assert result.status == "ok"
        if event == "before_end":
            assert run.text == "the answer"
            assert "the answer" in [text_of(message.parts) for message in await harness.messages(run.session_id)]


async def test_a_hook_answers_approvals(tmp_path: Path) -> None:
    allow = json.dumps({"decision": "allow"})
    script = f"case $(cat) in *made-by-the-agent*) echo '{allow}';; *) echo no >&2; exit 2;; esac"
    config = hook(tmp_path, "clerk", script, events=("approval",))
    other = ScriptedCall("bash", {"command": "touch other"})
    async with open_app_harness(tmp_path, saying(TOUCH, other, "done"), config=config) as harness:
        run = await harness.run("go", mode="ask")
        first, second = await results_of(harness, run)
        assert (first.status, second.status) == ("ok", "denied")
        assert (hooks_shown(first), hooks_shown(second)) == ([("clerk", "allowed")], [("clerk", "denied")])
        assert not [event for event in await harness.events() if isinstance(event, ApprovalRequested)]


async def test_a_hook_is_told_when_a_person_is_needed(tmp_path: Path) -> None:
    script = saving(tmp_path / "told")
    config = hook(tmp_path, "bell", script, events=("notification",))
    async with open_app_harness(tmp_path, saying(TOUCH, "done"), config=config) as harness:
        started = await harness.start("go", mode="ask")
        asked = await harness.until(ApprovalRequested)
        told = json.loads(await read_when_written(tmp_path / "told"))
        assert (told["about"], told["text"]) == ("approval", "touch made-by-the-agent")
        await harness.app.shared.approvals.answer(asked.approval.id, "deny", client="test")
        run = await harness.ended(started)
        assert run.state == "completed"
        [result] = await results_of(harness, run)
        [shown] = result.display["hooks"]
        assert (shown["name"], shown["event"], shown["outcome"]) == ("bell", "notification", "ok")
        assert shown["seconds"] > 0


async def test_a_hook_adds_to_a_compaction(tmp_path: Path) -> None:
    config = hook(tmp_path, "keep", answering({"context": "keep the ticket number"}), events=("compaction",))
    async with open_app_harness(tmp_path, saying("done"), config=config) as harness:
        run = await harness.run("go")
        await harness.run("", session_id=run.session_id, kind="compact")
        found = [one.text for one in await notices_of(harness, run)]
        assert [text.split(" in ")[0] for text in found] == ["hook keep (compaction) added context"]


@pytest.mark.promise("W1")
@pytest.mark.parametrize("brings", ["holdfast", "claude", "relative"])
async def test_hooks_of_a_directory_run_only_after_it_is_trusted(tmp_path: Path, brings: str) -> None:
    canary = tmp_path / "canary"
    work = tmp_path / "work"
    (work / ".holdfast").mkdir(parents=True)
    (work / ".claude").mkdir()
    (work / "check.sh").write_text("#!/bin/sh\ntouch ran-in-the-workspace\n")
    config = ""
    command = f"touch {canary}; touch ran-in-the-workspace"
    if brings == "holdfast":
        text = f'[hooks.evil]\nevents = ["session_start", "prompt"]\ncommand = ["sh", "-c", "{command}"]\n'
        (work / ".holdfast" / "config.toml").write_text(text)
    elif brings == "claude":
        entry = [{"hooks": [{"type": "command", "command": command}]}]
        document = {"hooks": {"SessionStart": entry, "UserPromptSubmit": entry}}
        (work / ".claude" / "settings.json").write_text(json.dumps(document))
    else:  # a hook of the user that would run a program of the directory
        config = '[hooks.mine]\nevents = ["prompt"]\ncommand = ["sh", "check.sh"]\n'
    async with open_app_harness(tmp_path, saying("done"), config=config, env={"HOME": str(tmp_path)}) as harness:
        assert (await harness.run("go")).state == "completed"
        assert not canary.exists()
        assert not (work / "ran-in-the-workspace").exists()
        await harness.app.services.workspaces.trust(harness.workspace_id, trusted=True)
        assert (await harness.run("go")).state == "completed"
        assert (work / "ran-in-the-workspace").exists()


async def test_a_project_cannot_change_a_hook_of_the_user(tmp_path: Path) -> None:
    work = tmp_path / "work"
    (work / ".holdfast").mkdir(parents=True)
    (work / ".holdfast" / "config.toml").write_text("[hooks.guard]\nenabled = false\n")
    async with open_app_harness(tmp_path, saying("done"), config=hook(tmp_path, "guard", "exit 2")) as harness:
        await asyncio.to_thread(harness.app.shared.trust.trust, work)
        (await harness.app.open_workspaces.live(harness.workspace_id)).forget_setup()
        with pytest.raises(ConfigError, match="a project cannot change a hook of your own configuration"):
            await harness.run("go")


async def test_the_agent_needs_approval_to_change_what_hooks_run(tmp_path: Path) -> None:
    work = tmp_path / "work"
    (work / "tools").mkdir(parents=True)
    (work / "tools" / "check.sh").write_text("exit 0\n")
    config = '[hooks.mine]\nevents = ["before_tool"]\ncommand = ["sh", "tools/check.sh"]\n'
    paths = ("tools/check.sh", ".claude/settings.json", ".claude/hooks/x.sh", "tools/other.sh")
    calls = tuple(ScriptedCall("write", {"path": path, "content": "true\n"}) for path in paths)
    script = saying(ScriptedCall("view", {"path": "tools/check.sh"}), *calls, "done")
    async with open_app_harness(tmp_path, script, config=config) as harness:
        await harness.app.services.workspaces.trust(harness.workspace_id, trusted=True)
        run = await harness.run("go", mode="auto", interactive=False)
        _, *written = await results_of(harness, run)
        assert [result.status for result in written] == ["denied", "denied", "denied", "ok"]
        assert "a program that a hook runs" in written[0].text


async def test_hooks_are_listed_with_where_they_come_from_and_what_is_not_used(tmp_path: Path) -> None:
    home = tmp_path / "person"
    (home / ".claude").mkdir(parents=True)
    entries = {"PreToolUse": [{"matcher": "Bash", "hooks": [{"type": "command", "command": "true"}]}]}
    entries["SessionEnd"] = [{"hooks": [{"type": "command", "command": "true"}]}]
    (home / ".claude" / "settings.json").write_text(json.dumps({"hooks": entries}))
    config = hook(tmp_path, "guard", "exit 0", tools=["bash"]) + hook(tmp_path, "off", "exit 0", enabled=False)
    async with open_app_harness(tmp_path, config=config, env={"HOME": str(home)}) as harness:
        await harness.app.services.workspaces.trust(harness.workspace_id, trusted=True)
        page = await harness.app.services.extensions.list_statuses(harness.workspace_id, wait=0)
        found = {status.name: status for status in page.items}
        locations = harness.app.shared.locations
        assert found["guard"].state == "ready"
        assert found["guard"].detail == f"before_tool for bash: sh {tmp_path}/guard.sh"
        assert found["guard"].source.startswith(f"{locations.config_file}:")
        assert found["off"].state == "disabled"
        assert found["claude-user-PreToolUse-1"].detail == "before_tool for Bash: true"
        assert found["claude-user-PreToolUse-1"].source == str(home / ".claude" / "settings.json")
        assert "not used: sessions do not end here" in found["claude-user-SessionEnd-1"].detail


async def test_hooks_of_claude_code_judge_calls_in_a_trusted_directory(tmp_path: Path) -> None:
    home = tmp_path / "person"
    (home / ".claude").mkdir(parents=True)
    command = "grep -q made-by-the-agent && { echo no touching >&2; exit 2; }; exit 0"
    entries = {"PreToolUse": [{"matcher": "Bash", "hooks": [{"type": "command", "command": command}]}]}
    (home / ".claude" / "settings.json").write_text(json.dumps({"hooks": entries}))
    async with open_app_harness(tmp_path, saying(TOUCH, "done"), env={"HOME": str(home)}) as harness:
        await harness.app.services.workspaces.trust(harness.workspace_id, trusted=True)
        run = await harness.run("go", mode="auto")
        [result] = await results_of(harness, run)
        assert (result.status, "no touching" in result.text) == ("denied", True)


async def test_output_of_hooks_is_bounded_and_secrets_are_masked(tmp_path: Path) -> None:
    secret = "sk-ant-planted-0123456789"
    script = f"cat >/dev/null; head -c 5000000 /dev/zero | tr '\\\\0' x; echo 'key {secret}' >&2; exit 2"
    env = {"ANTHROPIC_API_KEY": secret}
    config = hook(tmp_path, "loud", script)
    async with open_app_harness(
        tmp_path, saying((ScriptedText("hm"), TOUCH), "done"), config=config, env=env
    ) as harness:
        run = await harness.run("go", mode="auto")
        [result] = await results_of(harness, run)
        assert result.status == "denied"
        assert secret not in repr(await harness.events())
        assert "hook loud: key" in result.text


async def test_a_hook_may_ignore_its_input_and_leave_processes(tmp_path: Path) -> None:
    script = f'sleep 1000 & echo $! >"{tmp_path}/child"; exit 0'
    config = hook(tmp_path, "careless", script, events=("after_tool",))
    big = ScriptedCall("bash", {"command": "head -c 90000 /dev/zero | tr '\\0' x | fold"})
    async with open_app_harness(tmp_path, saying(big, "done"), config=config) as harness:
        run = await harness.run("go", mode="auto")
        [result] = await results_of(harness, run)
        assert (run.state, hooks_shown(result)) == ("completed", [("careless", "ok")])
        assert not is_alive(int((tmp_path / "child").read_text()))


async def test_a_hook_of_the_end_that_hangs_does_not_keep_the_server(tmp_path: Path) -> None:
    config = hook(tmp_path, "hangs", f'echo $$ >"{tmp_path}/pid"; exec sleep 1000', events=("end",))
    async with open_app_harness(tmp_path, saying("done"), config=config) as harness:
        assert (await harness.run("go")).state == "completed"
        pid = int(await read_when_written(tmp_path / "pid"))
        assert (await harness.app.open_workspaces.live(harness.workspace_id)).is_busy
    assert not is_alive(pid)


async def test_a_prompt_that_joins_a_run_is_judged_too(tmp_path: Path) -> None:
    script = "case $(cat) in *forbidden*) echo not this >&2; exit 2;; esac"
    config = hook(tmp_path, "polite", script, events=("prompt",))
    wait = ScriptedCall("bash", {"command": f"until test -e '{tmp_path}/go'; do sleep 0.02; done"})
    async with open_app_harness(tmp_path, saying(wait, "never said"), config=config) as harness:
        started = await harness.start("go", mode="auto")
        joined = await harness.start("forbidden", session_id=started.run.session_id, mode="auto", delivery="steer")
        (tmp_path / "go").touch()
        run = await harness.ended(started)
        assert (run.state, run.reason) == ("failed", "denied")
        assert (await harness.ended(joined)).state == "failed"


async def test_a_command_in_a_prompt_is_judged_too(tmp_path: Path) -> None:
    config = hook(tmp_path, "guard", "echo not on Fridays >&2; exit 2", tools=["bash"])
    async with open_app_harness(tmp_path, saying("never said"), config=config) as harness:
        commands = harness.app.shared.locations.config_dir / "commands"
        commands.mkdir(parents=True)
        (commands / "touch.md").write_text("It says !`touch made-by-the-agent`\n")
        run = await harness.run("/touch", mode="auto")
        assert run.state == "failed"
        assert run.error is not None
        assert "hook guard: not on Fridays" in run.error.message
        assert not (harness.directory / "made-by-the-agent").exists()


@pytest.mark.promise("W12")
async def test_a_hook_of_the_policy_stays_and_the_policy_limits_what_hooks_allow(tmp_path: Path) -> None:
    program = tmp_path / "audit.sh"
    program.write_text(f"cat >>'{tmp_path}/audit'; echo >>'{tmp_path}/audit'\n")
    policy = tmp_path / "policy.toml"
    command = f'events = ["before_tool"]\ncommand = ["sh", "{program}"]\n'
    policy.write_text(f'[allow]\nmodes = ["plan", "ask"]\n[settings.hooks.audit]\n{command}')
    policy.chmod(0o644)
    config = '[hooks.audit]\nenabled = false\ntools = ["nothing"]\nevents = ["end"]\ncommand = ["true"]\n'
    config += hook(tmp_path, "yes", answering({"decision": "allow"}))
    file = PolicyFile(policy, owner=os.getuid())
    async with open_app_harness(tmp_path, saying(TOUCH, "done"), config=config, policy_file=file) as harness:
        run = await harness.run("go", mode="ask", interactive=False)
        [result] = await results_of(harness, run)
        assert result.status == "denied"
        assert "this needs approval" in result.text
        assert ("audit", "ok") in hooks_shown(result)
        assert json.loads((tmp_path / "audit").read_text())["tool"] == "bash"


PROGRAM = """
import asyncio, os, sys
from pathlib import Path
from tests.support.app_harness import open_app_harness, saying

async def main():
    async with open_app_harness(Path(sys.argv[1]), saying("done"), env={"HOME": sys.argv[1]}) as harness:
        assert (await harness.run("go")).state == "completed"

asyncio.run(main())
print([name for name in sys.modules if name.startswith("holdfast.extend.hooks") or name.endswith(".run_hooks")])
"""


def test_without_hooks_nothing_of_them_is_imported(tmp_path: Path) -> None:
    root = Path(__file__).parents[2]
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path)], capture_output=True, text=True, cwd=root, timeout=60, check=True
    )
    assert done.stdout.strip() == "[]"
