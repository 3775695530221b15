"""Scenes of the terminal interface with a fixed clock, fixed ids and no server, for pictures that never vary."""

from __future__ import annotations

import asyncio
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Literal, NamedTuple
from unittest.mock import patch

from textual.pilot import Pilot

from dev.screen_picture import DARK_TERMINAL, LIGHT_TERMINAL, draw_screen
from holdfast.client.view_fold import SessionSnapshot
from holdfast.client.view_values import StreamConnection
from holdfast.locations import Locations
from holdfast.schema.api.response_bodies import ConfigView, ModelsView, ModelView
from holdfast.schema.approvals import Approval
from holdfast.schema.events import OpenPart, Snapshot
from holdfast.schema.messages import Message, Reasoning, Text, ToolCall, ToolResult
from holdfast.schema.runs import Now, Queue, Run, RunError
from holdfast.schema.sessions import FileChange, Job, Session, Todo
from holdfast.schema.usage import Usage
from holdfast.tui.server_link import ServerLink
from holdfast.tui.tui_app import TuiApp
from holdfast.tui.tui_options import TuiOptions

_NOW = datetime(2026, 3, 14, 15, 9, 26, tzinfo=UTC)
_MODEL = "anthropic/claude-sonnet"

DIFF = """--- a/src/slug.py
+++ b/src/slug.py
@@ -6,3 +6,3 @@ import re
 def slug(title: str) -> str:
     kept = re.sub(r"[^a-z0-9 ]", "", title.lower())
-    return "-".join(kept.split(" "))
+    return "-".join(kept.split())
"""
FAILURE = """FAILED test_slug.py::test_double_blank
>       assert slug("Hold  Fast!") == "hold-fast"
E       AssertionError: 'hold--fast' != 'hold-fast'
\x1b[31m1 failed\x1b[0m, \x1b[32m41 passed\x1b[0m in 0.84s"""
REPORT = """`slug()` splits at **every** single blank, so two blanks leave an empty word. Now it splits at any
white space:

```python
return "-".join(kept.split())
```

1. All 42 tests pass; see src/slug.py:8.
2. No other caller depends on the old behaviour.
"""


def at(minutes_ago: float) -> str:
    return (_NOW - timedelta(minutes=minutes_ago)).isoformat().replace("+00:00", "Z")


class Scene(NamedTuple):
    """What is loaded, what is pressed, and on what kind of terminal."""

    about: str
    load: Callable[[ServerLink], None]
    size: tuple[int, int] = (100, 30)
    background: Literal["dark", "light"] = "dark"
    colours: int = 1 << 24
    keys: tuple[str, ...] = ()
    draft: str = ""
    no_color: bool = False
    plain: bool = False
    ready: Callable[[TuiApp], bool] = lambda app: True


class SceneApp(TuiApp):
    """The interface with a link that is already loaded and never connects."""

    def __init__(self, scene: Scene, directory: Path) -> None:
        locations = Locations.from_env({"HOME": str(directory), "HOLDFAST_HOME": str(directory)})
        options = TuiOptions(
            directory="~/src/shop",
            background=scene.background,
            colours=scene.colours,
            reduced_motion=True,
            plain=scene.plain,
        )
        super().__init__(options, env={}, locations=locations)
        self._scene = scene

    async def _start(self) -> None:
        await self.chat.mounted.wait()
        self._scene.load(self.link)
        self.link_changed()
        self.view_changed(frozenset({"reset"}), None)
        if self._scene.draft:
            self.chat.composer.set_draft(self._scene.draft)

    async def _load_changes(self) -> None:
        self.chat.changes = _CHANGES if self.link.session_id else ()
        if self.chat.is_drawn:
            self.chat.draw_details()


