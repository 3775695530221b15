"""A whole server without sockets: real tools, real approvals, real files."""

from __future__ import annotations

import asyncio
import shutil
import time
from pathlib import Path

import pytest

from holdfast.errors import BadRequest, ConfigError, Conflict, NoModel, NotFound
from holdfast.models.model_script import (
    ModelScript,
    RuleCondition,
    ScriptedCall,
    ScriptedText,
    ScriptedWait,
    ScriptRule,
)
from holdfast.runs.turn_handle import EngineTurnHandle
from holdfast.schema.api.request_bodies import QuestionBody
from holdfast.schema.events import (
    ApprovalRequested,
    ApprovalResolved,
    FileChanged,
    JobFinished,
    JobStarted,
    QuestionAsked,
    SessionUpdated,
    TodoChanged,
)
from holdfast.schema.messages import Message, Notice, Shell, ToolResult
from holdfast.schema.runs import Limits, Run
from holdfast.schema.sessions import Todo, UndoPreview
from holdfast.workspace.open_workspace import OpenWorkspace
from holdfast.workspace.open_workspaces import OpenWorkspaces
from tests.support.app_harness import AppHarness, open_app_harness, saying


def results(messages: tuple[Message, ...]) -> list[ToolResult]:
    return [part for message in messages for part in message.parts if isinstance(part, ToolResult)]


async def test_the_demo_fixes_its_test_and_undo_reverts_it(tmp_path: Path) -> None:
    environment = {"PYTHONDONTWRITEBYTECODE": "1"}  # as in `holdfast demo`: the test that it runs leaves no other files
    async with open_app_harness(tmp_path, env=environment) as harness:
        source = "def slug(kept):\n    return '-'.join(kept.split(\" \"))\n"
        (harness.directory / "slug.py").write_text(source)
        (harness.directory / "test_slug.py").write_text("from slug import slug\nassert slug('a  b') == 'a-b'\n")
        run = await harness.run("mend test_slug", mode="auto")
        assert (run.state, run.steps) == ("completed", 5)
        assert "kept.split()" in (harness.directory / "slug.py").read_text()
        (change,) = (await harness.app.services.sessions.changes(run.session_id)).items
        assert (change.path, change.change, change.state) == ("slug.py", "modified", "applied")
        assert "+    return '-'.join(kept.split())" in change.diff
        undone = await harness.run("", session_id=run.session_id, kind="undo")
        assert "Undone" in undone.text
        assert (harness.directory / "slug.py").read_text() == source
        (change,) = (await harness.app.services.sessions.changes(run.session_id)).items
        assert change.state == "undone"
        redone = await harness.run("", session_id=run.session_id, kind="redo")
        assert "Redone" in redone.text
        assert "kept.split()" in (harness.directory / "slug.py").read_text()
        told = [part for m in await harness.messages(run.session_id) for part in m.parts if isinstance(part, Notice)]
        assert [notice.code for notice in told] == ["undo", "redo"]


@pytest.mark.promise("W4")
async def test_a_command_that_is_not_known_to_be_safe_needs_approval_and_the_first_answer_wins(tmp_path: Path) -> None:
    script = saying((ScriptedCall("bash", {"command": "touch made"}),), "done")
    async with open_app_harness(tmp_path, script) as harness:
        accepted = await harness.start("go")
        asked = (await harness.until(ApprovalRequested)).approval
        assert (asked.title, asked.tool, asked.state) == ("touch made", "bash", "open")
        assert not (harness.directory / "made").exists()
        answers = await asyncio.gather(
            harness.app.services.approvals.answer(asked.id, "once", client="a"),
            harness.app.services.approvals.answer(asked.id, "deny", client="b"),
            return_exceptions=True,
        )
        (winner,) = [answer for answer in answers if not isinstance(answer, BaseException)]
        (loser,) = [answer for answer in answers if isinstance(answer, Conflict)]
        assert loser.detail["approval"]["answered_by"] == winner.answered_by
        run = await harness.ended(accepted)
        assert run.state == "completed"
        assert (harness.directory / "made").exists() == (winner.decision == "once")
        told = [event for event in await harness.events() if isinstance(event, ApprovalResolved)]
        assert [event.approval.answered_by for event in told] == [winner.answered_by]


