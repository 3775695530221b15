"""One `holdfast run`: send the prompt once, follow the run to its end, cancel it on Ctrl-C.

Ctrl-C before the server has accepted the prompt sends the same run again, by its id, and cancels it, so that it cannot
start later. If the server stops or dies before it accepts the prompt, it is found or started again.

What follows a run and prints it is imported after the prompt was sent: the server works on it meanwhile. All of it is
imported then, not when it is first used, because another version may be installed before a long run ends.
"""

from __future__ import annotations

import time
from contextlib import ExitStack
from typing import TYPE_CHECKING, Literal, Self

from holdfast.cli.command_context import CommandContext
from holdfast.cli.exit_status import CommandError, Exit, exit_of_run
from holdfast.cli.interrupts import Interrupted, Interrupts
from holdfast.cli.screen import Screen, one_line
from holdfast.client.sync_client import SyncClient
from holdfast.errors import ClientError, Conflict, HoldfastError, NoModel, ServerError, ServerStopping, WorkspaceClosing
from holdfast.schema.base import Value
from holdfast.schema.messages import Message
from holdfast.schema.runs import END_STATES, Accepted, CoveredRun, NotSteered, Run, RunRequest

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable

    from holdfast.cli.run_follower import Prompter, RunFollower
    from holdfast.schema.events import Event

_RETRY_SECONDS = 30.0
_END_SECONDS = 20.0
"""How long to wait for the end after a cancel; the server's own limits are shorter."""


_LAST_ANSWER_SECONDS = 30.0
"""How long to wait at the end of ``--timeout`` for the end that the server makes itself; its own limit is shorter."""

_NOT_STEERED: dict[NotSteered, str] = {
    "idle": "no run is active",
    "stopping": "the active run is stopping",
    "not_a_prompt": "the active run is not a prompt",
    "settings": "the active run has another model, mode or limits",
}


class RunOptions(Value, frozen=True):
    """The options of `holdfast run`."""

    request: RunRequest
    session_id: str | None
    resume: bool
    output: Literal["text", "json", "jsonl"]
    last_message: str | None
    detach: bool
    timeout: float | None
    verbose: bool
    has_run_id: bool
    """``--run-id`` was given: the run may have started or ended before."""
    accepts_plan: bool = False
    """The run carries out the plan with which the session's last prompt ended; the prompt is a note about it."""

    @classmethod
    def from_args(cls, args: argparse.Namespace, request: RunRequest) -> Self:
        return cls(
            request=request,
            session_id=args.session,
            resume=args.resume,
            output=args.output,
            last_message=args.last_message,
            detach=args.detach,
            timeout=args.timeout,
            verbose=args.verbose,
            has_run_id=args.run_id is not None,
        )


