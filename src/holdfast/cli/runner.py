"""The life of one `holdfast run`: accepted once, followed to its end, cancelled for certain.

What it closes: a Ctrl-C before the ``202`` came back sends the same run again, which is the same run, and cancels that;
a server that stops or dies in between is found or started again, and asked what became of the run.
"""

from __future__ import annotations

import argparse
import time
from contextlib import ExitStack
from typing import Any, Literal, NamedTuple, Self

from holdfast.cli.approval_prompt import ApprovalPrompt
from holdfast.cli.command_context import CommandContext
from holdfast.cli.error_messages import Problem
from holdfast.cli.event_printer import EventPrinter
from holdfast.cli.exit_status import Exit, exit_of_run
from holdfast.cli.formatting import thousands
from holdfast.cli.interrupts import Interrupted, Interrupts
from holdfast.cli.run_result import as_json, as_line, as_text, result_of
from holdfast.cli.run_watcher import RunWatcher, stopped
from holdfast.cli.screen import Screen, one_line
from holdfast.errors import ClientError, Conflict, HoldfastError, NoModel, ServerError, ServerStopping, WorkspaceClosing
from holdfast.schema.events import ClientAttached, ClientDetached, Event, Heartbeat, Hello, Reset
from holdfast.schema.messages import Message
from holdfast.schema.runs import END_STATES, Accepted, CoveredRun, Run, RunError, RunRequest

_RETRY_SECONDS = 30.0
_END_SECONDS = 20.0
"""How long an end is waited for after a cancel; the server's own bounds are shorter."""


class Job(NamedTuple):
    """What was asked for on the command line."""

    request: RunRequest
    session_id: str | None
    resume: bool
    output: Literal["text", "json", "jsonl"]
    last_message: str | None
    detach: bool
    timeout: float | None
    may_be_known: bool
    """The run's id was given: the run may have begun, or ended, long ago."""

    @classmethod
    def of(cls, args: argparse.Namespace, request: RunRequest) -> Self:
        return cls(
            request=request,
            session_id=args.session,
            resume=args.resume,
            output=args.output,
            last_message=args.last_message,
            detach=args.detach,
            timeout=args.timeout,
            may_be_known=args.run_id is not None,
        )