async def test_an_approval_for_the_session_is_remembered_and_one_for_always_is_saved(tmp_path: Path) -> None:
    script = saying((ScriptedCall("bash", {"command": "touch made"}),), "done")
    async with open_app_harness(tmp_path, script) as harness:
        accepted = await harness.start("go")
        asked = (await harness.until(ApprovalRequested)).approval
        with pytest.raises(BadRequest, match="not offered"):
            await harness.app.services.approvals.answer(asked.id, "session", client="a", patterns=("bash: rm *",))
        await harness.app.services.approvals.answer(asked.id, "session", client="a")
        await harness.ended(accepted)
        again = await harness.run("go again", session_id=accepted.run.session_id)
        assert again.state == "completed"
        assert len([event for event in await harness.events() if isinstance(event, ApprovalRequested)]) == 1
        other = await harness.start("another session")
        async for _ in harness.app.hub.subscribe(after=f"{harness.app.store.log_id}.0"):
            if len((await harness.app.store.open_approvals()).items) == 1:
                break
        (asked,) = (await harness.app.store.open_approvals()).items
        await harness.app.services.approvals.answer(asked.id, "always", client="a", scope="all")
        await harness.ended(other)
        saved = (await harness.app.services.settings.config()).settings.approvals.allow
        assert saved == asked.patterns
        await harness.run("a third session")
        assert len([event for event in await harness.events() if isinstance(event, ApprovalRequested)]) == 2


async def test_a_non_interactive_run_does_not_wait_for_an_approval(tmp_path: Path) -> None:
    script = saying((ScriptedCall("bash", {"command": "touch made"}),), "I could not")
    async with open_app_harness(tmp_path, script) as harness:
        run = await harness.run("go", interactive=False)
        assert (run.state, run.reason) == ("failed", "denied")
        (result,) = results(await harness.messages(run.session_id))
        assert result.status == "denied"
        assert not (harness.directory / "made").exists()


async def test_a_deny_rule_applies_in_every_mode(tmp_path: Path) -> None:
    script = saying((ScriptedCall("bash", {"command": "touch made"}),), "ok")
    async with open_app_harness(tmp_path, script) as harness:
        await harness.app.services.settings.change({"approvals.deny": ["bash: touch *"]})
        run = await harness.run("go", mode="auto")
        (result,) = results(await harness.messages(run.session_id))
        assert (result.status, "bash: touch *" in result.text) == ("denied", True)
        assert not (harness.directory / "made").exists()


@pytest.mark.promise("C8", "W4")
async def test_a_cancel_closes_an_open_approval_with_an_event(tmp_path: Path) -> None:
    script = saying((ScriptedCall("bash", {"command": "touch made"}),), "done")
    async with open_app_harness(tmp_path, script) as harness:
        accepted = await harness.start("go")
        asked = (await harness.until(ApprovalRequested)).approval
        await harness.app.engine.cancel_session(accepted.run.session_id)
        assert (await harness.app.store.approval(asked.id)).state == "cancelled"
        assert any(isinstance(event, ApprovalResolved) for event in await harness.events())
        with pytest.raises(Conflict):
            await harness.app.services.approvals.answer(asked.id, "once", client="late")


async def test_a_question_is_asked_and_its_answer_is_the_result(tmp_path: Path) -> None:
    question = {"questions": [{"text": "Which?", "kind": "single", "options": ["a", "b"]}]}
    async with open_app_harness(tmp_path, saying((ScriptedCall("ask", question),), "thanks")) as harness:
        accepted = await harness.start("go")
        asked = (await harness.until(QuestionAsked)).question
        with pytest.raises(BadRequest):
            await harness.app.services.approvals.answer_question(asked.id, QuestionBody(answers=(("c",),)), client="x")
        await harness.app.services.approvals.answer_question(asked.id, QuestionBody(answers=(("b",),)), client="x")
        assert (await harness.ended(accepted)).text == "thanks"
        (result,) = results(await harness.messages(accepted.run.session_id))
        assert "b" in result.text


