"""The exploration finds each of these one-line mistakes in the lane, so its checks can fail."""

import sys
from pathlib import Path
from types import ModuleType

import pytest

from holdfast.runs.lane import decisions, state
from holdfast.runs.lane.protocol import Command
from holdfast.runs.lane.state import Lane
from tests.runs.lane.lane_explorer import ExplorationLimits, explore
from tests.runs.lane.lane_promises import BrokenPromiseError, Decide, turn_of

_LIMITS = ExplorationLimits(runs=3, cancels=1, crashes=1)

_IN_DECIDE = {
    "a seq is used twice": ("next_seq=run.seq + 1", "next_seq=run.seq"),
    "a steer waits for a stopping run": ('alike = host.state == "active" and host.kind', "alike = host.kind"),
    "a steer waits for a run with other settings": (
        ' and host.kind == "prompt" and same',
        ' and host.kind == "prompt"',
    ),
    "a steer with the same settings, given differently, is queued": (" or host.id == command.same_settings_as", ""),
    "a steer waits for a run that is not the one with its settings": (
        "host.id == command.same_settings_as",
        "command.same_settings_as is not None",
    ),
    "a steer waits for a compaction": ('host.kind == "prompt" and same', "same"),
    "a compaction is accepted as a steer": ('or command.kind != "prompt" or host is None', "or host is None"),
    "a repeated run is accepted again": ("if lane.find(command.run_id) is not None:", "if lane is None:"),
    "a run is accepted while the session is being deleted": ('case "open":\n', 'case "open" | "deleting":\n'),
    "no steer joins at the last step": (
        "if command.proposed is not None and not waiting:",
        "if command.proposed is not None:",
    ),
    "only the first steer joins": (
        "    for run in waiting:\n        draft.update(run, SteerJ",
        "    for run in waiting[:1]:\n        draft.update(run, SteerJ",
    ),
    "a stopping turn continues": ("        return StopNow(host.phase.reason)", "        pass"),
    "a stopping run ends with the outcome of its turn": (
        "        state, reason = _ENDS_AS[host.phase.reason], host.phase.reason",
        "        pass",
    ),
    "a host ends without its joined runs": ("draft.finish([host, *draft.lane.joined],", "draft.finish([host],"),
    "the last end is not stored": ("    draft.set(last_end=state)\n", ""),
    "waiting steers are not requeued at an end": ("last_end=state)\n    _requeue_steers(draft)", "last_end=state)"),
    "the next run does not start": ("    _requeue_steers(draft)\n    _settle(draft)\n", "    _requeue_steers(draft)\n"),
    "a cancel does not cover waiting steers": ('if run.state in ("queued", "waiting")]', 'if run.state == "queued"]'),
    "a cancel does not stop the active run": (
        "        _stop(draft, lane.active, reason)\n    draft.set(hold",
        "        pass\n    draft.set(hold",
    ),
    "a cancel sets no mark": ("mark=lane.next_seq - 1 if lane.runs else lane.mark", "mark=lane.mark"),
    "a cancelled session stays paused": ("draft.set(hold=None, mark=", "draft.set(mark="),
    "a cancel of the active run covers the queue": (
        "    _stop(draft, lane.active, reason)\n    _requeue_steers",
        "    _end_all(draft, reason)\n    _requeue_steers",
    ),
    "a cancel of the active run does not requeue waiting steers": (
        "lane.active, reason)\n    _requeue_steers(draft)",
        "lane.active, reason)",
    ),
    "a cancel of a joined run stops its host": (
        "case ActivePhase() | StoppingPhase():",
        "case ActivePhase() | StoppingPhase() | JoinedPhase():",
    ),
    "a later reason replaces the first": ("    if isinstance(run.phase, ActivePhase):", "    if run.phase:"),
    "steers are requeued behind the queue": (
        "enumerate(waiting, head - len(waiting))",
        "enumerate(waiting, draft.lane.next_seq)",
    ),
    "steers are requeued within the queue": ("enumerate(waiting, head - len(waiting))", "enumerate(waiting, head)"),
    "a moved run is one place too far back": ("order.insert(position - 1, run)", "order.insert(position, run)"),
    "a run starts in a closed lane": ('lane.lifecycle == "open" and lane.active is None', "lane.active is None"),
    "a run starts while another has the turn": (" and lane.active is None and lane.paused", " and lane.paused"),
    "a run starts in a paused lane": (" and lane.paused is None\n", "\n"),
    "the last queued run starts first": (
        "lane.queue:\n        _start(draft, lane.queue[0])",
        "lane.queue:\n        _start(draft, lane.queue[-1])",
    ),
    "resume waits for a success": ("        _start(draft, draft.lane.queue[0])", "        _settle(draft)"),
    "a server stop leaves no pause": ('hold=draft.lane.hold or "server_stop"', "hold=draft.lane.hold"),
    "a server stop replaces the user's pause": ('hold=draft.lane.hold or "server_stop"', 'hold="server_stop"'),
    "a server stop pauses an empty queue": (
        'if lane.hold == "server_stop" and not lane.queue:',
        "if lane.queue is None:",
    ),
    "a recovered lane starts before it is opened": (
        'lane.lifecycle == "open":\n        draft.set(lifecycle="closed")\n',
        'lane.lifecycle == "open":\n        pass\n',
    ),
    "a crash leaves a run active": (
        '        _end(draft, draft.lane.active, "interrupted", "server_crash")',
        "        pass",
    ),
    "a deletion is never completed": (
        'if lane.lifecycle == "deleting" and not lane.runs:',
        "if lane.lifecycle is None:",
    ),
}