async def draw_scene(name: str) -> str:
    """Run a scene until nothing changes any more, and draw it."""
    scene = SCENES[name]
    with tempfile.TemporaryDirectory() as directory, _fixed_clock(), _environment(no_color=scene.no_color):
        app = SceneApp(scene, Path(directory))
        async with app.run_test(size=scene.size) as pilot:
            await _until(pilot, lambda: app.link.is_live and scene.ready(app))
            for key in scene.keys:
                await pilot.press(key)
            await _settle(pilot, app)
            rows = [list(strip) for strip in app.screen._compositor.render_strips()]
    theme = DARK_TERMINAL if scene.background == "dark" else LIGHT_TERMINAL
    return draw_screen(rows, columns=scene.size[0], title=f"holdfast: {scene.about}", theme=theme)


async def _until(pilot: Pilot[None], holds: Callable[[], Any]) -> None:
    while not holds():
        if not pilot.app.is_running:
            raise RuntimeError("the interface has ended")
        await asyncio.sleep(0.01)
        await pilot.pause()


async def _settle(pilot: Pilot[None], app: TuiApp) -> None:
    """Wait until several looks in a row are equal."""
    last, equal = None, 0
    while equal < 5:
        await asyncio.sleep(0.05)
        await pilot.pause()
        now = [list(strip) for strip in app.screen._compositor.render_strips()]
        equal = equal + 1 if now == last else 0
        last = now


@contextmanager
def _fixed_clock() -> Iterator[None]:
    with patch.object(time, "time", _NOW.timestamp):
        yield


@contextmanager
def _environment(*, no_color: bool) -> Iterator[None]:
    with patch.dict(os.environ, {"NO_COLOR": "1"} if no_color else {}):
        if not no_color:
            os.environ.pop("NO_COLOR", None)
        yield


# What is shown.

_CHANGES = (
    FileChange("src/slug.py", "modified", DIFF),
    FileChange("docs/titles.md", "created", "--- /dev/null\n+++ b/docs/titles.md\n@@ -0,0 +1,2 @@\n+# Titles\n+One.\n"),
)
_TODOS = (
    Todo("read the failing test", "completed"),
    Todo("fix slug()", "in_progress"),
    Todo("run the whole suite", "pending"),
)


class _Story:
    """The messages and runs of one session, in order."""

    def __init__(self, *, title: str = "fix the failing slug test") -> None:
        self.messages: list[Message] = []
        self.runs: list[Run] = []
        self.title = title
        self.active: str | None = None

    def add(self, role: Any, *parts: Any, **fields: Any) -> str:
        number = len(self.messages) + 1
        run_id = self.runs[-1].id
        self.messages.append(Message(f"msg_{number}", "ses_1", run_id, role, number, at(12), tuple(parts), **fields))
        return f"msg_{number}"

    def prompt(self, text: str, *, state: str = "completed", **fields: Any) -> None:
        seq = len(self.runs) + 1
        self.runs.append(
            Run(
                id=f"run_{seq}",
                session_id="ses_1",
                seq=seq,
                prompt=text,
                state=state,  # type: ignore[arg-type]
                started_at=at(0.3),
                finished_at=at(0.08) if state not in ("active", "queued") else None,
                usage=Usage(input=1200, output=640, cache_read=44_000, cost=0.031),
                **fields,
            )
        )
        if state == "active":
            self.active = f"run_{seq}"
        if state != "queued":
            self.add("user", Text(text))

    def call(
        self, name: str, result: str = "", *, status: Any = "ok", duration: float | None = 0.3, **fields: Any
    ) -> None:
        number = len(self.messages) + 1
        display = fields.pop("display", {})
        before = fields.pop("before", ())
        usage = Usage(input=1200, output=640, cache_read=44_000)
        self.add("assistant", *before, ToolCall(f"call_{number}", name, fields), model=_MODEL, usage=usage)
        if status is not None:
            result_part = ToolResult(f"call_{number}", name, status, result, display=display, duration=duration)
            self.add("tool", result_part)

    def load(
        self,
        link: ServerLink,
        *,
        queued: tuple[str, ...] = (),
        paused: Any = None,
        todos: tuple[Todo, ...] = _TODOS,
        jobs: bool = False,
    ) -> None:
        _load_workspace(link)
        session = Session(
            "ses_1",
            "wsp_1",
            title=self.title,
            usage=Usage(input=3000, output=1500, cost=0.08),
            created_at=at(12),
            updated_at=at(0.1),
        )
        waiting = tuple(run.id for run in self.runs if run.state == "queued")
        link.fold.load_sessions((session, *_OTHER_SESSIONS))
        link.fold.open_session(
            SessionSnapshot(
                session=session,
                messages=tuple(self.messages),
                runs=tuple(self.runs),
                queue=Queue("ses_1", run_ids=waiting, active=self.active, paused=paused),
                todos=todos,
            )
        )
        if jobs:
            job = Job("job_1", "wsp_1", "ses_1", "run_1", "npm run dev", started_at=at(4))
            link.fold.load_jobs((job,))
        link.session_id = "ses_1"