async def test_todos_are_stored_and_published(tmp_path: Path) -> None:
    todos = {"todos": [{"text": "first", "status": "in_progress"}, {"text": "second"}]}
    async with open_app_harness(tmp_path, saying((ScriptedCall("todos", todos),), "ok")) as harness:
        run = await harness.run("go")
        assert await harness.app.store.todos(run.session_id) == (Todo("first", "in_progress"), Todo("second"))
        assert any(isinstance(event, TodoChanged) for event in await harness.events())


async def test_a_shell_run_is_recorded_and_needs_no_approval(tmp_path: Path) -> None:
    async with open_app_harness(tmp_path) as harness:
        first = await harness.run("hello")
        run = await harness.run("", session_id=first.session_id, kind="shell", arguments={"command": "echo hi; exit 3"})
        assert run.state == "completed"
        (part,) = (await harness.messages(first.session_id))[-1].parts
        assert isinstance(part, Shell)
        assert (part.command, part.exit_code) == ("echo hi; exit 3", 3)
        assert "hi" in part.output
        with pytest.raises(BadRequest):
            await harness.run("", session_id=first.session_id, kind="shell", arguments={})


async def test_a_background_job_survives_its_run_but_not_its_workspace(tmp_path: Path) -> None:
    script = saying((ScriptedCall("bash", {"command": "echo started; sleep 1000", "background": True}),), "it runs")
    async with open_app_harness(tmp_path, script) as harness:
        run = await harness.run("go", mode="auto")
        (job,) = (await harness.app.store.jobs(workspace_id=harness.workspace_id, running=True)).items
        assert run.left_running == (f"{job.id} echo started; sleep 1000",)
        assert harness.app.services.workspaces.is_busy
        await harness.app.services.workspaces.close(harness.workspace_id)
        assert (await harness.app.store.job(job.id)).state == "killed"
        kinds = [type(event) for event in await harness.events()]
        assert kinds.index(JobStarted) < kinds.index(JobFinished)


@pytest.mark.promise("C7")
async def test_a_cancel_kills_a_running_command_and_names_it(tmp_path: Path) -> None:
    script = saying((ScriptedCall("bash", {"command": "echo ready; sleep 1000"}),), "done")
    async with open_app_harness(tmp_path, script) as harness:
        accepted = await harness.start("go", mode="auto")
        async for item in harness.app.hub.subscribe(after=f"{harness.app.store.log_id}.0"):
            if item.kind in ("delta", "snapshot") and b"ready" in item.body and b'"of":"output"' in item.body:
                break
        receipt = await harness.app.engine.cancel_session(accepted.run.session_id)
        assert receipt.runs[0].ended_as == "cancelled"
        assert any("sleep 1000" in name for name in receipt.runs[0].killed)
        (result,) = results(await harness.messages(accepted.run.session_id))
        assert result.status == "cancelled"
        assert "ready" in result.text


async def test_a_written_file_is_published_with_its_diff(tmp_path: Path) -> None:
    script = saying((ScriptedCall("write", {"path": "a/b.txt", "content": "hello\n"}),), "ok")
    async with open_app_harness(tmp_path, script) as harness:
        await harness.run("go", mode="accept_edits")
        assert (harness.directory / "a/b.txt").read_text() == "hello\n"
        (event,) = [event for event in await harness.events() if isinstance(event, FileChanged)]
        assert (event.change, "+hello" in event.diff) == ("created", True)


async def test_a_title_is_made_in_the_background(tmp_path: Path) -> None:
    async with open_app_harness(tmp_path, saying("ok")) as harness:
        await harness.run("please do something long and complicated with the parser")
        async for _ in harness.app.hub.subscribe(after=f"{harness.app.store.log_id}.0"):
            titles = [event.session.title for event in await harness.events() if isinstance(event, SessionUpdated)]
            if "A title" in titles:
                break
        assert titles == ["please do something long and complicated with the", "A title"]


