"""What the user does with a session, as calls to the server. Knows no widget.

Each method raises a `HoldfastError` that the caller shows. Nothing typed is lost: a prompt that the server did not
accept stays with the caller.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Literal

from msgspec.structs import replace

from holdfast.client.attachments import MAX_BYTES, attachment
from holdfast.client.task_prompts import INSTRUCTIONS_FILE, read_init_prompt, read_task_prompt
from holdfast.client.transcript_fold import TranscriptFold
from holdfast.errors import BadRequest
from holdfast.files import read_limited
from holdfast.schema.approvals import ApprovalDecision, RuleScope
from holdfast.schema.commands import OfferedMention
from holdfast.schema.messages import File
from holdfast.schema.runs import Accepted, Mode, Receipt, RunRequest
from holdfast.schema.sessions import UndoPreview
from holdfast.tui.composer_text import mentioned_files
from holdfast.tui.cut_off_run import CONTINUE, CutOffRun, cut_off_run
from holdfast.tui.server_link import ServerLink
from holdfast.tui.terminal_signals import plain_text

MODES: tuple[Mode, ...] = ("ask", "accept_edits", "plan", "auto")


class SessionController:
    """The shown session, and the settings of its next prompts."""

    def __init__(self, link: ServerLink) -> None:
        self.link = link
        self._mode: Mode | None = None
        self.model: str | None = None
        self.effort: str | None = None
        self._first_agent: str | None = None
        """The agent of the session that the next prompt starts."""

    @property
    def agent(self) -> str | None:
        """The agent of the next prompts; ``main``: none. None: as configured."""
        session_id = self.link.session_id
        session = None if session_id is None else self.link.fold.session(session_id)
        return self._first_agent if session is None else session.agent

    @property
    def shown_agent(self) -> str:
        """The agent that was chosen; empty if none was."""
        return "" if self.agent in (None, "main") else plain_text(self.agent or "", longest=30)

    async def use_agent(self, name: str) -> None:
        """Choose the agent of the next prompts of this session, or of the session that the next prompt starts."""
        client, session_id = await self.link.ready(), self.link.session_id
        if session_id is not None:
            await client.change_session(session_id, agent=name)
            return
        assert self.link.workspace is not None
        known = {agent.name for agent in (await client.agents(self.link.workspace.id)).items if agent.state == "ready"}
        if name not in (*known, "main"):
            names = ", ".join(sorted({*known, "main"}))
            raise BadRequest(f"there is no agent {name!r}; agents: {names}", code="unknown_agent")
        self._first_agent = name

    @property
    def transcript(self) -> TranscriptFold | None:
        session_id = self.link.session_id
        return None if session_id is None else self.link.fold.transcript(session_id)

    @property
    def configured_mode(self) -> Mode:
        values = self.link.config.values if self.link.config else {}
        mode = (values.get("approvals") or {}).get("mode", "ask")
        return mode if mode in MODES else "ask"

    @property
    def mode(self) -> Mode:
        return self._mode or self.configured_mode

    @mode.setter
    def mode(self, mode: Mode) -> None:
        self._mode = mode

    def next_mode(self) -> Mode:
        self._mode = MODES[(MODES.index(self.mode) + 1) % len(MODES)]
        return self._mode

    @property
    def model_name(self) -> str:
        return self.model or (self.link.models.large if self.link.models else None) or ""

    @property
    def context_window(self) -> int:
        models = self.link.models.models if self.link.models else ()
        return next((model.context_window for model in models if model.name == self.model_name), 0)

    @property
    def is_busy(self) -> bool:
        return self.transcript is not None and self.transcript.active is not None

    @property
    def cut_off(self) -> CutOffRun | None:
        """The last run, if it did not complete and nothing follows it."""
        return cut_off_run(self.transcript)

    async def continue_run(self) -> None:
        """Continue a run that was cut off. The server has told the model what was cut."""
        await self.send(CONTINUE)

    async def send_again(self, run: CutOffRun) -> None:
        await self.send(run.prompt, attachments=run.attachments)

    async def init(self, wish: str) -> None:
        """Let the agent write the instructions of this repository, or improve them."""
        client = await self.link.ready()
        assert self.link.workspace is not None
        found = (await client.files(self.link.workspace.id, INSTRUCTIONS_FILE, limit=8)).items
        prompt = await asyncio.to_thread(read_init_prompt, exists=INSTRUCTIONS_FILE in found, wish=wish)
        await self.send(prompt, mode=None if self.mode in ("accept_edits", "auto") else "accept_edits")

    async def send(
        self,
        prompt: str,
        *,
        attachments: tuple[File, ...] = (),
        delivery: Literal["queue", "steer"] = "queue",
        mode: Mode | None = None,
    ) -> Accepted:
        """Send a prompt; the first one starts a session. Settings that are as configured are left to the server.

        ``mode`` is for this prompt only.
        """
        client = await self.link.ready()
        request = RunRequest(
            prompt=prompt,
            attachments=attachments,
            delivery=delivery,
            model=self.model,
            mode=mode or (self._mode if self._mode != self.configured_mode else None),
            effort=self.effort,
        )
        request = self.link.with_shell(request)
        if self.link.session_id is not None:
            return await client.start_run(self.link.session_id, request)
        assert self.link.workspace is not None
        request = replace(request, agent=self._first_agent)
        accepted = await client.start_session(self.link.workspace.id, request)
        self._first_agent = None
        self.link.show(accepted.run.session_id)
        return accepted

    async def run_shell(self, command: str) -> Accepted:
        client = await self.link.ready()
        return await client.shell(await self._session(), command, environment=self.link.shell_variables())

    async def cancel(self) -> Receipt | None:
        """Cancel the active run, and hold the queue if there is one. If it is held already, cancel all of it."""
        transcript = self.transcript
        if transcript is None:
            return None
        client, queue = await self.link.ready(), transcript.queue
        session_id = transcript.session_id
        has_more = bool(queue.queued or queue.waiting)
        if has_more and queue.paused is not None:
            return await client.cancel_session(session_id, scope="session")
        if transcript.active is None and not has_more:
            return None
        if has_more:
            await client.pause(session_id)  # before the cancel: the next prompt must not start in between
        return await client.cancel_session(session_id, scope="active")

    async def cancel_everything(self) -> Receipt | None:
        if self.link.session_id is None:
            return None
        return await (await self.link.ready()).cancel_session(self.link.session_id, scope="session")

    async def resume(self) -> None:
        await (await self.link.ready()).resume(await self._session())

    async def pause(self) -> None:
        await (await self.link.ready()).pause(await self._session())

    async def remove_queued(self, run_id: str) -> Receipt:
        return await (await self.link.ready()).cancel_run(run_id)

    async def move_queued(self, run_id: str, position: int) -> None:
        await (await self.link.ready()).change_run(run_id, position=position)

    async def answer_approval(
        self,
        approval_id: str,
        decision: ApprovalDecision,
        *,
        pattern: tuple[str, ...] = (),
        scope: RuleScope = "project",
        feedback: str = "",
    ) -> None:
        client = await self.link.ready()
        await client.answer_approval(approval_id, decision, pattern=pattern, scope=scope, feedback=feedback)

    async def answer_question(self, question_id: str, answers: list[list[str]] | None) -> None:
        await (await self.link.ready()).answer_question(question_id, answers)

    async def compact(self, instruction: str = "") -> None:
        await (await self.link.ready()).compact(await self._session(), instruction=instruction or None)

    async def accept_plan(self, note: str) -> None:
        """Carry out the plan with which the last prompt ended. Later prompts are not in plan mode any more."""
        client = await self.link.ready()
        mode: Mode = "accept_edits" if self.mode == "plan" else self.mode
        await client.accept_plan(await self._session(), mode=mode, note=note or None)
        self.mode = mode

    async def review(self, what: str) -> bool:
        """Review the work tree, ``commit REV`` or ``branch [BASE]``. Returns whether there are changes."""
        client = await self.link.ready()
        assert self.link.workspace is not None
        kind, _, name = what.partition(" ")
        name = name.strip()
        if kind == "commit" and name:
            found = await client.diff(self.link.workspace.id, commit=name)
        elif kind == "branch":
            found = await client.diff(self.link.workspace.id, branch=True, base=name or None)
        else:
            found = await client.diff(self.link.workspace.id)
        if not found.text.strip():
            return False
        prompt = (await asyncio.to_thread(read_task_prompt, "review")).replace("{target}", found.title)
        if what and kind not in ("commit", "branch"):
            prompt += f"\n\nThe user asks especially: {what}"
        await self.send(prompt, attachments=(File("changes.diff", "text/plain", text=found.text),), mode="plan")
        return True

    async def remember(self, text: str) -> None:
        client = await self.link.ready()
        assert self.link.workspace is not None
        await client.remember(self.link.workspace.id, text)

    async def undo(self, *, to_message_id: str | None = None, confirmed_runs: tuple[str, ...] = ()) -> Accepted:
        client = await self.link.ready()
        return await client.undo(await self._session(), to_message_id=to_message_id, confirmed_runs=confirmed_runs)

    async def preview_undo(self, *, to_message_id: str | None = None) -> UndoPreview:
        return await (await self.link.ready()).preview_undo(await self._session(), to_message_id=to_message_id)

    async def redo(self) -> Accepted:
        return await (await self.link.ready()).redo(await self._session())

    async def fork(self, *, message_id: str | None = None) -> str:
        client = await self.link.ready()
        forked = await client.fork(await self._session(), message_id=message_id)
        return forked.id

    async def rename(self, title: str) -> None:
        await (await self.link.ready()).change_session(await self._session(), title=title)

    async def find_mentions(self, query: str) -> tuple[OfferedMention, ...]:
        client, workspace = self.link.client, self.link.workspace
        if client is None or workspace is None or not self.link.is_live:
            return ()
        return (await client.mentions(workspace.id, query, limit=8)).items

    async def _session(self) -> str:
        """The shown session; a new one if none is shown."""
        if self.link.session_id is None:
            client = await self.link.ready()
            assert self.link.workspace is not None
            self.link.show((await client.create_session(self.link.workspace.id, agent=self._first_agent)).id)
            self._first_agent = None
        assert self.link.session_id is not None
        return self.link.session_id


def read_mentioned_lines(text: str, directory: Path) -> tuple[File, ...]:
    """The lines that a prompt mentions as ``@file:10-20``, to attach them. Files that cannot be read are left out.

    Blocks. Files that are mentioned without lines are read by the model, as far as it needs them.
    """
    found = []
    for mention in mentioned_files(text):
        if mention.first is None or mention.last is None:
            continue
        try:
            data = read_limited(directory / Path(mention.path).expanduser(), limit=MAX_BYTES)
        except (OSError, ValueError):
            continue
        lines = data.decode("utf-8", "replace").splitlines(keepends=True)[max(mention.first, 1) - 1 : mention.last]
        if lines:
            name = f"{mention.path}:{mention.first}-{mention.last}"
            found.append(File(name, "text/plain", text="".join(lines)))
    return tuple(found)


def read_attachment(path: Path) -> File:
    """Read a file to attach. Blocks. Raises `OSError`."""
    return attachment(path.name, read_limited(path.expanduser(), limit=MAX_BYTES))
