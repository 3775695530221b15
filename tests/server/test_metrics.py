"""`/metrics` is OpenMetrics text that counts what happened, for those who may see the whole server."""

from pathlib import Path

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from holdfast.services.open_metrics import Histogram, LimitedCounter, MetricsText
from holdfast.testing import Answer, Call, calls, text
from tests.support.http_client import HttpClient
from tests.support.people_harness import add_person
from tests.support.running_server import RunningServer, answering, run_server

Samples = dict[tuple[str, tuple[tuple[str, str], ...]], float]


async def scrape(server: RunningServer, client: HttpClient | None = None) -> Samples:
    """All samples, read by the parser of Prometheus."""
    answer = await (client or server.http).get("/metrics")
    assert answer.status == 200
    assert answer.headers["content-type"] == "application/openmetrics-text; version=1.0.0; charset=utf-8"
    return samples(answer.body.decode())


def samples(shown: str) -> Samples:
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(shown)
        for sample in family.samples
    }


async def test_runs_tools_tokens_and_latencies_are_counted(home: Path) -> None:
    provider = answering(calls(Call("glob", {"pattern": "*"})), text("done"), Answer(status=400))
    async with run_server(home, provider) as server:
        before = await scrape(server)
        assert before["holdfast_runs_accepted_total", ()] == 0
        session = await server.session()
        ends = [await server.ended((await server.prompt(session))["run"]["id"]) for _ in range(2)]
        assert [end["state"] for end in ends] == ["completed", "failed"]
        async with server.http.stream("/v1/events") as stream:
            await stream.until("hello")
            found = await scrape(server)
        name = "holdfast_runs"
        assert found[f"{name}_accepted_total", ()] == 2
        ended = {labels: value for (key, labels), value in found.items() if key == f"{name}_ended_total"}
        assert ended == {(("reason", end["reason"]), ("state", end["state"])): 1 for end in ends}
        assert [found[f"{name}_{state}", ()] for state in ("active", "queued")] == [0, 0]
        assert found["holdfast_streams", ()] == 1
        assert found["holdfast_tool_calls_total", (("status", "ok"), ("tool", "glob"))] == 1
        usage = ends[0]["usage"]
        tokens = {
            dict(labels)["kind"]: value for (key, labels), value in found.items() if key == "holdfast_tokens_total"
        }
        assert (tokens["input"], tokens["output"]) == (usage["input"], usage["output"])
        for key in ("accept", "run"):
            assert found[f"holdfast_{key}_seconds_count", ()] == 2
            assert found[f"holdfast_{key}_seconds_bucket", (("le", "+Inf"),)] == 2
            assert found[f"holdfast_{key}_seconds_sum", ()] > 0
        assert found["holdfast_dispatch_seconds_count", ()] == 2
        assert found["holdfast_first_token_seconds_count", ()] >= 2
        assert found["holdfast_events_total", ()] == server.app.store.last_number
        assert 0 < found["holdfast_commits_total", ()] <= found["holdfast_events_total", ()]
        assert found["process_resident_memory_bytes", ()] > 1e6
        assert found["holdfast_store_bytes", ()] > 0


async def test_metrics_need_a_token_of_somebody_who_may_see_all_workspaces(home: Path) -> None:
    async with run_server(home) as server:
        watcher = await add_person(server, "prometheus", role="watch", workspaces=None)
        anna = await add_person(server, "anna", role="admin", workspaces=[str(server.work)])
        assert await scrape(server, watcher)
        assert (await anna.get("/metrics")).code == "workspaces_restricted"
        assert (await HttpClient(("127.0.0.1", server.tcp.port)).get("/metrics")).status == 401


def test_labels_are_escaped_and_limited_and_numbers_exact() -> None:
    shown, counted, times = MetricsText(), LimitedCounter(limit=2), Histogram()
    for label in ('a"b\\c\nd', "x", "y", "z"):
        counted.add((label, "k"), 0.1)
    for seconds in (0.0, 0.0005, 0.003, 1e9):
        times.observe(seconds)
    shown.counters("t_values", ("name", "kind"), counted.values, 'help with "quotes" and\nlines')
    shown.histogram("t_wait_seconds", times, "Waits.")
    shown.gauge("t_big", 2**60, "Big.")
    found = samples(shown.text())
    assert found["t_values_total", (("kind", "k"), ("name", 'a"b\\c\nd'))] == pytest.approx(0.1)
    assert found["t_values_total", (("kind", "k"), ("name", "other"))] == pytest.approx(0.2)
    assert [found["t_wait_seconds_bucket", (("le", bound),)] for bound in ("0.0005", "0.0025", "0.005", "+Inf")] == [
        *(2, 2, 3, 4)
    ]
    assert found["t_wait_seconds_sum", ()] == pytest.approx(1e9, rel=1e-6)
    assert found["t_big", ()] == 2.0**60