@pytest.mark.promise("R11")
async def test_the_limits_of_a_run_do_not_affect_the_next(tmp_path: Path) -> None:
    script = saying(*[(ScriptedCall("ls", {}),)] * 3, "done")
    async with open_app_harness(tmp_path, script) as harness:
        short = await harness.run("go", limits=Limits(max_steps=1))
        assert (short.state, short.reason) == ("failed", "limit_steps")
        assert (await harness.run("go")).state == "completed"


async def test_a_model_that_cannot_be_used_is_refused_before_anything_is_stored(tmp_path: Path) -> None:
    async with open_app_harness(tmp_path) as harness:
        with pytest.raises(NoModel):
            await harness.start("go", model="nobody/nothing")
        with pytest.raises(NoModel):
            await harness.start("go", model=None)
        with pytest.raises(BadRequest, match="effort"):
            await harness.start("go", effort="extreme")
        assert (await harness.app.store.sessions(harness.workspace_id, limit=10)).items == ()


async def test_sub_agents_only_read_and_their_answer_is_the_result(tmp_path: Path) -> None:
    script = saying((ScriptedCall("agent", {"title": "look", "prompt": "find the file"}),), "thanks")
    async with open_app_harness(tmp_path, script) as harness:
        run = await harness.run("go")
        assert run.state == "completed"
        (child,) = (await harness.app.store.sessions(harness.workspace_id, limit=9, parent_id=run.session_id)).items
        (result, *_) = results(await harness.messages(run.session_id))
        assert result.name == "agent"
        said = results(await harness.messages(child.id))
        assert said[0].status == "error"
        assert "agent" in said[0].text


@pytest.mark.promise("W1")
async def test_a_directory_is_one_workspace_by_any_path(tmp_path: Path) -> None:
    async with open_app_harness(tmp_path) as harness:
        (tmp_path / "link").symlink_to(harness.directory)
        again, new = await harness.app.services.workspaces.open(str(tmp_path / "link"))
        assert (again.id, new) == (harness.workspace_id, False)
        for bad in ("relative", str(tmp_path / "absent"), str(tmp_path / "a\0b")):
            with pytest.raises(BadRequest):
                await harness.app.services.workspaces.open(bad)


@pytest.mark.promise("W2", "W3")
async def test_an_idle_workspace_is_closed_and_a_busy_one_is_not(tmp_path: Path) -> None:
    async with open_app_harness(tmp_path, saying((ScriptedText("x"), ScriptedWait()))) as harness:
        (tmp_path / "other").mkdir()
        other, _ = await harness.app.services.workspaces.open(str(tmp_path / "other"))
        accepted = await harness.start("go")
        for now in (0.0, 100.0):
            await harness.app.services.workspaces.close_idle(watched=frozenset(), linger=60.0, now=now)
        assert (await harness.app.services.workspaces.view(harness.workspace_id)).open
        assert not (await harness.app.services.workspaces.view(other.id)).open
        assert (await harness.app.engine.get_run(accepted.run.id)).state == "active"


async def test_a_fork_has_the_messages_up_to_one_and_is_independent(tmp_path: Path) -> None:
    async with open_app_harness(tmp_path, saying("answer")) as harness:
        first = await harness.run("one")
        await harness.run("two", session_id=first.session_id)
        source = await harness.messages(first.session_id)
        fork = await harness.app.services.sessions.fork(first.session_id, message_id=source[1].id)
        assert fork.forked_from == first.session_id
        copied = await harness.messages(fork.id)
        assert [message.parts for message in copied] == [message.parts for message in source[:2]]
        assert (await harness.run("three", session_id=fork.id)).state == "completed"
        assert len(await harness.messages(first.session_id)) == 4
        with pytest.raises(NotFound):
            await harness.app.services.sessions.fork(first.session_id, message_id="msg_absent")


async def test_a_session_is_exported_as_markdown(tmp_path: Path) -> None:
    async with open_app_harness(tmp_path, saying((ScriptedText("I look"), ScriptedCall("ls", {})), "done")) as harness:
        run = await harness.run("what is there?")
        text = await harness.app.services.sessions.export_markdown(run.session_id)
        for words in ("## User", "what is there?", "## Assistant", "I look", "`ls`", "done"):
            assert words in text
        assert "You are Holdfast" not in text


