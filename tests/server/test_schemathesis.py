"""schemathesis against the whole interface, from its own description: nothing to find (`make stress`)."""

import asyncio
import json
import os
import re
import subprocess
from pathlib import Path

import pytest

from tests.support.background_server import serve_in_background
from tests.support.running_server import TOKEN, RunningServer
from tests.support.stress import StressShare

HERE = Path(__file__).parent / "schemathesis"
PROGRAM = os.environ.get("HOLDFAST_TEST_SCHEMATHESIS", str(Path(__file__).parents[2] / ".venv-e2e/bin/schemathesis"))
LEAST_SECONDS = 20
"""Of one run of it."""
NOT_TRIED = r"/events$|/server/stop$|/providers/[^/]+/test$"
"""Streams do not end, a stop would end the test, and trying a provider would leave the machine."""


async def something_there(server: RunningServer) -> dict[str, str]:
    """Ids that lead somewhere."""
    session_id = await server.session()
    run = await server.prompt(session_id)
    end = await server.ended(run["run"]["id"])
    return {"workspace_id": server.workspace_id, "session_id": session_id, "run_id": end["id"], "provider": "anthropic"}


@pytest.mark.stress(weight=3)
@pytest.mark.promise("W9")
@pytest.mark.skipif(not os.path.exists(PROGRAM), reason=f"{PROGRAM} is made by `make stress`")
def test_schemathesis_finds_nothing(home: Path, share: StressShare) -> None:
    with serve_in_background(home) as server:
        environment = {
            **os.environ,
            "HOLDFAST_TEST_IDS": json.dumps(server.do(something_there(server.server))),
            "HOLDFAST_TEST_WORK": str(server.server.work),
            "SCHEMATHESIS_HOOKS": "hooks",
            "PYTHONPATH": str(HERE),
        }
        for seed in share.seeds():
            seconds = max(LEAST_SECONDS, int(share.seconds / 2))
            share.count("requests", _run_schemathesis(server.port, seed, seconds, directory=home, env=environment))
            assert server.do(asyncio.sleep(0, "answers")) == "answers"


def _run_schemathesis(port: int, seed: int, seconds: int, *, directory: Path, env: dict[str, str]) -> int:
    """Run it once, for at most so many seconds; returns how many requests it made."""
    command = [
        *(PROGRAM, "--config-file", str(HERE / "schemathesis.toml"), "run"),
        f"http://127.0.0.1:{port}/v1/openapi.json",
        *("--header", f"Authorization: Bearer {TOKEN}"),
        *(
            "--seed",
            str(seed),
            "--max-examples",
            "10",
            "--max-time",
            str(seconds),
            "--continue-on-failure",
            "--request-timeout",
            "20",
        ),
        *("--exclude-path-regex", NOT_TRIED),
    ]
    done = subprocess.run(command, cwd=directory, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    found = re.search(r"(\d+) generated, (\d+) passed", done.stdout)
    assert found is not None, done.stdout
    assert int(found[1]) == int(found[2]) > 0
    return int(found[1])