class Runner:
    def __init__(self, screen: Screen, job: Job) -> None:
        self._screen = screen
        self._job = job
        self._interrupts = Interrupts(seconds=None if job.detach else job.timeout)
        self._here: CommandContext
        self._known: list[Message] = []
        self._session_id = job.session_id
        self._cursor: str | None = None
        self._sent = False
        self._renewed = False
        self._accepted: Accepted | None = None
        self._teller: EventPrinter | None = None
        self._watch: RunWatcher | None = None
        self._cancelled: tuple[CoveredRun, ...] = ()

    def run(self) -> int:
        with self._interrupts, ExitStack() as stack:
            stack.callback(self._screen.finish)
            return self._run(stack)

    def _run(self, stack: ExitStack) -> int:
        try:
            with self._interrupts.allowed():
                self._screen.status("looking for the server")
                self._here = stack.enter_context(CommandContext())
            run = self._followed()
        except Interrupted:
            if not self._sent:
                return self._nothing_sent()
            run = self._cancel()
        except NoModel as error:
            from holdfast.cli.no_model_help import no_model

            self._screen.finish()
            return no_model(self._here, error, screen=self._screen, asked=self._job.request.model)
        return Exit.COMPLETED if run is None else self._end(run)

    def _nothing_sent(self) -> int:
        """Whoever reads the result gets one, of a run that nobody has."""
        self._screen.finish()
        self._screen.note("nothing was sent")
        status = Exit.TIMED_OUT if self._interrupts.timed_out else Exit.CANCELLED
        if not self._job.detach:
            self._print(never_sent(self._job.request.run_id, session_id=self._job.session_id), status, None)
        return status

    def _followed(self) -> Run | None:
        """The run as it ended; nothing for one that is left alone."""
        with self._interrupts.allowed():
            self._accept()
        accepted = self._accepted
        assert accepted is not None
        if self._job.detach:
            self._screen.finish()
            self._screen.line(as_text(accepted) if self._job.output != "text" else accepted.run.id)
            return None
        self._tell_decision(accepted)
        with self._interrupts.allowed():
            after = self._prepare(accepted.run)
        if accepted.run.state in END_STATES:
            return accepted.run
        assert self._watch is not None
        self._here.client.leave_stopped = True
        try:
            return self._watch.until_end(after=after, known=self._known)
        except ServerStopping as error:
            raise stopped(self._watch.run) from error
        except (ClientError, ServerError) as error:
            raise self._lost(error) from error

    def _accept(self) -> None:
        """Sent until it is answered: by this server, or by the next one if this one is just leaving."""
        until = time.monotonic() + _RETRY_SECONDS
        while self._accepted is None:
            try:
                self._screen.status("sending")
                session_id = self._session()
                self._sent = True
                client, request = self._here.client, self._job.request
                if session_id is None:
                    self._accepted = client.start_session(self._here.workspace.id, request)
                else:
                    self._accepted = client.start_run(session_id, request)
            except (ServerStopping, WorkspaceClosing):
                if time.monotonic() >= until:
                    raise
                time.sleep(0.1)
                self._here.reopen()
            except NoModel:
                if self._renewed or not self._renew_server():
                    raise

    def _renew_server(self) -> bool:
        """A server that was started before a key was set does not have it; an idle one makes room for one that has."""
        from holdfast.cli.no_model_help import renew_server

        self._renewed = True
        return renew_server(self._here, screen=self._screen)

    def _session(self) -> str | None:
        """Where to; the cursor is taken before anything is sent, so that it is older than the run."""
        if self._session_id is None and self._job.resume:
            self._session_id = self._here.session_id(None)
        if self._session_id is None:
            self._cursor = self._here.workspace.cursor
        else:
            self._cursor = self._here.client.session(self._session_id).cursor
        return self._session_id

    def _tell_decision(self, accepted: Accepted) -> None:
        if accepted.decision == "queued":
            place = f", {accepted.position} before it" if accepted.position else ""
            self._screen.note(f"queued{place}: {accepted.run.id} in {accepted.run.session_id}")
        elif accepted.decision == "steered":
            self._screen.note(f"joins {accepted.host_run_id} at its next step")
        self._screen.status("queued" if accepted.decision == "queued" else "starting")

    def _prepare(self, run: Run) -> str | None:
        """The cursor to follow from. What a run said that began before now is told first."""
        job, client = self._job, self._here.client
        runs = [run.id] if run.host_run_id is None else [run.id, run.host_run_id]
        self._teller = EventPrinter(self._screen, session_id=run.session_id, runs=runs, text=job.output == "text")
        self._watch = RunWatcher(
            client,
            run,
            screen=self._screen,
            teller=self._teller,
            interrupts=self._interrupts,
            asker=ApprovalPrompt(client, self._screen) if run.interactive and job.request.interactive else None,
            on_event=self._jsonl if job.output == "jsonl" else None,
        )
        if not job.may_be_known:
            return self._cursor
        self._known, cursor = client.all_messages(run.session_id)
        messages = self._known
        self._teller.known(message for message in messages if message.run_id != run.id)
        self._teller.catch_up(message for message in messages if message.run_id == run.id)
        if run.state not in END_STATES:
            self._watch.ask_what_is_open()
        return cursor

    def _jsonl(self, event: Event) -> None:
        """The session's events; what is about the connection is not."""
        if not isinstance(event, Hello | Heartbeat | Reset | ClientAttached | ClientDetached):
            self._screen.line(as_line(event))

    def _cancel(self) -> Run:
        """Exactly this run; returns it as it ended, which may be by itself."""
        timed_out, name = self._interrupts.timed_out, self._job.request.run_id
        self._interrupts.parting = (
            f"left; the run may still be going: 'holdfast cancel {name}' ends it, 'holdfast wait {name}' waits for it"
        )
        self._screen.note("out of time, cancelling" if timed_out else "cancelling; once more leaves at once")
        self._screen.status("cancelling")
        self._accept()
        accepted = self._accepted
        assert accepted is not None
        client, run_id = self._here.client, accepted.run.id
        try:
            self._cancelled = client.cancel_run(run_id).runs
            run = client.wait_run(run_id, seconds=_END_SECONDS)
        except (ClientError, ServerError) as error:
            raise self._lost(error) from error
        except Conflict as error:
            if error.error_code != "run_joined":
                raise
            host = error.detail.get("host_run_id") or accepted.host_run_id
            raise Problem(
                "this prompt has joined another run, which goes on",
                advice=f"'holdfast cancel {host}' ends that one",
                status=Exit.CANCELLED,
            ) from None
        if self._watch is None:
            self._prepare(run)
        assert self._watch is not None
        self._watch.catch_up()
        return run

    def _lost(self, error: HoldfastError) -> Problem:
        """Nobody tells what becomes of the run."""
        assert self._accepted is not None
        return Problem(
            f"the server was lost, and with it the sight of {self._accepted.run.id}: {one_line(error.message)}",
            advice=f"'holdfast wait {self._accepted.run.id}' asks for its end",
            status=Exit.INTERRUPTED,
        )

    def _end(self, run: Run) -> int:
        """Everything that is to be said at the end, and the status."""
        self._screen.finish()
        out_of_time = self._job.timeout is not None and run.reason == "limit_time"
        status = int(exit_of_run(run, timed_out=out_of_time or self._interrupts.timed_out))
        output = None
        if self._job.request.output_schema is not None and run.state == "completed":
            output = as_json(run.text)
            if output is None:
                self._screen.warn("holdfast: the answer is not the JSON that --output-schema asks for")
                status = Exit.FAILED
        self._print(run, status, output)
        self._tell_end(run)
        if self._job.last_message:
            status = self._write_last(run.text, self._job.last_message) or status
        return Exit.FAILED if self._screen.out_failed and not status else status

    def _print(self, run: Run, status: int, output: Any) -> None:
        if self._job.output == "text":
            return
        decision = self._accepted.decision if self._accepted else None
        result = result_of(run, exit_code=status, decision=decision, output=output, cancelled=self._cancelled)
        self._screen.line(as_line(result) if self._job.output == "jsonl" else as_text(result))

    def _tell_end(self, run: Run) -> None:
        for covered in self._cancelled:
            what = f", was {covered.doing.what or covered.doing.phase}" if covered.doing else ""
            self._screen.note(f"{covered.run_id}: {covered.ended_as or 'has not ended yet'}{one_line(what)}")
            for killed in covered.killed:
                self._screen.note(f"  killed: {one_line(killed)}")
        for left in run.left_running:
            self._screen.note(f"goes on in the background: {one_line(left)}")
        if run.state == "completed" and self._screen.err_is_terminal:
            self._screen.note(self._screen.style.dim(summary(run)))
        if run.state == "completed" or (run.state == "cancelled" and self._cancelled):
            return
        why = f": {one_line(run.error.message, most=500)}" if run.error else ""
        reason = f" ({run.reason})" if run.reason else ""
        self._screen.warn(f"holdfast: the run {_ENDS.get(run.state, 'has not ended')}{reason}{why}")
        self._screen.warn(f"          {advice_for(run)}")

    def _write_last(self, text: str, path: str) -> int:
        try:
            with open(path, "w", encoding="utf-8") as file:
                file.write(text if text.endswith("\n") or not text else text + "\n")
        except OSError as error:
            self._screen.warn(f"holdfast: cannot write {path!r}: {error.strerror}")
            return Exit.FAILED
        return 0