async def test_files_are_found_by_fuzzy_name(tmp_path: Path) -> None:
    async with open_app_harness(tmp_path) as harness:
        for name in ("src/parser.py", "src/lexer.py", "tests/test_parser.py", "README.md"):
            path = harness.directory / name
            path.parent.mkdir(exist_ok=True)
            path.write_text("")
        find_files, workspace_id = harness.app.services.workspaces.find_files, harness.workspace_id
        found = await find_files(workspace_id, "pars", limit=10)
        assert found == ("src/parser.py", "tests/test_parser.py")
        assert await find_files(workspace_id, "srclx", limit=10) == ("src/lexer.py",)
        assert len(await find_files(workspace_id, "", limit=2)) == 2


async def test_undo_covers_what_a_sub_agent_wrote(tmp_path: Path) -> None:
    script = ModelScript(
        rules=(
            ScriptRule(
                do=(ScriptedCall("write", {"path": "c.txt", "content": "child"}),),
                when=RuleCondition(step=0, prompt="write it"),
            ),
            ScriptRule(do=(ScriptedText("written"),), when=RuleCondition(step=1, prompt="write it")),
            ScriptRule(
                do=(ScriptedCall("agent", {"title": "t", "prompt": "write it", "agent": "hand"}),),
                when=RuleCondition(step=0),
            ),
            ScriptRule(do=(ScriptedText("done"),)),
        )
    )
    async with open_app_harness(tmp_path, script) as harness:
        agent = {"agents.hand.tools": ["write"], "agents.hand.description": "writes"}
        await harness.app.services.settings.change(agent)
        run = await harness.run("go", mode="accept_edits")
        assert (harness.directory / "c.txt").read_text() == "child"
        undone = await harness.run("", session_id=run.session_id, kind="undo")
        assert "Undone" in undone.text
        assert not (harness.directory / "c.txt").exists()
        again = await harness.run("", session_id=run.session_id, kind="undo")
        assert "nothing to undo" in again.text
        await harness.run("", session_id=run.session_id, kind="redo")
        assert (harness.directory / "c.txt").read_text() == "child"


async def test_undo_to_a_message_reverts_everything_since(tmp_path: Path) -> None:
    script = saying(
        (ScriptedCall("bash", {"command": "true"}), ScriptedCall("write", {"path": "{prompt}", "content": "x"})), "ok"
    )
    async with open_app_harness(tmp_path, script) as harness:
        first = await harness.run("a.txt", mode="auto")
        await harness.run("b.txt", mode="auto", session_id=first.session_id)
        await harness.run("c.txt", mode="auto", session_id=first.session_id)
        second = [m for m in await harness.messages(first.session_id) if m.role == "user"][1]
        arguments = {"to_message_id": second.id}
        await harness.run("", session_id=first.session_id, kind="undo", arguments=arguments)
        assert sorted(path.name for path in harness.directory.iterdir()) == ["a.txt"]
        lost = await harness.run("", session_id=first.session_id, kind="undo", arguments={"to_message_id": "msg_x"})
        assert lost.state == "failed"


async def test_an_invalid_rule_is_reported_before_anything_runs(tmp_path: Path) -> None:
    async with open_app_harness(tmp_path, saying("ok")) as harness:
        await harness.app.services.settings.change({"approvals.allow": ["bash: 'unclosed"]})
        with pytest.raises(ConfigError, match="unclosed"):
            await harness.start("go")


@pytest.mark.promise("W8")
async def test_a_secret_in_a_command_is_not_shown_and_not_offered_as_a_rule(tmp_path: Path) -> None:
    planted = "sk-ant-planted-0123456789abcdef"
    script = saying((ScriptedCall("bash", {"command": f"touch {planted}"}),), "done")
    async with open_app_harness(tmp_path, script, env={"ANTHROPIC_API_KEY": planted}) as harness:
        accepted = await harness.start("go")
        asked = (await harness.until(ApprovalRequested)).approval
        assert planted not in repr((asked.title, asked.why, asked.patterns))
        assert asked.patterns == () or planted not in "".join(asked.patterns)
        await harness.app.services.approvals.answer(asked.id, "deny", client="a")
        await harness.ended(accepted)


