"""Record the event logs under tests/client/golden: what a real server sends while the scripted model works.

``python -m dev.record_event_logs [NAME... | views]``. The logs drive the tests of every client's fold, also the web
page's. Each log has one event per line; ``NAME.snapshots.jsonl`` has what the server's GETs returned at some of its
events, and ``NAME.view.json`` the view at the end. Ids are shortened, and the temporary directory is ``/project``.
"""

from __future__ import annotations

import asyncio
import re
import shutil
import sys
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec

from holdfast.models.model_script import (
    ModelScript,
    RuleCondition,
    ScriptedCall,
    ScriptedFailure,
    ScriptedPause,
    ScriptedReasoning,
    ScriptedText,
    ScriptRule,
)
from holdfast.schema.api.request_bodies import (
    LaneCommandBody,
    MessagesQuery,
    QuestionBody,
    SessionsQuery,
    ShellBody,
    UndoBody,
)
from holdfast.schema.base import to_builtins
from holdfast.schema.events import read_event
from holdfast.schema.runs import END_STATES
from tests.client.event_logs import GOLDEN, NAMES, canonical_json, fold_log, read_log
from tests.support.app_harness import AppHarness, open_app_harness, saying

_ID = re.compile(r"\b(wsp|ses|run|msg|call|apr|qst|job|cli)_1[0-9a-z]{24}\b")
_SETTLED = 0.15
"""Seconds without an event after which nothing is under way."""


class Recorder:
    """Collects the events of a server, and what its GETs return in between."""

    def __init__(self, harness: AppHarness) -> None:
        self.harness = harness
        self.events: list[bytes] = []
        self.snapshots: list[dict[str, Any]] = []
        self.session_id = ""

    async def watch(self, after: str) -> None:
        async for item in self.harness.app.hub.subscribe(after=after):
            if item.kind != "heartbeat":
                self.events.append(item.body)

    async def settle(self) -> None:
        """Wait until no event has arrived for a while."""
        count = -1
        while count != len(self.events):
            count = len(self.events)
            await asyncio.sleep(_SETTLED)

    async def until(self, kind: str, *, count: int = 1) -> dict[str, Any]:
        """Wait for an event of a kind, and return it."""
        while True:
            found = [event for event in map(msgspec.json.decode, self.events) if event["kind"] == kind]
            if len(found) >= count:
                return found[count - 1]
            await asyncio.sleep(0.005)

    async def snapshot(self) -> None:
        """Record what a client that connects now reads. Nothing may happen meanwhile."""
        while True:
            await self.settle()
            count = len(self.events)
            values = await self._read()
            if count == len(self.events):
                self.snapshots.append({"after": count, **values})
                return

    async def _read(self) -> dict[str, Any]:
        services, workspace_id = self.harness.app.services, self.harness.workspace_id
        sessions = (await services.sessions.list_sessions(workspace_id, SessionsQuery())).items
        opened = []
        for session in await self._family(self.session_id):
            runs = (await services.runs.list_runs(session, limit=1000, before=None, states=())).items
            messages = (await services.sessions.list_messages(session, MessagesQuery(limit=1000))).items
            opened.append({"session": await services.sessions.view(session), "runs": runs, "messages": messages})
        values = {
            "sessions": sessions,
            "opened": opened,
            "approvals": (await services.approvals.list_open(workspace_id)).items,
            "questions": (await services.approvals.list_open_questions(workspace_id)).items,
            "jobs": (await services.workspaces.jobs(workspace_id)).items,
        }
        return {name: to_builtins(value) for name, value in values.items()}

    async def _family(self, session_id: str) -> list[str]:
        query = SessionsQuery(parent=session_id)
        found = await self.harness.app.services.sessions.list_sessions(self.harness.workspace_id, query)
        return [session_id, *(child.id for child in found.items)]

    async def start(self, prompt: str, **fields: Any) -> str:
        accepted = await self.harness.start(prompt, session_id=self.session_id or None, **{"mode": "auto", **fields})
        self.session_id = accepted.run.session_id
        return accepted.run.id

    async def run(self, prompt: str, **fields: Any) -> None:
        await self.ended(await self.start(prompt, **fields))

    async def ended(self, run_id: str) -> None:
        run = await self.harness.app.engine.wait_run(run_id, timeout=60)
        assert run.state in END_STATES, run