class PromptRunner:
    """Sends one prompt and follows its run."""

    def __init__(self, screen: Screen, options: RunOptions) -> None:
        self._screen = screen
        self._options = options
        self._interrupts = Interrupts(seconds=None if options.detach else options.timeout)
        self._context: CommandContext
        self._known: list[Message] = []
        self._session_id = options.session_id
        self._cursor: str | None = None
        self._is_sent = False
        self._has_restarted_server = False
        self._accepted: Accepted | None = None
        self._follower: RunFollower | None = None
        self._cancelled: tuple[CoveredRun, ...] = ()

    def run(self) -> int:
        with self._interrupts, ExitStack() as stack:
            stack.callback(self._screen.finish)
            return self._run(stack)

    def _run(self, stack: ExitStack) -> int:
        try:
            with self._interrupts.allowed():
                self._screen.status("looking for the server")
                self._context = stack.enter_context(CommandContext())
            run = self._send_and_follow()
        except Interrupted:
            if not self._is_sent:
                return self._finish_unsent()
            run = self._cancel()
        except NoModel as error:
            from holdfast.cli.commands.models import print_no_model_help

            self._screen.finish()
            return print_no_model_help(self._context, error, screen=self._screen, requested=self._options.request.model)
        return Exit.COMPLETED if run is None else self._finish(run)

    def _finish_unsent(self) -> int:
        """Programs that read the result get one, also for a run that was never sent."""
        self._screen.finish()
        self._screen.note("nothing was sent")
        status = Exit.TIMED_OUT if self._interrupts.timed_out else Exit.CANCELLED
        if not self._options.detach:
            from holdfast.cli.run_result import unsent_run

            run = unsent_run(self._options.request.run_id, session_id=self._options.session_id)
            self._print_result(run, status)
        return status

    def _send_and_follow(self) -> Run | None:
        """The run as it ended; ``None`` with ``--detach``."""
        with self._interrupts.allowed():
            accepted = self._send()
        if self._options.detach:
            self._screen.finish()
            self._print_accepted(accepted)
            return None
        self._print_decision(accepted)
        with self._interrupts.allowed():
            follower = self._make_follower(accepted.run)
        if accepted.run.state in END_STATES:
            return accepted.run
        try:
            if self._options.has_run_id:
                follower.ask_pending()
            return follower.until_end(after=self._cursor, known=self._known)
        except (ClientError, ServerError) as error:
            raise self._lost_error(error) from error

    def _send(self) -> Accepted:
        """Send the prompt until a server accepts it: this one, or its successor if this one is stopping."""
        until = time.monotonic() + _RETRY_SECONDS
        while self._accepted is None:
            try:
                self._screen.status("sending")
                session_id = self._choose_session()
                self._is_sent = True
                client, request = self._context.client, self._context.with_shell(self._options.request)
                if session_id is None:
                    self._accepted = client.start_session(self._context.workspace.id, request)
                elif self._options.accepts_plan:
                    self._accepted = _accept_plan(client, session_id, request)
                else:
                    self._accepted = client.start_run(session_id, request)
            except (ServerStopping, WorkspaceClosing):
                if time.monotonic() >= until:
                    raise
                time.sleep(0.1)
                self._context.reopen()
            except Conflict as error:
                if error.error_code != "other_config" or not self._context.restart_with_other_config():
                    raise
            except NoModel:
                if self._has_restarted_server or not self._context.restart_with_new_keys(self._screen):
                    raise
                self._has_restarted_server = True
        return self._accepted

    def _choose_session(self) -> str | None:
        """The session to prompt, ``None`` for a new one. The cursor is read before the prompt is sent."""
        if self._session_id is None and self._options.resume:
            self._session_id = self._context.session_id(None)
        elif self._session_id is not None:
            self._session_id = self._context.session_id(self._session_id)
        if self._session_id is None:
            self._cursor = self._context.workspace.cursor
        else:
            self._cursor = self._context.client.session(self._session_id).cursor
        return self._session_id

    def _print_accepted(self, accepted: Accepted) -> None:
        if self._options.output == "text":
            self._screen.line(accepted.run.id)
            return
        from holdfast.cli.formatting import json_text

        self._screen.line(json_text(accepted))

    def _print_decision(self, accepted: Accepted) -> None:
        if accepted.decision == "queued":
            position = f" behind {accepted.position} run{'s' * (accepted.position != 1)}" if accepted.position else ""
            self._screen.note(f"queued{position}: {accepted.run.id} in {accepted.run.session_id}")
            if accepted.not_steered is not None:
                self._screen.note(f"it does not steer: {_NOT_STEERED[accepted.not_steered]}")
        elif accepted.decision == "steered":
            self._screen.note(f"joins {accepted.host_run_id} at its next step")
        self._screen.status("queued" if accepted.decision == "queued" else "starting")

    def _make_follower(self, run: Run) -> RunFollower:
        """If the run may have started before this command, also print what it wrote until now."""
        from holdfast.cli import run_result  # noqa: F401 - used at the end of the run
        from holdfast.cli.run_follower import RunFollower

        options, client = self._options, self._context.client
        self._follower = RunFollower(
            client,
            run,
            screen=self._screen,
            interrupts=self._interrupts,
            prompter=self._prompter() if run.interactive and options.request.interactive else None,
            text=options.output == "text" and options.request.output_schema is None,
            verbose=options.verbose,
            on_event=self._event_line_printer() if options.output == "jsonl" else None,
        )
        if options.has_run_id:
            self._known, self._cursor = client.all_messages(run.session_id)
            self._follower.print_past(self._known)
        return self._follower

    def _prompter(self) -> Prompter:
        from holdfast.cli.approval_prompt import ApprovalPrompt

        return ApprovalPrompt(self._context.client, self._screen)

    def _event_line_printer(self) -> Callable[[Event], None]:
        """Prints the session's events, without those that are about the connection."""
        from holdfast.cli.event_printer import is_session_event
        from holdfast.cli.formatting import json_line

        def print_line(event: Event) -> None:
            if is_session_event(event):
                self._screen.line(json_line(event))

        return print_line

    def _cancel(self) -> Run:
        """Cancel exactly this run; returns the run as it ended, which may be by itself."""
        timed_out, run_id = self._interrupts.timed_out, self._options.request.run_id
        self._interrupts.exit_message = (
            f"left; the run may still be active: 'holdfast cancel {run_id}' cancels it, "
            f"'holdfast wait {run_id}' waits for it"
        )
        self._screen.note("out of time, cancelling" if timed_out else "cancelling; press Ctrl-C again to leave at once")
        self._screen.status("cancelling")
        accepted = self._send()
        client, run_id = self._context.client, accepted.run.id
        try:
            if timed_out and (run := self._wait_for_last_answer(run_id)) is not None:
                return run
            self._cancelled = client.cancel_run(run_id).runs
            run = client.wait_run(run_id, seconds=_END_SECONDS)
        except (ClientError, ServerError) as error:
            raise self._lost_error(error) from error
        except Conflict as error:
            if error.error_code != "run_joined":
                raise
            host = error.detail.get("host_run_id") or accepted.host_run_id
            raise CommandError(
                "this prompt has joined another run, which continues",
                advice=f"'holdfast cancel {host}' cancels that run",
                status=Exit.CANCELLED,
            ) from None
        (self._follower or self._make_follower(run)).print_stored()
        return run

    def _wait_for_last_answer(self, run_id: str) -> Run | None:
        """An active run ends by its own limit at this time, and its last answer says where things stand."""
        client = self._context.client
        run = client.wait_run(run_id, seconds=0)
        if run.state == "active":
            run = client.wait_run(run_id, seconds=_LAST_ANSWER_SECONDS)
        if run.state not in END_STATES:
            return None
        (self._follower or self._make_follower(run)).print_stored()
        return run

    def _lost_error(self, error: HoldfastError) -> CommandError:
        assert self._accepted is not None
        run_id = self._accepted.run.id
        return CommandError(
            f"the server is gone, and the end of {run_id} is unknown: {one_line(error.message)}",
            advice=f"'holdfast wait {run_id}' asks for its end",
            status=Exit.INTERRUPTED,
        )

    def _finish(self, run: Run) -> int:
        """Print the result and the end; returns the exit status."""
        from holdfast.cli.run_result import print_end

        self._screen.finish()
        out_of_time = self._options.timeout is not None and run.reason == "limit_time"
        status = int(exit_of_run(run, timed_out=out_of_time or self._interrupts.timed_out))
        self._print_result(run, status)
        print_end(run, self._screen, cancelled=self._cancelled)
        if self._options.last_message:
            status = self._write_last_message(run.text, self._options.last_message) or status
        return Exit.FAILED if self._screen.out_failed and not status else status

    def _print_result(self, run: Run, status: int) -> None:
        if self._options.output == "text":
            if self._options.request.output_schema is not None and run.state == "completed":
                self._screen.line(run.text.strip())  # only the answer that matches; other texts were not printed
            return
        from holdfast.cli.formatting import json_line, json_text
        from holdfast.cli.run_result import make_result

        decision = self._accepted.decision if self._accepted else None
        result = make_result(run, exit_code=status, decision=decision, cancelled=self._cancelled)
        self._screen.line(json_line(result) if self._options.output == "jsonl" else json_text(result))

    def _write_last_message(self, text: str, path: str) -> int:
        try:
            with open(path, "w", encoding="utf-8") as file:
                file.write(text if text.endswith("\n") or not text else text + "\n")
        except OSError as error:
            self._screen.warn(f"holdfast: cannot write {path!r}: {error.strerror}")
            return Exit.FAILED
        return 0


def _accept_plan(client: SyncClient, session_id: str, request: RunRequest) -> Accepted:
    assert request.mode is not None
    return client.accept_plan(
        session_id,
        mode=request.mode,
        note=request.prompt or None,
        interactive=request.interactive,
        run_id=request.run_id,
    )