async def test_redo_reverts_the_last_undo_and_a_new_write_clears_older_ones(tmp_path: Path) -> None:
    def writing(name: str, prompt: str) -> ScriptRule:
        call = ScriptedCall("write", {"path": name, "content": "x"})
        return ScriptRule(do=(call,), when=RuleCondition(step=0, prompt=prompt))

    rules = (writing("a.txt", "the second prompt"), writing("f.txt", "the first prompt"), *saying("", "ok").rules)
    async with open_app_harness(tmp_path, ModelScript(rules=rules)) as harness:
        session = (await harness.run("the first prompt", mode="accept_edits")).session_id

        async def again(kind: str) -> str:
            return (await harness.run("", session_id=session, kind=kind)).text

        await again("undo")
        await harness.run("the second prompt", mode="accept_edits", session_id=session)
        await again("undo")
        assert "a.txt" in await again("redo")
        assert [path.name for path in harness.directory.iterdir()] == ["a.txt"]
        assert "nothing to redo" in await again("redo")


async def test_a_redo_that_is_not_possible_is_reported_once(tmp_path: Path) -> None:
    async with open_app_harness(
        tmp_path, saying((ScriptedCall("write", {"path": "a.txt", "content": "x"}),), "ok")
    ) as harness:
        session = (await harness.run("go", mode="accept_edits")).session_id
        (harness.directory / "a.txt").unlink()
        assert "Already undone" in (await harness.run("", session_id=session, kind="undo")).text
        assert "not touched" in (await harness.run("", session_id=session, kind="redo")).text.lower()
        assert "nothing to redo" in (await harness.run("", session_id=session, kind="redo")).text


async def test_a_workspace_without_its_directory_refuses_prompts(tmp_path: Path) -> None:
    async with open_app_harness(tmp_path, saying("ok")) as harness:
        harness.directory.rmdir()
        with pytest.raises(BadRequest, match="does not exist"):
            await harness.start("go")
        assert not harness.directory.exists()


async def test_the_output_of_every_call_is_stored_and_the_run_has_its_model(tmp_path: Path) -> None:
    script = saying((ScriptedCall("ls", {}), ScriptedCall("bash", {"command": "seq 1 20000"})), "done")
    async with open_app_harness(tmp_path, script) as harness:
        await harness.app.services.settings.change({"models.large": "offline/demo"})
        run = await harness.run("go", mode="auto", model=None)
        assert run.model == "offline/demo"
        listed, counted = results(await harness.messages(run.session_id))
        short = await harness.app.store.call_output(listed.call_id)
        assert short.path == ""
        assert short.message_id == (await harness.messages(run.session_id))[-2].id
        long = await harness.app.store.call_output(counted.call_id)
        assert Path(long.path).read_text().endswith("19999\n20000\n")


async def _preview(harness: AppHarness, session_id: str) -> UndoPreview:
    return await harness.app.services.sessions.preview_undo(session_id, to_message_id=None)


async def _undo_confirmed(harness: AppHarness, session_id: str) -> Run:
    confirmed = {"confirmed_runs": list((await _preview(harness, session_id)).runs)}
    return await harness.run("", session_id=session_id, kind="undo", arguments=confirmed)


