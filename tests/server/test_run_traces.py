"""Traces of runs reach an OTLP/HTTP receiver, under the span of the client, and contain no text of the work."""

import asyncio
import gzip
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from holdfast.services.run_traces import RunTrace, TraceSpan
from holdfast.services.trace_export import TraceExport
from holdfast.testing import Answer, Call, calls, text
from tests.support.running_server import answering, run_server

TRACE = "0af7651916cd43dd8448eb211c80319c"
PARENT = "b7ad6b7169203331"


class Receiver:
    """Takes spans over HTTP, as a collector does."""

    def __init__(self) -> None:
        self.address = ""
        self.received: list[bytes] = []
        self.arrived = asyncio.Event()

    async def take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                fields = dict(line.lower().split(b": ", 1) for line in head.split(b"\r\n")[1:] if b": " in line)
                body = await reader.readexactly(int(fields[b"content-length"]))
                self.received.append(gzip.decompress(body) if fields.get(b"content-encoding") == b"gzip" else body)
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
                self.arrived.set()
        except asyncio.IncompleteReadError:
            pass
        finally:
            writer.close()

    @property
    def spans(self) -> list:  # type: ignore[type-arg]
        return [
            span
            for body in self.received
            for resource in ExportTraceServiceRequest.FromString(body).resource_spans
            for scope in resource.scope_spans
            for span in scope.spans
        ]


@asynccontextmanager
async def receiver() -> AsyncIterator[Receiver]:
    found = Receiver()
    server = await asyncio.start_server(found.take, "127.0.0.1", 0)
    found.address = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1/traces"
    try:
        yield found
    finally:
        server.close()


async def test_the_spans_of_a_run_are_under_the_span_of_the_client_and_have_no_text(home: Path) -> None:
    provider = answering(
        calls(Call("glob", {"pattern": "*.secretive"})), text("the private answer"), Answer(status=400)
    )
    async with receiver() as collector:
        async with run_server(home, provider, traces=collector.address) as server:
            session = await server.session()
            sent = await server.http.post(
                f"/v1/sessions/{session}/runs",
                {"prompt": "my private prompt"},
                traceparent=f"00-{TRACE}-{PARENT}-01",
            )
            first = await server.ended(sent.ok(202)["run"]["id"])
            bad = await server.http.post(f"/v1/sessions/{session}/runs", {"prompt": "x"}, traceparent="00-nonsense")
            second = await server.ended(bad.ok(202)["run"]["id"])
        while sum(span.name == "run prompt" for span in collector.spans) < 2:  # the last spans of the two runs
            await collector.arrived.wait()
            collector.arrived.clear()
        spans = collector.spans
    own = [span for span in spans if span.trace_id.hex() == TRACE]
    (root,) = [span for span in own if span.name == "run prompt"]
    assert root.parent_span_id.hex() == PARENT
    others = [span for span in own if span is not root]
    assert {span.parent_span_id for span in others} == {root.span_id}
    assert [span.name for span in sorted(others, key=lambda span: span.start_time_unix_nano)] == [
        *("accept", "queue", "dispatch", "model", "tool glob", "model")
    ]
    for span in others:
        assert root.start_time_unix_nano <= span.start_time_unix_nano <= span.end_time_unix_nano
        assert span.end_time_unix_nano <= root.end_time_unix_nano
    attributes = {one.key: one.value for one in root.attributes}
    assert attributes["holdfast.run_id"].string_value == first["id"]
    assert attributes["holdfast.state"].string_value == "completed"
    (failed,) = [span for span in spans if span.name == "run prompt" and span is not root]
    assert (failed.parent_span_id, failed.status.code) == (b"", 2)
    assert {one.key: one.value.string_value for one in failed.attributes}["holdfast.run_id"] == second["id"]
    for private in (b"private", b"secretive"):
        assert not [body for body in collector.received if private in body]


async def test_a_receiver_that_is_gone_or_silent_delays_neither_runs_nor_the_stop(home: Path) -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        export = TraceExport(f"http://127.0.0.1:{silent.getsockname()[1]}/v1/traces")
        span = TraceSpan("run prompt", 1, 2)
        for _ in range(10):
            export(RunTrace(span, ()))
        await asyncio.to_thread(export.close)
    async with run_server(home, answering(text("fine")), traces="http://127.0.0.1:9/v1/traces") as server:
        run = (await server.prompt(await server.session()))["run"]["id"]
        assert (await server.ended(run))["state"] == "completed"