@asynccontextmanager
async def recording(directory: Path, script: ModelScript, *, config: str = "") -> AsyncIterator[Recorder]:
    async with open_app_harness(directory, script, config=config) as harness:
        recorder = Recorder(harness)
        watcher = asyncio.create_task(recorder.watch(f"{harness.app.store.log_id}.0"))
        try:
            yield recorder
            await recorder.settle()
        finally:
            watcher.cancel()


TALK = "Here is **what** I found:\n\n- one `thing`\n- another\n\n```python\ndef slug(text):\n    return text\n```\n"


async def record_tools(directory: Path) -> Recorder:
    (directory / "work").mkdir()
    (directory / "work" / "slug.py").write_text("def slug(text):\n    return '-'.join(text.split(' '))\n")
    script = saying(
        (
            ScriptedReasoning("The test fails. I look at the function first."),
            ScriptedText("I look at the function."),
            ScriptedCall("view", {"path": "slug.py"}),
            ScriptedCall("grep", {"pattern": "slug"}),
        ),
        ScriptedCall("bash", {"command": "printf '\\033[31mFAILED\\033[0m one\\n'; sleep 0.2; echo two; exit 1"}),
        (
            ScriptedText("I fix it."),
            ScriptedCall("edit", {"path": "slug.py", "old_text": "text.split(' ')", "new_text": "text.split()"}),
        ),
        TALK,
    )
    async with recording(directory, script) as recorder:
        run = await recorder.start("why does the test fail? 日本語 🙂")
        await recorder.until("snapshot")
        await recorder.ended(run)
        await recorder.snapshot()
    return recorder


async def record_approvals(directory: Path) -> Recorder:
    call = ScriptedCall("bash", {"command": "touch made && git push origin main"})
    async with recording(directory, saying(call, call, "One was allowed, one was not.")) as recorder:
        run = await recorder.start("push it", mode="ask")
        first = await recorder.until("approval.requested")
        await recorder.snapshot()
        answer = recorder.harness.app.services.approvals.answer
        await answer(first["approval"]["id"], "once", client="phone/1 cli_phone")
        second = await recorder.until("approval.requested", count=2)
        await answer(second["approval"]["id"], "deny", feedback="not today", client="tui/1 cli_me")
        await recorder.ended(run)
        await recorder.snapshot()
    return recorder


async def record_questions(directory: Path) -> Recorder:
    questions = [
        {"text": "Which database?", "kind": "single", "options": ["sqlite", "postgres"]},
        {"text": "Anything else?"},
    ]
    script = saying(ScriptedCall("ask", {"questions": questions}), "So be it: {result}")
    async with recording(directory, script) as recorder:
        run = await recorder.start("set it up")
        asked = await recorder.until("question.asked")
        await recorder.snapshot()
        body = QuestionBody(answers=(("sqlite",), ("no",)))
        await recorder.harness.app.services.approvals.answer_question(
            asked["question"]["id"], body, client="web/1 cli_web"
        )
        await recorder.ended(run)
    return recorder


async def record_queue_and_steer(directory: Path) -> Recorder:
    script = saying(
        (ScriptedText("Working on it."), ScriptedCall("bash", {"command": "sleep 0.4; echo done"})), "Done."
    )
    async with recording(directory, script) as recorder:
        await recorder.start("first")
        await recorder.until("delta")
        second = await recorder.start("second")
        third = await recorder.start("third")
        await recorder.start("and also this", delivery="steer")
        services = recorder.harness.app.services
        await services.runs.change(third, position=1)
        await services.runs.change(second, prompt="second, changed")
        await services.runs.pause(recorder.session_id)
        await recorder.until("run.finished")
        await recorder.snapshot()
        await services.runs.resume(recorder.session_id)
        await recorder.ended(third)
        await recorder.ended(second)
        await recorder.snapshot()
    return recorder


