"""The lane, explored exhaustively: no order of commands breaks a promise."""

import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.runs.lane.decisions import decide
from tests.runs.lane.lane_explorer import (
    ExplorationLimits,
    Found,
    Node,
    explore,
    next_commands,
    reduced_state,
    step,
    whole_state,
)
from tests.runs.lane.lane_promises import check_drain, check_state
from tests.support.stress import StressShare

_EVERY_COMMAND = {
    "Accept",
    "Edit",
    "Move",
    "Boundary",
    "End",
    "CancelSession",
    "CancelActive",
    "CancelRun",
    "Pause",
    "Resume",
    "Delete",
    "ServerStop",
    "Recover",
    "Open",
}


def _print(capfd: pytest.CaptureFixture[str], counts: str) -> None:
    """Print to stderr, which reaches the terminal from a worker process too."""
    with capfd.disabled():
        print(f"\n{counts}", file=sys.stderr)


@pytest.mark.promise("R2", "R3", "R4", "R5", "R6", "R7", "R14", "C1", "C2", "C3", "C4", "W5", "W6")
@pytest.mark.timeout(180)  # some seconds of computing, which can take a minute beside much else
def test_no_order_of_commands_breaks_a_promise(capfd: pytest.CaptureFixture[str]) -> None:
    found = explore(decide, ExplorationLimits(runs=3, cancels=2, crashes=1))
    _print(capfd, f"lane, three runs, two cancels, one crash: {found}")
    assert set(found.accepted_commands) == _EVERY_COMMAND
    assert len(found.states) > 1000


@pytest.mark.stress(weight=5)
@pytest.mark.promise("R2", "R3", "R4", "R5", "R6", "R7", "R14", "C1", "C2", "C3", "C4", "W5", "W6")
def test_no_order_of_commands_with_five_runs_breaks_a_promise(share: StressShare) -> None:
    found = explore(decide, ExplorationLimits(runs=5, cancels=2, crashes=1), over=share.over)
    _count(share, found)
    assert set(found.accepted_commands) == _EVERY_COMMAND


@pytest.mark.stress(weight=2)
def test_reduced_states_reach_the_same_states_as_whole_ones(share: StressShare) -> None:
    limits = ExplorationLimits(runs=2, cancels=1, crashes=1)
    reached = set()
    found = explore(
        decide,
        limits,
        key=whole_state,
        visit=lambda node: reached.add(reduced_state(node, limits)),
        over=share.over,
    )
    _count(share, found)
    expected = explore(decide, limits).states
    assert reached == expected if found.complete else reached <= expected


def _count(share: StressShare, found: Found) -> None:
    share.count("states", len(found.states))
    share.count("transitions", found.accepted_commands.total())
    share.count("refused commands", found.refused.total())
    share.note("all that can be reached" if found.complete else "not all: the time was over")


@pytest.mark.promise("R4", "R5", "R6", "R7", "C1")
@given(choices=st.lists(st.integers(min_value=0, max_value=10**6), min_size=10, max_size=80))
def test_no_long_sequence_breaks_a_promise(choices: list[int]) -> None:
    limits = ExplorationLimits(runs=30, cancels=10, crashes=5)
    node = Node()
    for choice in choices:
        commands = list(next_commands(node, limits))
        node = step(decide, node, commands[choice % len(commands)]) or node
        check_state(node.lane, covered=node.covered)
    check_drain(decide, node.lane)