async def test_undo_covers_what_the_agents_commands_changed(tmp_path: Path) -> None:
    script = saying(
        (ScriptedCall("view", {"path": "a.txt"}),),
        (ScriptedCall("edit", {"path": "a.txt", "old_text": "one", "new_text": "two"}),),
        (ScriptedCall("bash", {"command": "sed -i s/two/three/ a.txt; rm b.txt; mkdir d; echo x >d/new.txt"}),),
        "done",
    )
    async with open_app_harness(tmp_path, script) as harness:
        for name, text in (("a.txt", "one\n"), ("b.txt", "b\n")):
            (harness.directory / name).write_text(text)
        run = await harness.run("change the files", mode="auto")
        assert run.state == "completed"
        changed = [(event.path, event.change) for event in await harness.events() if isinstance(event, FileChanged)]
        root = harness.directory.resolve()
        assert changed[0] == (str(root / "a.txt"), "modified")
        assert sorted(changed[1:]) == [
            (str(root / "a.txt"), "modified"),
            (str(root / "b.txt"), "deleted"),
            (str(root / "d/new.txt"), "created"),
        ]
        view = await harness.app.services.sessions.changes(run.session_id)
        assert [(file.path, file.change, file.by_command) for file in view.items] == [
            ("a.txt", "modified", True),
            ("b.txt", "deleted", True),
            ("d/new.txt", "created", True),
        ]
        (by_run,) = view.runs
        assert (by_run.run_id, by_run.prompt, len(by_run.files)) == (run.id, "change the files", 3)
        assert "-one\n+three\n" in by_run.files[0].diff

        preview = await _preview(harness, run.session_id)
        assert (preview.runs, {file.action for file in preview.files}) == ((run.id,), {"confirm"})
        refused = await harness.run("", session_id=run.session_id, kind="undo")
        assert refused.text.count("may have been changed by you") == 3
        assert (harness.directory / "a.txt").read_text() == "three\n"
        await _undo_confirmed(harness, run.session_id)
        assert sorted(path.name for path in harness.directory.iterdir()) == ["a.txt", "b.txt"]
        assert (harness.directory / "a.txt").read_text() == "one\n"
        await harness.run("", session_id=run.session_id, kind="redo")
        assert sorted(path.name for path in harness.directory.iterdir()) == ["a.txt", "d"]
        assert (harness.directory / "a.txt").read_text() == "three\n"


async def test_an_undo_in_two_parts_is_redone_as_one(tmp_path: Path) -> None:
    script = saying(
        (
            ScriptedCall("write", {"path": "tool", "content": "x\n"}),
            ScriptedCall("bash", {"command": "echo x >command"}),
        ),
        "done",
    )
    async with open_app_harness(tmp_path, script) as harness:
        earlier = await harness.run("an earlier run", mode="auto")
        for name in ("tool", "command"):
            (harness.directory / name).unlink()
        run = await harness.run("go", session_id=earlier.session_id, mode="auto")
        await harness.run("", session_id=run.session_id, kind="undo")
        assert [path.name for path in harness.directory.iterdir()] == ["command"]
        await _undo_confirmed(harness, run.session_id)
        assert list(harness.directory.iterdir()) == []
        await harness.run("", session_id=run.session_id, kind="redo")
        assert sorted(path.name for path in harness.directory.iterdir()) == ["command", "tool"]


async def test_a_read_only_command_and_a_persons_command_take_no_snapshot(tmp_path: Path) -> None:
    script = saying((ScriptedCall("bash", {"command": "cat a.txt"}),), "done")
    async with open_app_harness(tmp_path, script) as harness:
        (harness.directory / "a.txt").write_text("one\n")
        run = await harness.run("look", mode="auto")
        assert run.state == "completed"
        person = await harness.run("", session_id=run.session_id, kind="shell", arguments={"command": "echo x >mine"})
        assert person.state == "completed"
        assert not harness.app.shared.locations.snapshots_dir.joinpath("shadow.db").exists()
        assert (await harness.app.services.sessions.changes(run.session_id)).runs == ()


async def test_what_a_background_job_changes_is_not_covered_and_undo_says_so(tmp_path: Path) -> None:
    command = "echo early >early; until [ -e go ]; do sleep 0.01; done; echo late >late"
    script = saying((ScriptedCall("bash", {"command": command, "background": True}),), "done")
    async with open_app_harness(tmp_path, script) as harness:
        run = await harness.run("go", mode="auto")
        (harness.directory / "go").touch()
        await harness.until(JobFinished)
        (by_run,) = (await harness.app.services.sessions.changes(run.session_id)).runs
        assert [file.path for file in by_run.files] == ["early"]
        assert "background job" in by_run.notes[0]
        undone = await _undo_confirmed(harness, run.session_id)
        assert "background job" in undone.text
        assert sorted(path.name for path in harness.directory.iterdir()) == ["go", "late"]


