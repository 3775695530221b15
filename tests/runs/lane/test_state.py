"""The lane as its rows and clients see it."""

from typing import Any

import pytest
from msgspec.structs import replace

from holdfast.errors import StoreDamaged
from holdfast.runs.lane.state import lane_run
from holdfast.schema.runs import Run


def test_a_lane_run_is_read_from_its_row() -> None:
    row = Run(
        id="r", session_id="s", seq=4, rank=2, model="p/m", after="success", state="stopping", reason="server_stop"
    )
    run = lane_run(row)
    assert (run.id, run.seq, run.rank, run.after, run.settings.model) == ("r", 4, 2, "success", "p/m")
    assert (run.state, run.stop_reason, run.host) == ("stopping", "server_stop", None)
    assert lane_run(replace(row, state="waiting", host_run_id="h")).host == "h"


@pytest.mark.parametrize(
    "impossible",
    [{"state": "completed"}, {"state": "joined"}, {"state": "waiting"}, {"state": "stopping", "reason": "end_turn"}],
)
def test_a_contradictory_row_is_refused_and_named(impossible: dict[str, Any]) -> None:
    with pytest.raises(StoreDamaged, match="'r' cannot have state"):
        lane_run(Run(id="r", session_id="s", seq=1, **impossible))
