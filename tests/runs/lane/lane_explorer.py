"""Says every command to every state a lane can reach, and holds each decision against the promises."""

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
)
from holdfast.runs.lane.state import Lane, LaneRun
from holdfast.schema.runs import RunSettings
from tests.runs.lane.lane_promises import (
    COMPLETED,
    FAILED,
    BrokenPromiseError,
    Decide,
    check_decision,
    check_drain,
    check_state,
    must,
    queue_of,
    right_cover,
    right_refusal,
    runs_in,
    turn_of,
)

_SETTINGS = (RunSettings(model="p/one"), RunSettings(model="p/two"))
_NEW_RUNS = (
    *(Accept(run_id="", settings=settings) for settings in _SETTINGS),
    *(Accept(run_id="", settings=settings, after="success") for settings in _SETTINGS),
    *(Accept(run_id="", settings=settings, delivery="steer") for settings in _SETTINGS),
    *(Accept(run_id="", settings=settings, delivery="steer", after="success") for settings in _SETTINGS),
    Accept(run_id="", settings=_SETTINGS[0], kind="compact"),
    Accept(run_id="", settings=_SETTINGS[0], kind="compact", delivery="steer"),
)


@dataclass(frozen=True, slots=True)
class Bound:
    """How often the world may do something new; everything else may happen any number of times."""

    runs: int
    cancels: int
    crashes: int


@dataclass(frozen=True, slots=True)
class Node:
    """A lane, how much of the bound was used to reach it, and which of its runs a cancel has covered."""

    lane: Lane = field(default_factory=Lane)
    accepted: int = 0
    cancels: int = 0
    crashes: int = 0
    covered: frozenset[str] = frozenset()
    way: tuple[Any, ...] = ()
    """The commands that led here, the last one first, as nested pairs."""


Key = Callable[[Node, Bound], Hashable]


@dataclass(slots=True)
class Found:
    states: set[Hashable] = field(default_factory=set)
    obeyed: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    """Commands that could not be obeyed, and were refused with the right error."""

    def __str__(self) -> str:
        obeyed, refused = self.obeyed.total(), self.refused.total()
        return f"{len(self.states)} states, {obeyed} transitions, {refused} refused commands"


def essence(node: Node, bound: Bound) -> Hashable:
    """What of a state can still matter. States with the same essence are explored once, with a real lane of theirs.

    Left out: the numbers of runs, but not their order; kinds and settings when no run can be accepted any more, and
    those of a stopping run; which of the two settings is which; how the last run ended, while another has the turn.
    """
    lane, turn = node.lane, turn_of(node.lane)
    names: dict[object, int] = {}

    def kind(run: LaneRun) -> Hashable:
        if node.accepted == bound.runs:
            return None
        return names.setdefault(run.settings.model, len(names)) if run.kind == "prompt" else run.kind

    return (
        (node.accepted, node.cancels, node.crashes, len(node.covered)),
        (lane.lifecycle, lane.hold),
        (lane.last_end in (None, "completed")) if turn is None else (turn.stop_reason or "active"),
        kind(turn) if turn is not None and turn.state == "active" else None,
        len(runs_in(lane, "joined")),
        tuple(run.after for run in runs_in(lane, "waiting")),
        tuple((run.after, kind(run)) for run in queue_of(lane)),
    )


def whole(node: Node, _bound: Bound) -> Hashable:
    """Everything of a state, numbers and names included."""
    return node.lane, node.accepted, node.cancels, node.crashes, node.covered


def explore(decide: Decide, bound: Bound, *, key: Key = essence, visit: Callable[[Node], None] | None = None) -> Found:
    """To the fixed point: until no command leads to a state that was not seen."""
    found = Found(states={key(Node(), bound)})
    todo = deque([Node()])
    while todo:
        node = todo.popleft()
        if visit is not None:
            visit(node)
        for command in next_commands(node, bound):
            try:
                after = step(decide, node, command)
                if after is None:
                    found.refused[type(command).__name__] += 1
                    continue
                found.obeyed[type(command).__name__] += 1
                if (seen := key(after, bound)) not in found.states:
                    check_state(after.lane, covered=after.covered)
                    check_drain(decide, after.lane)
                    found.states.add(seen)
                    todo.append(after)
            except BrokenPromiseError as error:
                raise BrokenPromiseError(f"{error}, after {_told((command, node.way))}") from None
    return found


def next_commands(node: Node, bound: Bound) -> Iterator[Command]:
    """Everything that anybody could say to this lane, sensible or not, within the bound."""
    lane = node.lane
    if node.accepted < bound.runs:
        for new in _NEW_RUNS:
            yield replace(new, run_id=f"r{node.accepted + 1}")
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
        if node.cancels < bound.cancels:
            yield CancelRun(run_id)
    if node.cancels < bound.cancels:
        yield CancelSession()
        yield CancelActive()
    yield from (Pause(), Resume(), Delete(), ServerStop(), Open())
    if turn_of(lane) is None or node.crashes < bound.crashes:
        yield Recover()


def step(decide: Decide, node: Node, command: Command) -> Node | None:
    """One command: decided, its commit refused, decided again, committed. `None` if it cannot be obeyed."""
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
    must(refused_commit == decision, "R14: a refused commit leaves a trace")
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
        way=(command, node.way),
    )


def _told(way: tuple[Any, ...]) -> str:
    told = []
    while way:
        command, way = way
        told.append(f"{type(command).__name__}{tuple(value for value in _values(command))}")
    return " → ".join(reversed(told))


def _values(command: Command) -> Iterator[object]:
    for name in command.__struct_fields__:
        value = getattr(command, name)
        yield value.model if isinstance(value, RunSettings) else value
