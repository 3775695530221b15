"""A whole server without sockets: a real store, real tools, and the scripted model or a provider on loopback."""

import asyncio
import os
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from holdfast.app import App, open_app
from holdfast.config import PolicyFile
from holdfast.locations import Locations
from holdfast.models.model_script import ModelScript, RuleCondition, ScriptAction, ScriptedText, ScriptRule
from holdfast.runs import EngineLimits
from holdfast.schema.events import Event, read_event
from holdfast.schema.messages import Message
from holdfast.schema.runs import END_STATES, Accepted, Run, RunRequest
from tests.support.any_store import store_variable
from tests.support.engine_harness import LONG_LIMITS


class AppHarness:
    """An open app with one workspace, and shortcuts for tests."""

    def __init__(self, app: App, directory: Path, workspace_id: str) -> None:
        self.app = app
        self.directory = directory
        self.workspace_id = workspace_id

    async def start(self, prompt: str, *, session_id: str | None = None, **fields: Any) -> Accepted:
        request = RunRequest(prompt=prompt, model=fields.pop("model", "offline/demo"), **fields)
        engine = self.app.engine
        if session_id is None:
            return await engine.accept_in_new_session(
                self.workspace_id, request, client="test", body_hash=repr(request)
            )
        return await engine.accept(session_id, request, client="test", body_hash=repr(request))

    async def ended(self, accepted: Accepted) -> Run:
        run = await self.app.engine.wait_run(accepted.run.id, timeout=30)
        assert run.state in END_STATES, f"the run has not ended: {run}"
        return run

    async def run(self, prompt: str, **fields: Any) -> Run:
        return await self.ended(await self.start(prompt, **fields))

    async def messages(self, session_id: str) -> tuple[Message, ...]:
        return (await self.app.store.messages(session_id, limit=1000)).items

    async def events(self) -> list[Event]:
        store = self.app.store
        page = await store.events_after(0, upto=store.last_number, limit=1_000_000, max_bytes=1 << 40)
        return [read_event(event.body) for event in page.events]

    async def until(self, kind: type[Any]) -> Any:
        """Return the first event of this kind in the log; wait for it if necessary."""
        async for item in self.app.hub.subscribe(after=f"{self.app.store.log_id}.0"):
            event = read_event(item.body)
            if isinstance(event, kind):
                return event
        raise AssertionError(f"there was no {kind.__name__}")


def saying(*answers: str | ScriptAction | tuple[ScriptAction, ...], **fields: Any) -> ModelScript:
    """Return a script that answers each prompt with these answers, one per step. Requests for a title get their own."""
    acts = tuple(
        (ScriptedText(answer),) if isinstance(answer, str) else answer if isinstance(answer, tuple) else (answer,)
        for answer in answers
    )
    title = ScriptRule(do=(ScriptedText("A title"),), when=RuleCondition(system="^Give this coding task a title"))
    steps = tuple(ScriptRule(do=act, when=RuleCondition(step=number)) for number, act in enumerate(acts))
    return ModelScript(rules=(title, *steps), **fields)


@asynccontextmanager
async def open_app_harness(
    directory: Path,
    script: ModelScript | None = None,
    *,
    env: Mapping[str, str] | None = None,
    config: str = "",
    limits: EngineLimits = LONG_LIMITS,
    policy_file: PolicyFile | None = None,
) -> AsyncIterator[AppHarness]:
    """Open a server with one untrusted workspace. Its model ``offline/demo`` follows the script."""
    home, work = directory / "home", directory / "work"
    work.mkdir(exist_ok=True)
    store = await store_variable(home)
    environment = {**os.environ, "HOLDFAST_HOME": str(home), **store, **(env or {})}
    scripts = {"demo": script} if script is not None else None
    locations = Locations.from_env(environment)
    if config:
        await asyncio.to_thread(locations.prepare)
        locations.config_file.write_text(config)
    async with open_app(locations, environment, scripts=scripts, engine_limits=limits, policy_file=policy_file) as app:
        view, _ = await app.services.workspaces.open(str(work))
        yield AppHarness(app, work, view.id)