_ENDS = {"failed": "failed", "cancelled": "was cancelled", "interrupted": "was interrupted"}
_ADVICE = {
    "denied": "allow it with --mode or with rules: 'holdfast config set approvals.allow …'",
    "limit_steps": "go on with: holdfast run --continue --max-steps N …",
    "limit_time": "go on with: holdfast run --continue --timeout TIME …",
    "limit_cost": "go on with: holdfast run --continue --max-cost DOLLARS …",
    "loop": "say it another way: holdfast run --continue …",
    "max_tokens": 'let it go on: holdfast run --continue "go on"',
    "auth": "'holdfast key set PROVIDER' sets it; what changed in the environment counts after 'holdfast stop'",
    "no_model": "'holdfast models' lists what can be used",
    "rate_limit": "wait, or use another model: 'holdfast models' lists them",
    "server_stop": 'what it said so far is kept; go on with: holdfast run --continue "go on"',
    "server_crash": 'what it said so far is kept; go on with: holdfast run --continue "go on"',
    "user_cancel": "it was cancelled from elsewhere",
}


def never_sent(run_id: str | None, *, session_id: str | None) -> Run:
    """What an interrupted command says of a run that it had not asked for yet."""
    error = RunError("not_sent", "nothing was sent")
    return Run(
        id=run_id or "", session_id=session_id or "", seq=0, state="cancelled", reason="user_cancel", error=error
    )


def summary(run: Run) -> str:
    """What it took, for the last line on a terminal."""
    used = run.usage.input + run.usage.cache_read + run.usage.cache_write + run.usage.output
    facts = [run.session_id, f"{run.steps} step{'s' * (run.steps != 1)}", f"{thousands(used)} tokens"]
    if run.usage.cost:
        facts.append(f"${run.usage.cost:.4f}")
    return " · ".join(facts)


def advice_for(run: Run) -> str:
    if run.reason in _ADVICE:
        return _ADVICE[run.reason]
    if exit_of_run(run) is Exit.PROVIDER:
        return "try again later, or use another model: 'holdfast models' lists them"
    return f"'holdfast sessions show {run.session_id}' shows what was said"