async def record_cancel(directory: Path) -> Recorder:
    script = saying(
        (ScriptedText("I start it now."), ScriptedCall("bash", {"command": "echo started; sleep 60"})), "Done."
    )
    told = ScriptRule((ScriptedText("You stopped it."),), RuleCondition(prompt="what happened"))
    script = msgspec.structs.replace(script, rules=(told, *script.rules))
    async with recording(directory, script) as recorder:
        await recorder.start("start it")
        await recorder.until("snapshot", count=2)
        await recorder.start("then this")
        await recorder.start("and this", delivery="steer")
        await recorder.snapshot()
        await recorder.harness.app.services.runs.cancel_session(recorder.session_id, "session")
        await recorder.snapshot()
        await recorder.run("what happened?")
    return recorder


async def record_retry(directory: Path) -> Recorder:
    rules = (
        ScriptRule((ScriptedText("A title"),), RuleCondition(system="^Give this coding task a title")),
        ScriptRule((ScriptedText("The first atte"), ScriptedFailure("overloaded", retry_after=0.3)), times=1),
        ScriptRule((ScriptedText("The second attempt."),), RuleCondition(prompt="try")),
        ScriptRule((ScriptedFailure("auth", "the key was refused"),)),
    )
    async with recording(directory, ModelScript(rules=rules)) as recorder:
        await recorder.run("try")
        await recorder.run("fail")
        await recorder.snapshot()
    return recorder


async def record_compaction(directory: Path) -> Recorder:
    summary = ScriptRule(
        (ScriptedText("## Task\nWe talked."),), RuleCondition(prompt="about to be replaced by a summary")
    )
    script = saying("Hello.")
    script = msgspec.structs.replace(script, rules=(summary, *script.rules))
    config = '[models]\nlarge = "offline/demo"\n'
    async with recording(directory, script, config=config) as recorder:
        await recorder.run("hello")
        accepted = await recorder.harness.app.services.runs.compact(
            recorder.session_id, LaneCommandBody(), client="tui/1 cli_me"
        )
        await recorder.ended(accepted.run.id)
        await recorder.snapshot()
        await recorder.run("and now?")
    return recorder


async def record_subagents(directory: Path) -> Recorder:
    agent = ScriptedCall("agent", {"title": "look around", "prompt": "look for slugs"})
    rules = (
        ScriptRule((ScriptedText("A title"),), RuleCondition(system="^Give this coding task a title")),
        ScriptRule(
            (ScriptedText("I look."), ScriptedCall("ls", {"path": "."})), RuleCondition(prompt="slugs$", step=0)
        ),
        ScriptRule(
            (
                ScriptedPause(0.3),
                ScriptedText("There are none."),
            ),
            RuleCondition(prompt="slugs$", step=1),
        ),
        ScriptRule((ScriptedText("Two look around."), agent, agent), RuleCondition(step=0)),
        ScriptRule((ScriptedText("Both say no."),), RuleCondition(step=1)),
    )
    async with recording(directory, ModelScript(rules=rules)) as recorder:
        run = await recorder.start("are there slugs?!")
        await recorder.until("session.created", count=3)
        await recorder.snapshot()
        await recorder.ended(run)
        await recorder.snapshot()
    return recorder


async def record_todos_and_undo(directory: Path) -> Recorder:
    def todos(*states: str) -> ScriptedCall:
        names = ("read the test", "fix it")
        return ScriptedCall(
            "todos", {"todos": [{"text": name, "status": state} for name, state in zip(names, states, strict=True)]}
        )

    script = saying(
        todos("in_progress", "pending"),
        (ScriptedCall("write", {"path": "notes.txt", "content": "one\ntwo\n"}),),
        todos("completed", "completed"),
        "Written.",
    )
    async with recording(directory, script) as recorder:
        await recorder.run("write notes")
        runs = recorder.harness.app.services.runs
        undone = await runs.undo(recorder.session_id, UndoBody(), client="tui/1 cli_me")
        await recorder.ended(undone.run.id)
        await recorder.snapshot()
        redone = await runs.redo(recorder.session_id, UndoBody(), client="tui/1 cli_me")
        await recorder.ended(redone.run.id)
    return recorder


