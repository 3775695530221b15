"""One session that an editor has open: follows its events, sends its prompts, asks for approvals.

Prompts and cancels of the editor are sent to the server one after the other, in the order in which they came. So a
cancel covers the prompts before it and none after it (`C1`), and a prompt is answered with ``cancelled`` only when the
receipt of the cancel and the end of the run are there.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from holdfast.acp.acp_connection import RequestId
from holdfast.acp.choice_files import ChoiceFiles, SavedChoices
from holdfast.acp.editor_calls import Editor, EditorCalls
from holdfast.acp.editor_offers import EditorOffers, EditorPaths
from holdfast.acp.editor_questions import (
    can_be_choice,
    choice_request,
    permission_request,
    question_form,
    read_choice,
    read_form,
    read_permission,
)
from holdfast.acp.editor_servers import editor_servers, failed_servers
from holdfast.acp.prompt_content import ReadPrompt, read_prompt
from holdfast.acp.session_settings import BuiltIn, SessionChoices, available_commands, built_in_command
from holdfast.acp.session_updates import SessionTranslator, notice, stop_reason, usage_of, usage_update
from holdfast.acp.tool_updates import JsonObject
from holdfast.client.async_client import AsyncClient
from holdfast.client.client_environment import with_shell
from holdfast.client.task_prompts import INSTRUCTIONS_FILE, read_init_prompt
from holdfast.client.transcript import StreamedText
from holdfast.client.transcript_fold import TranscriptFold
from holdfast.client.view_fold import SessionSnapshot, ViewFold
from holdfast.errors import Conflict, Gone, HoldfastError, NotFound
from holdfast.ids import Ids
from holdfast.schema.approvals import Approval, Question
from holdfast.schema.events import (
    ApprovalRequested,
    ApprovalResolved,
    CallClosed,
    CallRequested,
    Delta,
    Event,
    Hello,
    QuestionAsked,
    QuestionResolved,
    SessionDeleted,
)
from holdfast.schema.extensions import SessionMcpServer
from holdfast.schema.runs import END_STATES, Accepted, Mode, Run, RunRequest
from holdfast.schema.sessions import Session, WorkspaceView
from holdfast.tasks import OwnedTasks

_logger = logging.getLogger(__name__)

_PAGE = 500
_OUTPUT_SECONDS = 0.1
"""How long the output of a command is collected before the editor gets it."""
_SETTLE_SECONDS = 5.0
_SERVER_SECONDS = 60.0


class WorkInProgress:
    """Counts what has arrived and is not done, so that it is finished also when the editor is gone."""

    def __init__(self) -> None:
        self._count = 0
        self._idle = asyncio.Event()
        self._idle.set()

    def __enter__(self) -> None:
        self._count += 1
        self._idle.clear()

    def __exit__(self, *error: object) -> None:
        self._count -= 1
        if not self._count:
            self._idle.set()

    async def finished(self) -> None:
        await asyncio.sleep(0)  # a message that has arrived is counted when its task has started
        await self._idle.wait()


class RunFailed(Exception):
    """A prompt's run did not complete."""

    def __init__(self, run: Run) -> None:
        self.run = run
        said = run.error.message if run.error else f"the run ended {run.state} ({run.reason})"
        super().__init__(said)