_OTHER_SESSIONS = (
    Session("ses_2", "wsp_1", title="upgrade dependencies", busy=True, usage=Usage(cost=0.41), updated_at=at(61)),
    Session("ses_3", "wsp_1", title="why is import slow", usage=Usage(cost=0.12), updated_at=at(60 * 26)),
    Session("ses_4", "wsp_1", title="a first look at the code", usage=Usage(cost=0.02), updated_at=at(60 * 72)),
)


def _load_workspace(link: ServerLink) -> None:
    models = (
        ModelView(name=_MODEL, context_window=200_000, images=True, reasoning=("low", "high")),
        ModelView(name="openai/gpt", context_window=400_000, images=True),
        ModelView(name="ollama/qwen3", context_window=32_000, local=True),
    )
    link.models = ModelsView(models=models, large=_MODEL, small="ollama/qwen3")
    link.config = ConfigView()
    link.fold.set_connection(StreamConnection("live"))


def _begun(now: Now) -> _Story:
    """A failing test is looked at."""
    story = _Story()
    story.prompt("why does test_slug.py fail? fix it", state="active", now=now)
    story.call(
        "grep",
        "\n".join(f"src/slug.py:{n}: slug(" for n in range(3)),
        pattern="slug\\(",
        before=(Reasoning("The test compares two titles.", duration=2.1), Text("I look at the test and its function.")),
    )
    story.call("view", "\n".join("line" for _ in range(42)), path="src/slug.py")
    story.call(
        "bash",
        "\n".join("collecting" for _ in range(11)) + "\n" + FAILURE,
        status="error",
        duration=1.2,
        command="pytest -q test_slug.py",
        display={"exit_code": 1},
    )
    return story


def _edited(story: _Story) -> None:
    story.call(
        "edit",
        "edited",
        path="src/slug.py",
        before=(Text("`slug()` splits at every single blank, so two blanks leave an empty word."),),
        display={"diff": DIFF, "files": [{"path": "src/slug.py", "added": 1, "removed": 1}]},
        duration=0.04,
    )


def load_working(link: ServerLink) -> None:
    story = _begun(Now("tool", "bash: pytest -q", at(0.05)))
    _edited(story)
    story.call("bash", status=None, command="pytest -q")
    story.prompt("also update the changelog", state="queued")
    story.load(link, jobs=True)
    output = OpenPart(0, 1, "output", "....................................", "call_10")
    link.fold.apply(Snapshot(at(0), "ses_1", "msg_10", (output,)))


def load_done(link: ServerLink) -> None:
    story = _Story()
    story.prompt("why does test_slug.py fail? fix it")
    story.call("view", "\n".join("line" for _ in range(42)), path="src/slug.py")
    _edited(story)
    story.call("bash", "42 passed in 0.91s", command="pytest -q", duration=1.3)
    story.add("assistant", Text(REPORT), model=_MODEL, usage=Usage(input=1200, output=640, cache_read=44_000))
    story.load(link, todos=tuple(Todo(todo.text, "completed") for todo in _TODOS))