async def test_commands_of_a_server_that_was_killed_can_be_undone(tmp_path: Path) -> None:
    """The mark of a command is stored before it starts; here the server is gone before it ends."""
    script = saying((ScriptedCall("bash", {"command": "echo two >a.txt; touch started; sleep 100"}),), "done")
    async with open_app_harness(tmp_path, script) as harness:
        (harness.directory / "a.txt").write_text("one\n")
        accepted = await harness.start("go", mode="auto")
        await asyncio.to_thread(_wait_for, harness.directory / "started")
        home = harness.app.shared.locations.data_dir
        shutil.copytree(home, tmp_path / "killed")  # what a server that dies now leaves
    shutil.rmtree(home)
    shutil.move(tmp_path / "killed", home)
    async with open_app_harness(tmp_path, script) as harness:
        session_id = accepted.run.session_id
        (by_run,) = (await harness.app.services.sessions.changes(session_id)).runs
        assert sorted(file.path for file in by_run.files) == ["a.txt", "started"]
        await _undo_confirmed(harness, session_id)
        assert (harness.directory / "a.txt").read_text() == "one\n"


def _wait_for(path: Path) -> None:
    while not path.exists():
        time.sleep(0.01)


async def test_commands_are_not_covered_if_that_is_turned_off(tmp_path: Path) -> None:
    script = saying((ScriptedCall("bash", {"command": "echo x >x"}),), "done")
    async with open_app_harness(tmp_path, script, config="[undo]\ncommands = false\n") as harness:
        run = await harness.run("go", mode="auto")
        assert (await harness.app.services.sessions.changes(run.session_id)).runs == ()


@pytest.mark.parametrize("trusted", [True, False])
async def test_formatters_run_only_in_a_trusted_directory(tmp_path: Path, trusted: bool) -> None:
    script = saying((ScriptedCall("write", {"path": "a.js", "content": "one\n"}),), "done")
    async with open_app_harness(tmp_path, script) as harness:
        program = harness.directory / "node_modules/.bin/prettier"
        program.parent.mkdir(parents=True)
        program.write_text("#!/bin/sh\ntr a-z A-Z\n")
        program.chmod(0o755)
        (harness.directory / ".prettierrc").write_text("{}")
        if trusted:
            await harness.app.services.workspaces.trust(harness.workspace_id)
        run = await harness.run("go", mode="auto")
        (result,) = results(await harness.messages(run.session_id))
        assert ("[prettier formatted a.js:]" in result.text) == trusted
        assert (harness.directory / "a.js").read_text() == ("ONE\n" if trusted else "one\n")
        await harness.run("", session_id=run.session_id, kind="undo")
        assert not (harness.directory / "a.js").exists()


async def test_a_report_about_very_many_files_is_short(tmp_path: Path) -> None:
    script = saying((ScriptedCall("bash", {"command": "for i in $(seq 150); do echo x >$i.txt; done"}),), "done")
    async with open_app_harness(tmp_path, script) as harness:
        run = await harness.run("go", mode="auto")
        undone = await _undo_confirmed(harness, run.session_id)
        assert "Undone: 50 more files" in undone.text
        assert list(harness.directory.iterdir()) == []


async def test_a_turn_first_lets_prompts_be_accepted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    order: list[str] = []
    live = OpenWorkspaces.live

    async def may_begin(self: EngineTurnHandle) -> None:
        order.append("may begin")

    async def noted_live(self: OpenWorkspaces, workspace_id: str) -> OpenWorkspace:
        order.append("begins")
        return await live(self, workspace_id)

    monkeypatch.setattr(EngineTurnHandle, "may_begin", may_begin)
    monkeypatch.setattr(OpenWorkspaces, "live", noted_live)
    async with open_app_harness(tmp_path) as harness:
        assert (await harness.run("hello")).state == "completed"
    assert order == ["may begin", "begins"]
