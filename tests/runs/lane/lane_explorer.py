"""Sends every command to every reachable state of a lane and checks each decision against the promises."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass, field
from typing import Any

from msgspec.structs import replace

from holdfast.errors import HoldfastError
from holdfast.runs.lane.protocol import (
    Accept,
    Boundary,
    CancelActive,
    CancelRun,
    CancelSession,
    Command,
    Delete,
    Edit,
    End,
    Move,
    Open,
    Pause,
    Recover,
    Resume,
    ServerStop,
    TurnStopping,
)
from holdfast.runs.lane.state import Lane, LaneRun
from holdfast.schema.runs import RunSettings
from tests.runs.lane.lane_promises import (
    COMPLETED,
    CONFIGURED_MODEL,
    FAILED,
    BrokenPromiseError,
    Decide,
    check_decision,
    check_drain,
    check_state,
    in_effect,
    must,
    queue_of,
    right_cover,
    right_refusal,
    runs_in,
    turn_of,
)

_SETTINGS = (RunSettings(model=CONFIGURED_MODEL), RunSettings(model="p/two"))
_NEW_RUNS = (
    *(Accept(run_id="", settings=settings) for settings in _SETTINGS),
    *(Accept(run_id="", settings=settings, after="success") for settings in _SETTINGS),
    *(Accept(run_id="", settings=settings, delivery="steer") for settings in _SETTINGS),
    *(Accept(run_id="", settings=settings, delivery="steer", after="success") for settings in _SETTINGS),
    Accept(run_id="", settings=_SETTINGS[0], kind="compact"),
    Accept(run_id="", settings=_SETTINGS[0], kind="compact", delivery="steer"),
    Accept(run_id="", settings=RunSettings(), delivery="steer"),
    Accept(run_id="", settings=_SETTINGS[1], delivery="steer", same_settings_as="gone"),
)


@dataclass(frozen=True, slots=True)
class ExplorationLimits:
    """How many runs, cancels and crashes there may be. Other commands may come any number of times."""

    runs: int
    cancels: int
    crashes: int


@dataclass(frozen=True, slots=True)
class Node:
    """A lane, the runs, cancels and crashes it took to reach it, and its runs that a cancel has covered."""

    lane: Lane = field(default_factory=Lane)
    accepted: int = 0
    cancels: int = 0
    crashes: int = 0
    covered: frozenset[str] = frozenset()
    path: tuple[Any, ...] = ()
    """The commands that led here, the last one first, as nested pairs."""


Key = Callable[[Node, ExplorationLimits], Hashable]


@dataclass(slots=True)
class Found:
    states: set[Hashable] = field(default_factory=set)
    accepted_commands: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    """Commands that were refused with the right error."""
    complete: bool = True
    """Whether every state that can be reached was reached."""

    def __str__(self) -> str:
        accepted_commands, refused = self.accepted_commands.total(), self.refused.total()
        return f"{len(self.states)} states, {accepted_commands} transitions, {refused} refused commands"


def reduced_state(node: Node, limits: ExplorationLimits) -> Hashable:
    """The part of a state that can affect later decisions. States that are equal in it are explored once.

    It leaves out the ids and numbers of runs (but not their order); kinds and settings if no run can be accepted any
    more, and those of a stopping run; which of the two settings is which, and how they were given; the last end while
    another run has the turn.
    """
    lane, turn = node.lane, turn_of(node.lane)
    names: dict[object, int] = {}

    def kind(run: LaneRun) -> Hashable:
        if node.accepted == limits.runs:
            return None
        return names.setdefault(in_effect(run.settings).model, len(names)) if run.kind == "prompt" else run.kind

    return (
        (node.accepted, node.cancels, node.crashes, len(node.covered)),
        (lane.lifecycle, lane.hold),
        (lane.last_end in (None, "completed")) if turn is None else (turn.stop_reason or "active"),
        kind(turn) if turn is not None and turn.state == "active" else None,
        len(runs_in(lane, "joined")),
        tuple(run.after for run in runs_in(lane, "waiting")),
        tuple((run.after, kind(run)) for run in queue_of(lane)),
    )


def whole_state(node: Node, _limits: ExplorationLimits) -> Hashable:
    """The whole state, with numbers and names."""
    return node.lane, node.accepted, node.cancels, node.crashes, node.covered


StopRule = Callable[[Decide, Lane, Lane, Command], frozenset[str]]
"""Which runs are stopped by a cancel that comes while a commit from the first lane to the second is on its way."""


def stopped_before_commit(decide: Decide, before: Lane, _after: Lane, cancel: Command) -> frozenset[str]:
    """The rule of the engine: what the cancel stops in the committed lane."""
    changes = decide(before, cancel).changes
    return frozenset(change.run_id for change in changes if isinstance(change, TurnStopping))


def check_early_stop(decide: Decide, before: Lane, after: Lane, *, rule: StopRule) -> None:
    """A cancel is decided on `before` and stops its run; a commit that was on its way leads to `after`; the cancel is
    decided again. If it is refused first, nothing else is committed before it, so this is the only case."""
    turn = turn_of(before)
    if turn is None or turn.state != "active":
        return
    left = {run.id for run in after.runs}
    for cancel in (CancelSession(), CancelActive(), CancelRun(turn.id)):
        covered = {run.id for run in right_cover(after, cancel)}
        for run_id in rule(decide, before, after, cancel):
            must(run_id not in left or run_id in covered, f"C1: {run_id} is stopped early, but not covered")


def explore(
    decide: Decide,
    limits: ExplorationLimits,
    *,
    key: Key = reduced_state,
    visit: Callable[[Node], None] | None = None,
    rule: StopRule = stopped_before_commit,
    over: Callable[[], bool] = lambda: False,
) -> Found:
    """Explore until no command leads to a new state, or the time is over."""
    found = Found(states={key(Node(), limits)})
    todo = deque([Node()])
    while todo and not over():
        node = todo.popleft()
        if visit is not None:
            visit(node)
        for command in next_commands(node, limits):
            try:
                after = step(decide, node, command)
                if after is None:
                    found.refused[type(command).__name__] += 1
                    continue
                found.accepted_commands[type(command).__name__] += 1
                check_early_stop(decide, node.lane, after.lane, rule=rule)
                if (seen := key(after, limits)) not in found.states:
                    check_state(after.lane, covered=after.covered)
                    check_drain(decide, after.lane)
                    found.states.add(seen)
                    todo.append(after)
            except BrokenPromiseError as error:
                raise BrokenPromiseError(f"{error}, after {_describe((command, node.path))}") from None
    found.complete = not todo
    return found


def next_commands(node: Node, limits: ExplorationLimits) -> Iterator[Command]:
    """All commands that this lane could get within the limits, sensible or not."""
    lane = node.lane
    if node.accepted < limits.runs:
        for new in _NEW_RUNS:
            yield _as_the_engine_sends(replace(new, run_id=f"r{node.accepted + 1}"), lane)
    for run_id in (*(run.id for run in lane.runs), "gone"):
        if run_id != "gone":
            yield Accept(run_id=run_id)
        yield Edit(run_id)
        for position in range(len(queue_of(lane)) + 2):
            yield Move(run_id, position)
        yield Boundary(run_id)
        yield Boundary(run_id, COMPLETED)
        yield End(run_id, COMPLETED)
        yield End(run_id, FAILED)
        if node.cancels < limits.cancels:
            yield CancelRun(run_id)
    if node.cancels < limits.cancels:
        yield CancelSession()
        yield CancelActive()
    yield from (Pause(), Resume(), Delete(), ServerStop(), Open())
    if turn_of(lane) is None or node.crashes < limits.crashes:
        yield Recover()


def _as_the_engine_sends(command: Accept, lane: Lane) -> Accept:
    """The engine knows with which settings the run that has the turn works."""
    turn = turn_of(lane)
    same = turn is not None and in_effect(turn.settings) == in_effect(command.settings)
    return replace(command, same_settings_as=turn.id) if turn is not None and same else command


def step(decide: Decide, node: Node, command: Command) -> Node | None:
    """Decide a command, refuse its commit, decide it again and commit it. `None` if the command is refused."""
    before = node.lane
    expected = right_refusal(before, command)
    try:
        refused_commit = decide(before, command)
        decision = decide(before, command)
    except HoldfastError as error:
        got = type(error), error.error_code
        must(got == expected, f"{command} is refused with {got}, not {expected}")
        return None
    must(expected is None, f"{command} is not refused with {expected}")
    must(refused_commit == decision, "R14: a refused commit changes the lane")
    check_decision(before, command, decision, covered_before=node.covered)
    after = decision.lane
    is_cancel = isinstance(command, CancelSession | CancelActive | CancelRun)
    is_crash = isinstance(command, Recover) and turn_of(before) is not None
    covered = node.covered | {run.id for run in right_cover(before, command)}
    return Node(
        lane=after,
        accepted=node.accepted + after.next_seq - before.next_seq,
        cancels=node.cancels + (is_cancel and after != before),
        crashes=node.crashes + is_crash,
        covered=covered.intersection(run.id for run in after.runs),
        path=(command, node.path),
    )


def _describe(path: tuple[Any, ...]) -> str:
    lines = []
    while path:
        command, path = path
        lines.append(f"{type(command).__name__}{tuple(value for value in _values(command))}")
    return " → ".join(reversed(lines))


def _values(command: Command) -> Iterator[object]:
    for name in command.__struct_fields__:
        value = getattr(command, name)
        yield value.model if isinstance(value, RunSettings) else value
