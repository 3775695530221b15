"""The main screen: what its keys and messages do."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable
from pathlib import Path
from typing import TYPE_CHECKING

from textual import on

from holdfast.errors import CallerError, Conflict, HoldfastError
from holdfast.tui.background_calls import call_in_background, show_error
from holdfast.tui.chat_layout import ChatLayout
from holdfast.tui.composer import Composer
from holdfast.tui.composer_text import read_typed
from holdfast.tui.exclusive_work import run_in_thread, run_newest
from holdfast.tui.status_words import MODE_WORDS, receipt_words
from holdfast.tui.terminal_signals import plain_text

if TYPE_CHECKING:  # the first frame is drawn before they are imported, see `chat_parts`
    from textual.widgets import Input

    from holdfast.schema.approvals import Approval, Question
    from holdfast.schema.runs import Receipt
    from holdfast.tui.ask_panel import AskPanel
    from holdfast.tui.queue_list import QueueList
    from holdfast.tui.session_transcript import SessionTranscriptView

_ALWAYS_POSSIBLE = frozenset({"leave", "suspend", "help"})
"""What keys do before all widgets exist."""
_LEAVE_SECONDS = 2.0
_DRAFT_SECONDS = 0.3


class ChatScreen(ChatLayout):
    def __init__(self) -> None:
        super().__init__()
        self.answered: set[str] = set()
        """Approvals and questions that were answered here."""
        self._interrupted_at = 0.0
        self._send_order = asyncio.Lock()
        self._saving: asyncio.Task[None] | None = None
        self._unsaved: dict[str | None, str] = {}
        """Drafts by session, as they were last edited."""

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        return self.mounted.is_set() or action in _ALWAYS_POSSIBLE

    def do(self, work: Awaitable[object]) -> None:
        """Call the server in the background; an error is shown."""
        call_in_background(self, work, on_error=self.tell_error)

    def tell(self, text: str, *, warning: bool = False) -> None:
        self.notify(plain_text(text, longest=400), severity="warning" if warning else "information", markup=False)

    def tell_error(self, error: HoldfastError) -> None:
        self.tui.link.note_error(error)
        show_error(self, error)

    # Sending.

    @on(Composer.Sent)
    def _sent(self, event: Composer.Sent) -> None:
        typed = read_typed(event.text)
        if not typed.text and not event.attachments:
            self._resume_if_held()
            return
        if typed.kind == "command" and self._run_command(typed.text, typed.arguments):
            self._remember(event.text)
            return
        self.keep_draft()  # before the first prompt's session takes the place of the new one
        self._start_sending(event, shell=typed.text if typed.kind == "shell" else None)

    def _run_command(self, name: str, arguments: str = "") -> bool:
        from holdfast.tui.slash_commands import run_command

        return run_command(self, name, arguments)

    def send_prompt(self, text: str) -> None:
        """Send a prompt that was not typed here. The draft stays."""
        self._start_sending(Composer.Sent(text, (), "queue"), shell=None)

    def _start_sending(self, event: Composer.Sent, *, shell: str | None) -> None:
        self._remember(event.text)
        self.sending = (*self.sending, event.text)
        if self.is_drawn:
            self.draw_queue()
            self.view.scroll_to_end()
        self.run_worker(self._send(event, shell=shell), group="calls")

    async def _send(self, event: Composer.Sent, *, shell: str | None) -> None:
        """Send one after the other: prompts are accepted in the order in which they were written."""
        async with self._send_order:
            await self._send_next(event, shell=shell)

    async def _send_next(self, event: Composer.Sent, *, shell: str | None) -> None:
        from holdfast.tui.session_controller import read_mentioned_lines

        await self.mounted.wait()
        controller, began_in = self.tui.controller, self.tui.link.session_id
        try:
            if shell is not None:
                await controller.run_shell(shell)
            else:
                text = event.text.strip()
                mentioned = await asyncio.to_thread(read_mentioned_lines, text, Path(self.tui.options.directory))
                attachments = (*event.attachments, *mentioned)
                accepted = await controller.send(text, attachments=attachments, delivery=event.delivery)
                if event.delivery == "steer" and accepted.decision == "queued":
                    self.tell("It cannot join the active run, so it is queued.")
        except HoldfastError as error:
            self.composer.put_back([event.text])
            for file in event.attachments:
                self.composer.attach(file)
            self.tell_error(error)
        finally:
            remaining = list(self.sending)
            remaining.remove(event.text)
            self.sending = tuple(remaining)
            if began_in != self.tui.link.session_id:  # what was typed meanwhile belongs to the new session
                self._unsaved[began_in] = ""
                self.keep_draft()
            self.draw_queue()

    def _remember(self, text: str) -> None:
        if text.strip():
            self.composer.accepted(text)
            run_in_thread(self, self.tui.files.add_to_history, text)

    def _resume_if_held(self) -> None:
        fold = self.tui.controller.transcript
        if fold is not None and fold.queue.paused:
            self.do(self.tui.controller.resume())
        elif self.has_class("-cut-off"):
            self._run_command("continue")

    @on(Composer.Edited)
    def _edited(self) -> None:
        self.edited_at = time.monotonic()
        if self.mounted.is_set():  # before, the session is not known; see `TuiApp`
            self.keep_draft()

    def keep_draft(self) -> None:
        """Keep the draft as it is now: a message about an edit may arrive after the draft was sent."""
        self._unsaved[self.tui.link.session_id] = self.composer.draft
        if self._saving is None or self._saving.done():
            self._saving = asyncio.create_task(self._save_draft(), name="tui:save draft")

    async def _save_draft(self) -> None:
        await asyncio.sleep(_DRAFT_SECONDS)
        while self._unsaved:
            session_id, text = next(iter(self._unsaved.items()))
            await asyncio.to_thread(self.tui.files.write_draft, session_id, text)
            if self._unsaved.get(session_id) == text:
                del self._unsaved[session_id]

    @property
    def unsaved_drafts(self) -> dict[str | None, str]:
        return self._unsaved

    async def load_draft(self) -> None:
        """Show the draft that was kept for this session, unless something was typed already."""
        draft = await asyncio.to_thread(self.tui.files.read_draft, self.tui.link.session_id)
        if draft and not self.composer.draft:
            self.composer.set_draft(draft)

    @on(Composer.WantsHelp)
    def action_help(self) -> None:
        from holdfast.tui.help_screen import HelpScreen

        self.tui.push_screen(HelpScreen())

    @on(Composer.WantsEditor)
    def _edit_externally(self) -> None:
        run_newest(self, self._edit, group="editor")

    async def _edit(self) -> None:
        from holdfast.tui.external_editor import edit_text

        edited = await edit_text(self.tui, self.composer.draft)
        if edited is not None:
            self.composer.set_draft(edited)

    @on(Composer.WantsFile)
    async def _attach_file(self, event: Composer.WantsFile) -> None:
        from holdfast.tui.session_controller import read_attachment

        try:
            self.composer.attach(await asyncio.to_thread(read_attachment, Path(event.path)))
        except OSError as error:
            self.tell(f"cannot attach {event.path!r}: {error.strerror or error}", warning=True)

    # Cancelling.

    def action_cancel(self) -> None:
        if self.has_class("-searching"):
            self._close_search()
        elif self.composer.close_completions():
            return
        elif self.ask_panel.is_writing:
            self.ask_panel.stop_writing()
        elif self.queue_list.has_focus or (self.view.has_focus and not self.tui.controller.is_busy):
            self.composer.area.focus()
        else:
            self._cancel_run()

    def _cancel_run(self) -> None:
        fold = self.tui.controller.transcript
        if fold is None or (fold.active is None and not fold.queue.queued and not fold.queue.waiting):
            return
        self.cancelling = fold.active is not None
        self.draw_status()
        self.do(self._cancel(drops=fold.queue.paused is not None))

    async def _cancel(self, *, drops: bool) -> None:
        receipt = await self.tui.controller.cancel()
        self.cancelling = False
        if receipt is None:
            return
        if words := receipt_words(receipt):
            self.tell(words, warning=not receipt.durable or any(run.left_running for run in receipt.runs))
        if drops:
            self._put_back(receipt)

    def _put_back(self, receipt: Receipt) -> None:
        """Prompts that never started go back to the composer (`C10`)."""
        self.composer.put_back([run.prompt for run in receipt.runs if run.was in ("queued", "waiting") and run.prompt])

    # The queue.

    def action_focus_queue(self) -> None:
        queue = self.queue_list
        if queue.has_focus or not queue.prompts:
            self.composer.area.focus()
        else:
            queue.focus()
        self.call_after_refresh(self.draw_queue)

    def on_queue_list_changed(self, event: QueueList.Changed) -> None:
        controller, prompt = self.tui.controller, event.prompt
        match event.action:
            case "pause":
                self.do(controller.pause())
            case "resume":
                self.do(controller.resume())
            case "cancel_all":
                self.do(self._cancel_all())
            case "move" if prompt is not None:
                self.do(controller.move_queued(prompt.run_id, event.position))
            case "remove" if prompt is not None:
                self.do(controller.remove_queued(prompt.run_id))
            case "edit" if prompt is not None:
                self.do(self._take_back(prompt.run_id, prompt.prompt))

    async def _cancel_all(self) -> None:
        receipt = await self.tui.controller.cancel_everything()
        if receipt is not None:
            self._put_back(receipt)

    async def _take_back(self, run_id: str, prompt: str) -> None:
        """The prompt leaves the queue only if it has not started: then it is edited, else it stays what it is."""
        receipt = await self.tui.controller.remove_queued(run_id)
        if any(run.run_id == run_id and run.was in ("queued", "waiting") for run in receipt.runs):
            self.composer.put_back([prompt])
            self.composer.area.focus()

    # Approvals and questions.

    def on_ask_panel_typed_ahead(self, event: AskPanel.TypedAhead) -> None:
        self.composer.area.insert(event.text)
        self.draw_ask()

    def on_ask_panel_decided(self, event: AskPanel.Decided) -> None:
        self.answered.add(event.approval.id)
        self.do(self._answer(event))

    async def _answer(self, event: AskPanel.Decided) -> None:
        try:
            await self.tui.controller.answer_approval(
                event.approval.id,
                event.decision,
                pattern=event.pattern,
                scope=event.scope,
                feedback=event.feedback,
            )
        except Conflict:
            self.answered.discard(event.approval.id)  # another client was first; its answer is told by the event
        except CallerError as error:
            self.tell_error(error)

    def on_ask_panel_answered(self, event: AskPanel.Answered) -> None:
        self.answered.add(event.question.id)
        self.do(self.tui.controller.answer_question(event.question.id, event.answers))

    def tell_resolved(self, ask: Approval | Question) -> None:
        from holdfast.schema.approvals import Approval

        if ask.id in self.answered or ask.root_session_id != self.tui.link.session_id:
            return
        by = (ask.answered_by or "").partition("/")[0]
        if ask.state == "answered" and isinstance(ask, Approval):
            words = {"once": "allowed once", "session": "allowed for the session", "always": "allowed always"}
            self.tell(f"{words.get(ask.decision or '', 'denied')}, by {by or 'another client'}")
        elif ask.state == "answered":
            self.tell(f"answered by {by or 'another client'}")
        elif ask.state == "expired":
            self.tell("the deadline has passed; it counts as denied", warning=True)

    # The transcript.

    def action_focus_transcript(self) -> None:
        if self.view.has_focus:
            self.focus_input()
        else:
            self.view.focus()
        self.draw_status()

    def action_focus_composer(self) -> None:
        self.focus_input()

    def focus_input(self) -> None:
        (self.ask_panel if self.has_class("-asking") else self.composer.area).focus()

    def on_session_transcript_view_wants_search(self) -> None:
        self.add_class("-searching")
        self.parts.search.focus()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        event.stop()
        if event.value == self.view.state.search:
            self.view.next_match(1)
        elif not self.view.search(event.value):
            self.tell("no match")

    def _close_search(self) -> None:
        self.remove_class("-searching")
        self.view.search("")
        self.view.focus()

    def on_transcript_view_text_copied(self, event: SessionTranscriptView.TextCopied) -> None:
        self.tui.copy_to_clipboard(event.text)
        self.tell(f"copied {len(event.text)} characters")

    def on_transcript_view_target_chosen(self, event: SessionTranscriptView.TargetChosen) -> None:
        self.tui.open_target(event.target)

    def on_transcript_view_subagent_chosen(self, event: SessionTranscriptView.SubagentChosen) -> None:
        self.tui.show_session(event.session_id)

    def on_session_transcript_view_parent_wanted(self) -> None:
        link = self.tui.link
        session = link.fold.session(link.session_id) if link.session_id else None
        if session is not None and session.parent_id is not None:
            self.tui.show_session(session.parent_id)

    # Everything else that has a key.

    def action_cycle_mode(self) -> None:
        mode = self.tui.controller.next_mode()
        self.draw_status()
        if self.tui.controller.is_busy:
            self.tell(f"the next prompt runs in mode {MODE_WORDS[mode]}; the active run keeps its mode")

    def action_details(self) -> None:
        self.wants_details = not self.details_shown
        self.draw_details()
        self.draw_status()

    def action_interrupt(self) -> None:
        if selected := self.view.selected_text or self.composer.area.selected_text:
            self.tui.copy_to_clipboard(selected)
        elif self.composer.draft or self.composer.attachments:
            self._remember(self.composer.draft)
            self.composer.clear()
        elif time.monotonic() - self._interrupted_at < _LEAVE_SECONDS:
            self.tui.leave()
        else:
            self._interrupted_at = time.monotonic()
            self.tell("ctrl+c again leaves; esc cancels the active run")

    def action_leave(self) -> None:
        self.tui.leave()

    def action_suspend(self) -> None:
        self.tui.action_suspend_process()

    def action_sessions(self) -> None:
        self._run_command("sessions")

    def action_new_session(self) -> None:
        self.tui.show_session(None)

    def action_models(self) -> None:
        self._run_command("model")

    def action_jobs(self) -> None:
        self._run_command("jobs")

    def action_extensions(self) -> None:
        self._run_command("extensions")

    def action_continue_run(self) -> None:
        self._run_command("continue")

    def action_retry(self) -> None:
        self._run_command("retry")

    def action_undo_and_retry(self) -> None:
        self._run_command("undo-and-retry")

    def action_changes(self) -> None:
        self._run_command("changes")

    def action_commands(self) -> None:
        self._run_command("commands")
