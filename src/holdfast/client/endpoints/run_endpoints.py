"""Runs: starting, changing and cancelling them, and the other work of a session's lane."""

from __future__ import annotations

from typing import Any

from holdfast.client.api_call import ApiCall, api_call, api_path, body_reader, encode_body, fields_of, without_none
from holdfast.ids import Ids
from holdfast.schema.runs import Accepted, CancelScope, Mode, Queue, Receipt, Run, RunRequest


def start_run(session_id: str, request: RunRequest) -> ApiCall[Accepted]:
    """Start a run. A request without an id gets one here, so that repeating the call gives the same run (`R3`)."""
    return _start(api_path("sessions", session_id, "runs"), request)


def start_session(workspace_id: str, request: RunRequest, *, title: str | None = None) -> ApiCall[Accepted]:
    """Start a new session with its first run."""
    return _start(api_path("workspaces", workspace_id, "runs"), request, **without_none(title=title))


def run(run_id: str, *, wait: float = 0.0) -> ApiCall[Run]:
    return api_call(
        "GET", api_path("runs", run_id), returns=Run, query={"wait": f"{wait:g}"} if wait else {}, wait=wait
    )


def change_run(run_id: str, *, prompt: str | None = None, position: int | None = None) -> ApiCall[Run]:
    body = without_none(prompt=prompt, position=position)
    return api_call("PATCH", api_path("runs", run_id), body, returns=Run)


def cancel_run(run_id: str) -> ApiCall[Receipt]:
    return api_call("POST", api_path("runs", run_id, "cancel"), returns=Receipt, wait=2.0)


def cancel_session(session_id: str, *, scope: CancelScope = "session") -> ApiCall[Receipt]:
    return api_call("POST", api_path("sessions", session_id, "cancel"), {"scope": scope}, returns=Receipt, wait=2.0)


def pause(session_id: str) -> ApiCall[Queue]:
    return api_call("POST", api_path("sessions", session_id, "pause"), returns=Queue)


def resume(session_id: str) -> ApiCall[Queue]:
    return api_call("POST", api_path("sessions", session_id, "resume"), returns=Queue)


def shell(session_id: str, command: str, *, environment: dict[str, str] | None = None) -> ApiCall[Accepted]:
    return _start_lane_action("shell", session_id, command=command, environment=environment)


def compact(session_id: str, *, instruction: str | None = None) -> ApiCall[Accepted]:
    return _start_lane_action("compact", session_id, instruction=instruction)


def accept_plan(
    session_id: str,
    *,
    mode: Mode = "accept_edits",
    note: str | None = None,
    interactive: bool = True,
    run_id: str | None = None,
) -> ApiCall[Accepted]:
    """Carry out the plan with which the last prompt ended."""
    body = without_none(mode=mode, note=note, run_id=run_id)
    return _start_call(api_path("sessions", session_id, "accept-plan"), {**body, "interactive": interactive})


def undo(
    session_id: str, *, to_message_id: str | None = None, confirmed_runs: tuple[str, ...] = ()
) -> ApiCall[Accepted]:
    """``confirmed_runs``: the runs of a `preview_undo` whose files that changed during commands are restored too."""
    return _start_lane_action(
        "undo", session_id, to_message_id=to_message_id, confirmed_runs=list(confirmed_runs) or None
    )


def redo(session_id: str, *, to_message_id: str | None = None) -> ApiCall[Accepted]:
    return _start_lane_action("redo", session_id, to_message_id=to_message_id)


def _start(target: str, request: RunRequest, **more: str) -> ApiCall[Accepted]:
    return _start_call(target, fields_of(request) | more)


def _start_lane_action(action: str, session_id: str, **arguments: object) -> ApiCall[Accepted]:
    return _start_call(api_path("sessions", session_id, action), without_none(**arguments))


def _start_call(target: str, body: dict[str, Any]) -> ApiCall[Accepted]:
    return ApiCall("POST", target, body_reader(Accepted), encode_body({"run_id": Ids().new("run"), **body}))
