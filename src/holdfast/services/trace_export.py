"""Sends traces to an OTLP/HTTP receiver with the OpenTelemetry library (`holdfast[otel]`), in a thread of its own.

The library is imported in the thread, so that neither the start of the server nor the event loop waits for it. A
receiver that does not answer costs traces, nothing else.
"""

from __future__ import annotations

import logging
import queue
import threading
from typing import TYPE_CHECKING

from holdfast import __version__
from holdfast.services.run_traces import RunTrace, TraceSpan

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.trace import Span, Tracer

_MAX_WAITING = 10_000
_EXPORT_SECONDS = 5.0
_CLOSE_SECONDS = 2.0

_logger = logging.getLogger(__name__)


class TraceExport:
    """Give it traces; it does not block. `close` sends what is waiting, in bounded time."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._waiting: queue.Queue[RunTrace | None] = queue.Queue(_MAX_WAITING)
        self._thread = threading.Thread(target=self._run, name="traces", daemon=True)
        self._thread.start()

    def __call__(self, trace: RunTrace) -> None:
        try:
            self._waiting.put_nowait(trace)
        except queue.Full:
            _logger.warning("a trace was dropped: %d are waiting", _MAX_WAITING)

    def close(self) -> None:
        """Blocks for at most two seconds."""
        try:
            self._waiting.put_nowait(None)
        except queue.Full:
            return
        self._thread.join(_CLOSE_SECONDS)

    def _run(self) -> None:
        trace = self._waiting.get()  # nothing is imported before there is something to send
        if trace is None:
            return
        try:
            provider = _open_provider(self._address)
        except ImportError as error:
            _logger.warning("no traces are sent: %s; run pip install 'holdfast[otel]', then restart the server", error)
            return
        tracer = provider.get_tracer("holdfast", __version__)
        while trace is not None:
            _emit(tracer, trace)
            trace = self._waiting.get()
        provider.shutdown()


def _open_provider(address: str) -> TracerProvider:
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    provider = TracerProvider(
        resource=Resource.create({"service.name": "holdfast", "service.version": __version__}),
        shutdown_on_exit=False,
    )
    exporter = OTLPSpanExporter(endpoint=address, timeout=_EXPORT_SECONDS)
    provider.add_span_processor(BatchSpanProcessor(exporter, schedule_delay_millis=1000))
    return provider


def _emit(tracer: Tracer, trace: RunTrace) -> None:
    from opentelemetry.trace import set_span_in_context

    root = _start(tracer, trace.root, _parent(trace.traceparent))
    inside = set_span_in_context(root)
    for span in trace.spans:
        _start(tracer, span, inside).end(span.end)
    root.end(trace.root.end)


def _start(tracer: Tracer, span: TraceSpan, context: Context | None) -> Span:
    from opentelemetry.trace import StatusCode

    # Without a parent, the current span of the library would be it; there is none in this thread.
    started = tracer.start_span(span.name, context, attributes=span.attributes, start_time=span.start)
    if span.failed:
        started.set_status(StatusCode.ERROR)
    return started


def _parent(traceparent: str | None) -> Context | None:
    if traceparent is None:
        return None
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    return TraceContextTextMapPropagator().extract({"traceparent": traceparent})