async def record_jobs_and_shell(directory: Path) -> Recorder:
    job = ScriptedCall("bash", {"command": "echo serving; sleep 60", "background": True})
    async with recording(directory, saying(job, "It runs.")) as recorder:
        await recorder.run("start the server")
        services = recorder.harness.app.services
        shell = await services.runs.run_shell(
            recorder.session_id, ShellBody(command="echo mine; sleep 0.2; exit 3"), client="tui/1 cli_me"
        )
        await recorder.ended(shell.run.id)
        await recorder.snapshot()
        started = await recorder.until("job.started")
        await services.workspaces.kill_job(started["job"]["id"])
        await recorder.until("job.finished")
    return recorder


async def record_crash(directory: Path) -> Recorder:
    """The database is copied while a command runs, and a server opens the copy, as after a power failure."""
    script = saying((ScriptedText("I deploy."), ScriptedCall("bash", {"command": "echo deploying; sleep 60"})), "Done.")
    before = directory / "before"
    before.mkdir()
    async with recording(before, script) as recorder:
        await recorder.start("deploy")
        await recorder.until("snapshot", count=2)
        await recorder.start("then tell me")
        await recorder.settle()
        events, session_id = list(recorder.events), recorder.session_id
        log = recorder.harness.app.store.log_id
        number = recorder.harness.app.store.last_number
        shutil.copytree(before / "home", directory / "home", ignore=shutil.ignore_patterns("*.sock"))
    (directory / "work").symlink_to(before / "work")
    async with open_app_harness(directory, saying("I was interrupted.")) as harness:
        after = Recorder(harness)
        after.session_id, after.events = session_id, events
        watcher = asyncio.create_task(after.watch(f"{log}.{number}"))
        await after.until("run.finished", count=2)
        await after.snapshot()
        watcher.cancel()
    return after


RECORDERS: dict[str, Callable[[Path], Awaitable[Recorder]]] = {
    name.removeprefix("record_"): function
    for name, function in list(globals().items())
    if name.startswith("record_") and callable(function)
}


def shorten(texts: list[str], directory: Path) -> list[str]:
    """Replace ids by short ones, in the order of their appearance, and the directory by a fixed name."""
    known: dict[str, str] = {}
    counts: dict[str, int] = {}

    def short(found: re.Match[str]) -> str:
        if found[0] not in known:
            counts[found[1]] = counts.get(found[1], 0) + 1
            known[found[0]] = f"{found[1]}_{counts[found[1]]}"
        return known[found[0]]

    places = [str(directory / "before" / "work"), str(directory / "work"), str(directory)]
    found = []
    for text in texts:
        for place in places:
            text = text.replace(place, "/project")
        found.append(_ID.sub(short, text))
    return found


def store_views() -> None:
    for name in NAMES:
        (GOLDEN / f"{name}.view.json").write_text(canonical_json(fold_log(read_log(name)).view()))


async def main(names: list[str]) -> None:
    for name in names or list(RECORDERS):
        with tempfile.TemporaryDirectory(prefix="holdfast-record-") as made:
            recorder = await RECORDERS[name](Path(made))
            snapshots = [msgspec.json.encode(value).decode() for value in recorder.snapshots]
            lines = shorten([event.decode() for event in recorder.events] + snapshots, Path(made))
        count = len(recorder.events)
        (GOLDEN / f"{name}.jsonl").write_text("".join(f"{line}\n" for line in lines[:count]))
        (GOLDEN / f"{name}.snapshots.jsonl").write_text("".join(f"{line}\n" for line in lines[count:]))
        kinds = {read_event(event.encode()).__class__.__name__ for event in lines[:count]}
        print(f"{name}: {count} events of {len(kinds)} kinds, {len(snapshots)} snapshots")


if __name__ == "__main__":
    if sys.argv[1:] != ["views"]:
        asyncio.run(main(sys.argv[1:]))
    store_views()
