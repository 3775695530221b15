"""Which server handles a request."""

from itertools import product

import pytest

from holdfast.fleet.request_places import (
    FleetServer,
    Forward,
    Handle,
    HandleRead,
    PlaceFacts,
    RefuseForwarded,
    RequestTarget,
    TakeAndHandle,
    WaitForOwner,
    choose_place,
    is_stream,
    request_target,
)
from holdfast.server.application import ENDPOINTS

_ALIVE = FleetServer("other", "h1")
_LATE = FleetServer("other", "h1", is_alive=False)
_DEAD = FleetServer("other", "h1", is_alive=False, is_dead=True)


def test_every_route_of_a_workspace_is_routed() -> None:
    places = ("{workspace_id}", "{session_id}", "{run_id}", "{approval_id}", "{question_id}", "{job_id}", "{call_id}")
    for endpoint in ENDPOINTS:
        names_one = any(place in endpoint.path for place in places)
        assert (request_target(endpoint.path) is not None) == names_one, endpoint.path
        assert is_stream(endpoint.path) == (endpoint.media_type == "text/event-stream"), endpoint.path
    assert request_target("/v1/runs/run_1/cancel") == RequestTarget("run", "run_1")


@pytest.mark.promise("W16")
def test_only_the_holder_of_the_lease_or_a_server_that_takes_it_handles_a_mutation() -> None:
    mine = FleetServer("me", "h1")
    for holder, is_mine, mutates, forwarded, near in product(
        (None, mine, _ALIVE, _LATE, _DEAD), (True, False), (True, False), (True, False), (True, False)
    ):
        others = (FleetServer("near", "h1"),) if near else (FleetServer("far", "h2"),)
        facts = PlaceFacts(
            me="me", holder=holder, is_mine=is_mine, host_id="h1", others=others, mutates=mutates, forwarded=forwarded
        )
        place = choose_place(facts)
        if holder == mine:
            assert place == Handle()
        elif holder in (_ALIVE, _LATE):
            away = Forward("other") if holder == _ALIVE else WaitForOwner("other")
            assert place == (RefuseForwarded() if forwarded else away)
        elif not is_mine and near and not forwarded:
            assert place == Forward("near")
        elif not mutates:
            assert place == HandleRead()
        else:
            assert place == TakeAndHandle("owner" if is_mine else "caretaker")