_IN_STATE = {
    "the queue is ordered by seq": ("queue", "key=lambda run: run.rank", "key=lambda run: run.seq"),
    "a success pauses the lane": ("paused", "self.last_end not in", "self.last_end in"),
    "the last queued run decides about the pause": (
        "paused",
        'queue[0].after == "success"',
        'queue[-1].after == "success"',
    ),
    "a stopping run has no turn": ("active", "(ActivePhase, StoppingPhase):", "(ActivePhase,):"),
}


def _mutated(module: ModuleType, old: str, new: str, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    path = Path(str(module.__file__))
    source = path.read_text()
    assert source.count(old) == 1, f"the text to be changed must be there exactly once: {old!r}"
    mutant = ModuleType(f"{module.__name__}_mutant")
    monkeypatch.setitem(sys.modules, mutant.__name__, mutant)
    exec(compile(source.replace(old, new), path, "exec"), vars(mutant))
    return mutant


@pytest.mark.parametrize(("old", "new"), _IN_DECIDE.values(), ids=_IN_DECIDE)
def test_a_mutated_decision_breaks_a_promise(old: str, new: str, monkeypatch: pytest.MonkeyPatch) -> None:
    mutant = _mutated(decisions, old, new, monkeypatch)
    with pytest.raises(BrokenPromiseError):
        explore(mutant.decide, _LIMITS)


@pytest.mark.parametrize(("name", "old", "new"), _IN_STATE.values(), ids=_IN_STATE)
def test_a_mutated_state_breaks_a_promise(name: str, old: str, new: str, monkeypatch: pytest.MonkeyPatch) -> None:
    mutant = _mutated(state, old, new, monkeypatch)
    monkeypatch.setattr(Lane, name, vars(mutant.Lane)[name])
    for phase in ("QueuedPhase", "WaitingPhase", "JoinedPhase", "ActivePhase", "StoppingPhase"):
        setattr(mutant, phase, getattr(state, phase))
    with pytest.raises(BrokenPromiseError):
        explore(decisions.decide, _LIMITS)


def test_a_cancel_that_stops_whatever_run_has_the_turn_breaks_a_promise() -> None:
    """A signal that is not tied to the decided run can hit a later one."""

    def stops_what_has_the_turn(_decide: Decide, _before: Lane, after: Lane, _cancel: Command) -> frozenset[str]:
        turn = turn_of(after)
        return frozenset() if turn is None else frozenset({turn.id})

    with pytest.raises(BrokenPromiseError, match="stopped early"):
        explore(decisions.decide, _LIMITS, rule=stops_what_has_the_turn)