def load_approval(link: ServerLink) -> None:
    story = _begun(Now("approval", "bash: git push origin main", at(0.2)))
    story.call("bash", status=None, command="git push origin main")
    story.load(link)
    approval = Approval(
        "apr_1",
        "wsp_1",
        "ses_1",
        "ses_1",
        "run_1",
        f"call_{len(story.messages)}",
        "bash",
        "git push origin main",
        why="it changes another machine",
        patterns=("bash: git push *",),
    )
    link.fold.load_asks((approval,), ())


def load_edit_approval(link: ServerLink) -> None:
    story = _begun(Now("approval", "edit: src/slug.py", at(0.2)))
    story.call("edit", status=None, path="src/slug.py")
    story.load(link)
    call = f"call_{len(story.messages)}"
    approval = Approval(
        "apr_1",
        "wsp_1",
        "ses_1",
        "ses_1",
        "run_1",
        call,
        "edit",
        "src/slug.py",
        patterns=("edit: src/**",),
        display={"diff": DIFF},
    )
    link.fold.load_asks((approval,), ())


def load_held_queue(link: ServerLink) -> None:
    story = _Story()
    story.prompt("run the tests", state="cancelled", reason="user_cancel")
    story.call("bash", "..........", status="cancelled", command="pytest -q", duration=3.4)
    story.prompt("also update the changelog", state="queued")
    story.prompt("and mention it in the docs", state="queued")
    story.load(link, paused="user")


def load_failed(link: ServerLink) -> None:
    story = _Story()
    story.prompt("first: say hello", state="interrupted", reason="server_crash")
    story.add("assistant", Text("Hello. I look at the"), model=_MODEL)
    story.call("bash", status="unknown", command="make deploy", duration=None)
    message = "anthropic: 529 overloaded; 3 attempts in 14 s. Try again later, or choose another model with /model."
    story.prompt("go on", state="failed", reason="provider", error=RunError("provider", message))
    story.load(link, todos=())


def load_empty(link: ServerLink) -> None:
    _load_workspace(link)
    link.config = ConfigView(untrusted=(".holdfast.toml",))
    link.fold.load_sessions(_OTHER_SESSIONS)


def _is_asking(app: TuiApp) -> bool:
    return app.chat.is_drawn and app.chat.ask_panel.is_armed


SCENES: dict[str, Scene] = {
    "wide": Scene("a run in a wide terminal", load_working, (130, 34), draft="and mention it in the docs"),
    "narrow": Scene("a run in 80 columns", load_working, (80, 30)),
    "tiny": Scene("a run in 40 columns", load_working, (40, 20)),
    "light": Scene("a finished run on a light background", load_done, (130, 34), background="light"),
    "dark": Scene("a finished run", load_done, (100, 34)),
    "diff": Scene("a change side by side", load_done, (160, 24)),
    "approval": Scene("a command waits for approval", load_approval, draft="and tell me", ready=_is_asking),
    "edit-approval": Scene("a change waits for approval", load_edit_approval, ready=_is_asking),
    "queue": Scene("a queue that is held after a cancel", load_held_queue, (100, 24)),
    "sessions": Scene("the list of sessions", load_done, (100, 26), keys=("ctrl+s",)),
    "error": Scene("a crash and a failed run", load_failed, (100, 24)),
    "details": Scene("the details over a narrow terminal", load_working, (90, 30), keys=("ctrl+b",)),
    "colours-16": Scene("16 colours", load_working, (100, 30), colours=16),
    "no-colour": Scene("NO_COLOR", load_working, (100, 30), no_color=True),
    "plain": Scene("plain mode", load_working, (100, 30), plain=True),
    "start": Scene("an empty start", load_empty, (100, 20)),
}