class EditorSession:
    """A session, from its opening by the editor to its closing."""

    def __init__(
        self,
        session: Session,
        *,
        workspace: WorkspaceView,
        client: AsyncClient,
        editor: Editor,
        env: Mapping[str, str],
        choices: SessionChoices,
        work: WorkInProgress,
        directory: str,
        offers: EditorOffers,
        has_forms: bool,
        choice_files: ChoiceFiles,
    ) -> None:
        """``directory`` is the workspace as the editor names it, which may be through a link."""
        self.id = session.id
        self.workspace = workspace
        self.choices = choices
        self._session = session
        self._client = client
        self._editor = editor
        self._env = env
        self._work = work
        self._has_forms = has_forms
        self._choice_files = choice_files
        self._fold = ViewFold()
        self._translator = SessionTranslator(directory)
        self._tasks = OwnedTasks()
        self._asks: dict[str, asyncio.Task[None]] = {}
        self._own_runs: set[str] = set()
        self._ends: dict[str, asyncio.Future[Run]] = {}
        self._order = asyncio.Lock()
        """Held while a prompt is being accepted or a cancel is under way."""
        self._sending = asyncio.Lock()
        """Updates are sent in the order in which they are made."""
        self._output_timer: asyncio.TimerHandle | None = None
        self._usage: JsonObject = {}
        self._title = session.title
        self._commands: list[JsonObject] = []
        self._requests: dict[RequestId, str] = {}
        """The runs of the prompts that the editor waits for; empty while a prompt is being accepted."""
        self._servers: tuple[SessionMcpServer, ...] = ()
        self._directory = directory
        self._calls = EditorCalls(
            session.id,
            client=client,
            editor=editor,
            offers=offers,
            paths=EditorPaths(workspace.path, directory),
            env=env,
            show_terminal=self._show_terminal,
        )
        self._is_gone = False

    @property
    def _transcript(self) -> TranscriptFold:
        found = self._fold.transcript(self.id)
        assert found is not None
        return found

    # Opening and closing.

    def begin(self) -> str:
        """A session that was just created. Returns the cursor at which its events begin."""
        self._fold.open_session(SessionSnapshot(session=self._session))
        return self.workspace.cursor

    async def load(self, *, replay: bool) -> str:
        """Read the session, and send all of it if the editor has nothing. Returns the cursor for its events."""
        cursor = await self._read()
        if replay:
            await self._send(self._translator.replay(self._transcript))
        else:
            self._translator.skip(self._transcript)
        return cursor

    async def use_servers(self, servers: list[JsonObject]) -> None:
        """Use the MCP servers that the editor passes, for this session."""
        self._servers = editor_servers(servers)
        if self._servers:
            await self._client.use_session_servers(self.id, self._servers)

    async def release_servers(self) -> None:
        """End the MCP servers of the editor, if nothing in the session needs them. A run that goes on keeps them."""
        if self._servers and not (await self._client.session(self.id)).busy:
            await self._client.use_session_servers(self.id, ())

    async def _check_servers(self) -> None:
        """Tell the user about servers of the editor that do not start."""
        found = await self._client.session_servers(self.id, wait=_SERVER_SECONDS)
        if text := failed_servers(found.items):
            await self._send([notice(f"\n\n{text}\n\n", message_id=f"{self.id}.mcp")])

    def follow(self, cursor: str) -> None:
        """Send what happens from now on."""
        if self._servers:
            _ = self._tasks.spawn(self._check_servers(), name=f"acp:{self.id}:mcp", may_fail=True)
        _ = self._tasks.spawn(self._follow(cursor), name=f"acp:{self.id}:events")
        _ = self._tasks.spawn(self.refresh_commands(), name=f"acp:{self.id}:commands", may_fail=True)
        self._spawn_open_asks()

    async def close(self) -> None:
        """Stop following. The runs of the session go on."""
        if self._output_timer is not None:
            self._output_timer.cancel()
        for task in self._asks.values():
            task.cancel()
        self._fail_ends(NotFound(f"session {self.id!r} was closed by the editor"))
        await self._calls.close()
        await self._tasks.finish(seconds=0)

    async def settle(self) -> None:
        """Wait until the prompts that were cancelled have been answered, for a limited time."""
        if self._ends:
            await asyncio.wait(self._ends.values(), timeout=_SETTLE_SECONDS)

    async def is_unused(self) -> bool:
        """Whether nothing was ever sent to the session."""
        view = await self._client.session(self.id)
        if view.queue.active or view.queue.run_ids or view.queue.waiting:
            return False
        return not (await self._client.runs(self.id, limit=1)).items

    # What the editor does.

    async def prompt(self, blocks: list[Mapping[str, Any]], *, request: RequestId) -> JsonObject:
        """Send a prompt and wait for the end of its run."""
        self._requests[request] = ""
        try:
            with self._work:
                read = read_prompt(blocks, directory=self._directory)
                async with self._order:
                    accepted = await self._accept(read)
                    self._requests[request] = accepted.run.id
                await self._tell_decision(accepted)
            _ = self._tasks.spawn(self.refresh_commands(), name=f"acp:{self.id}:commands", may_fail=True)
            run = await self._end_of(accepted.run.id)
        finally:
            self._requests.pop(request, None)  # an editor may use an id twice
        if run.state == "cancelled":
            async with self._order:  # the receipt of the cancel is there
                pass
        reason = stop_reason(run)
        if reason is None:
            raise RunFailed(run)
        return {"stopReason": reason, "usage": usage_of(run.usage)}

    async def cancel(self) -> None:
        """Cancel everything that was accepted in the session before."""
        async with self._order:
            receipt = await self._client.cancel_session(self.id)
        _logger.info("cancel of %s: %d runs, durable %s", self.id, len(receipt.runs), receipt.durable)

    async def cancel_request(self, request: RequestId) -> None:
        """Cancel the run of one prompt."""
        if request not in self._requests:
            return
        async with self._order:
            run_id = self._requests.get(request)
            if run_id:
                try:
                    await self._client.cancel_run(run_id)
                except Conflict as error:  # it joined another run, which is not cancelled with it
                    _logger.info("run %s cannot be cancelled alone: %s", run_id, error)

    async def choose(self, option: str, value: object) -> None:
        """Choose a mode, a model and so on, for the next prompts."""
        self.choices = self.choices.choose(option, value)
        last = max(self._transcript.runs.values(), key=lambda run: run.seq, default=None)
        saved = SavedChoices(self.choices.chosen, "" if last is None else last.id)
        await asyncio.to_thread(self._choice_files.write, self.id, saved)
        await self._send_usage()

    async def tell_mode(self) -> None:
        await self._send([{"sessionUpdate": "current_mode_update", "currentModeId": self.choices.mode}])

    async def tell_options(self) -> None:
        await self._send([{"sessionUpdate": "config_option_update", "configOptions": self.choices.options()}])

    async def refresh_commands(self) -> None:
        """Send the list of commands if it has changed."""
        try:
            found = (await self._client.commands(self.workspace.id)).items
        except HoldfastError as error:
            _logger.warning("the commands of %s cannot be read: %s", self.workspace.path, error)
            return
        commands = available_commands(found)
        if commands != self._commands:
            self._commands = commands
            await self._send([{"sessionUpdate": "available_commands_update", "availableCommands": commands}])

    async def _accept(self, read: ReadPrompt) -> Accepted:
        if not read.attachments and (command := built_in_command(read.text)):
            return await self._accept_command(*command)
        return await self._start(read)

    async def _start(self, read: ReadPrompt, *, mode: Mode | None = None) -> Accepted:
        choices, run_id = self.choices, Ids().new("run")
        request = RunRequest(
            prompt=read.text,
            run_id=run_id,
            attachments=read.attachments,
            delivery=choices.chosen.delivery,
            model=choices.chosen.model,
            mode=mode or choices.chosen.mode,
            effort=choices.effort,
        )
        request = with_shell(request, self._env, workspace=self.workspace, address=self._client.address)
        self._own_runs.add(run_id)
        return await self._client.start_run(self.id, request)

    async def _accept_command(self, name: BuiltIn, arguments: str) -> Accepted:
        match name:
            case "compact":
                return await self._client.compact(self.id, instruction=arguments or None)
            case "undo":
                return await self._client.undo(self.id)
            case "redo":
                return await self._client.redo(self.id)
            case "accept":
                mode: Mode = "accept_edits" if self.choices.mode == "plan" else self.choices.mode
                accepted = await self._client.accept_plan(self.id, mode=mode, note=arguments or None)
                await self.choose("mode", mode)
                await self.tell_mode()
                await self.tell_options()
                return accepted
            case "init":
                found = (await self._client.files(self.workspace.id, INSTRUCTIONS_FILE, limit=8)).items
                exists = INSTRUCTIONS_FILE in found
                prompt = await asyncio.to_thread(read_init_prompt, exists=exists, wish=arguments)
                mode = self.choices.mode if self.choices.mode == "auto" else "accept_edits"
                return await self._start(ReadPrompt(prompt), mode=mode)

    async def _tell_decision(self, accepted: Accepted) -> None:
        if accepted.decision == "started":
            return
        text = "The prompt joins the running turn at its next step."
        if accepted.decision == "queued":
            text = f"Queued: the prompt is number {accepted.position or 1} in the queue of this session."
        await self._send([notice(f"\n\n{text}\n\n", message_id=f"{accepted.run.id}.queue")])

    # What the server tells.

    async def _follow(self, cursor: str) -> None:
        try:
            while True:
                await self._follow_stream(cursor)
                cursor = await self._read()
                await self._send_changes()
                self._spawn_open_asks()
        except (NotFound, Gone) as error:
            self._fail_ends(error)
        except ConnectionError as error:
            _logger.info("the editor is gone: %s", error)

    async def _follow_stream(self, cursor: str) -> None:
        """Returns when everything must be read again."""
        was_lost = False

        def lost(error: Exception, seconds: float) -> None:
            nonlocal was_lost
            was_lost = True
            _logger.info("the connection to the server is lost: %s", error)

        stream = self._client.events(
            workspace_id=self.workspace.id,
            session_id=self.id,
            viewing=self.id,
            after=cursor,
            transcript=StreamedText(),
            on_lost=lost,
        )
        async with stream as events:
            async for event in events:
                aspects = self._fold.apply(event)
                if not aspects.isdisjoint({"reset", "gap"}) or isinstance(event, SessionDeleted):
                    return
                if isinstance(event, Hello):
                    await self._calls.attach()
                if isinstance(event, Hello) and was_lost:
                    was_lost = False
                    await self._client.open_workspace(self.workspace.path)  # a new server goes on with its queues
                    if self._servers:
                        await self._client.use_session_servers(self.id, self._servers)
                await self._take(event)

    async def _take(self, event: Event) -> None:
        match event:
            case Delta(of="output"):
                if self._output_timer is None:
                    loop = asyncio.get_running_loop()
                    self._output_timer = loop.call_later(_OUTPUT_SECONDS, self._flush_output)
                return
            case ApprovalRequested():
                self._ask_approval(event.approval)
            case QuestionAsked():
                self._ask_question(event.question)
            case ApprovalResolved():
                self._stop_asking(event.approval.id)
            case QuestionResolved():
                self._stop_asking(event.question.id)
            case CallRequested():
                self._calls.begin(event.call)
            case CallClosed():
                self._calls.closed(event.call.id)
            case _:
                pass
        await self._send_changes()

    def _flush_output(self) -> None:
        self._output_timer = None
        _ = self._tasks.spawn(self._send_changes(), name=f"acp:{self.id}:output", may_fail=True)

    async def _send_changes(self) -> None:
        """Send what changed, then wake the waiters of ended runs."""
        async with self._sending:
            transcript = self._fold.transcript(self.id)
            if transcript is None:
                return
            for update in self._translator.updates(transcript, own_runs=self._own_runs):
                await self._notify(update)
            await self._send_title()
        await self._send_usage()
        for run_id in [run_id for run_id in self._ends if self._has_ended(run_id)]:
            future = self._ends.pop(run_id)
            if not future.done():
                future.set_result(transcript.runs[run_id])

    async def _show_terminal(self, call_id: str, terminal_id: str) -> None:
        await self._send(self._translator.show_terminal(call_id, terminal_id))

    async def _send(self, updates: list[JsonObject]) -> None:
        async with self._sending:
            for update in updates:
                await self._notify(update)

    async def _notify(self, update: JsonObject) -> None:
        await self._editor.notify("session/update", {"sessionId": self.id, "update": update})

    async def _send_title(self) -> None:
        session = self._fold.session(self.id)
        if session is not None and session.title != self._title:
            self._title = session.title
            update: JsonObject = {"sessionUpdate": "session_info_update", "title": session.title}
            await self._notify({**update, "updatedAt": session.updated_at} if session.updated_at else update)

    async def _send_usage(self) -> None:
        transcript, session = self._fold.transcript(self.id), self._fold.session(self.id)
        if transcript is None or not transcript.context_tokens:
            return
        cost = session.usage.cost if session else 0.0
        usage = usage_update(used=transcript.context_tokens, size=self.choices.context_window, cost=cost)
        if usage != self._usage:
            self._usage = usage
            await self._send([usage])

    async def _end_of(self, run_id: str) -> Run:
        if self._has_ended(run_id):
            return self._transcript.runs[run_id]
        if self._is_gone:
            raise NotFound(f"session {self.id!r} is not open any more")
        future: asyncio.Future[Run] = asyncio.get_running_loop().create_future()
        self._ends[run_id] = future
        return await future

    def _has_ended(self, run_id: str) -> bool:
        transcript = self._fold.transcript(self.id)
        run = None if transcript is None else transcript.runs.get(run_id)
        return run is not None and run.state in END_STATES

    def _fail_ends(self, error: HoldfastError) -> None:
        self._is_gone = True
        ends, self._ends = self._ends, {}
        for future in ends.values():
            if not future.done():
                future.set_exception(error)

    async def _read(self) -> str:
        """Read the whole session. Events after the returned cursor may be in it already."""
        client = self._client
        view = await client.session(self.id)
        messages, _ = await client.all_messages(self.id)
        runs: list[Run] = []
        page = await client.runs(self.id, limit=_PAGE)
        runs += page.items
        while page.next is not None:
            page = await client.runs(self.id, limit=_PAGE, before=page.next)
            runs += page.items
        approvals, questions = await asyncio.gather(
            client.approvals(self.workspace.id), client.questions(self.workspace.id)
        )
        self._fold.load_asks(
            [one for one in approvals.items if one.root_session_id == self.id],
            [one for one in questions.items if one.root_session_id == self.id],
        )
        snapshot = SessionSnapshot(
            session=view, messages=tuple(messages), runs=tuple(runs), queue=view.queue, todos=view.todos
        )
        self._fold.open_session(snapshot)
        return view.cursor

    # Approvals and questions.

    def _spawn_open_asks(self) -> None:
        open_now = {ask.id for ask in self._fold.asks}
        for ask_id in self._asks.keys() - open_now:
            self._stop_asking(ask_id)
        for ask in self._fold.asks:
            if ask.approval is not None:
                self._ask_approval(ask.approval)
            elif ask.question is not None:
                self._ask_question(ask.question)

    def _ask_approval(self, approval: Approval) -> None:
        if approval.state == "open" and approval.id not in self._asks:
            self._spawn_ask(approval.id, lambda: self._request_permission(approval))

    def _ask_question(self, question: Question) -> None:
        if question.state == "open" and question.id not in self._asks:
            self._spawn_ask(question.id, lambda: self._request_answer(question))

    def _spawn_ask(self, ask_id: str, ask: Callable[[], Awaitable[None]]) -> None:
        task = self._asks[ask_id] = self._tasks.spawn(self._quietly(ask), name=f"acp:{ask_id}")
        task.add_done_callback(lambda _: self._asks.pop(ask_id, None) if self._asks.get(ask_id) is task else None)

    def _stop_asking(self, ask_id: str) -> None:
        """Another client answered, or the run was cancelled. The editor is told that its answer is not needed."""
        if (task := self._asks.pop(ask_id, None)) is not None:
            task.cancel()

    async def _quietly(self, ask: Callable[[], Awaitable[None]]) -> None:
        """An editor that cannot answer leaves the answer to the other clients."""
        from acp.exceptions import RequestError

        try:
            await ask()
        except (RequestError, ConnectionError, HoldfastError) as error:
            _logger.info("no answer from the editor: %s", error)

    async def _request_permission(self, approval: Approval) -> None:
        request = permission_request(approval, session_id=self.id, directory=self._directory)
        answer = read_permission(await self._editor.request("session/request_permission", request), approval)
        if answer is None:
            return
        try:
            await self._client.answer_approval(approval.id, answer.decision, pattern=answer.pattern, scope=answer.scope)
        except Conflict:  # another client was first
            _logger.info("approval %s was already answered", approval.id)

    async def _request_answer(self, question: Question) -> None:
        answers: list[list[str]] | None
        if self._has_forms:
            form = question_form(question, session_id=self.id)
            answers = read_form(await self._editor.request("elicitation/create", form), question)
        elif can_be_choice(question):
            choice = choice_request(question, session_id=self.id)
            response = await self._editor.request("session/request_permission", choice)
            is_decided, answers = read_choice(response, question)
            if not is_decided:
                return
        else:
            asked = "\n".join(f"- {item.text}" for item in question.items)
            text = (
                f"\n\nThe agent asks:\n\n{asked}\n\nAnswer with `holdfast attach {self.id}` or in another client.\n\n"
            )
            await self._send([notice(text, message_id=question.id)])
            return
        try:
            await self._client.answer_question(question.id, answers)
        except Conflict:
            _logger.info("question %s was already answered", question.id)
