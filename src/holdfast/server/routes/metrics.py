"""Metrics for Prometheus and others that read OpenMetrics."""

from __future__ import annotations

from holdfast.schema.api.request_bodies import NoParameters
from holdfast.server.http.endpoint import ApiRequest, Endpoint
from holdfast.server.http.responses import RawResponse
from holdfast.services.open_metrics import MEDIA_TYPE


async def read_metrics(request: ApiRequest[None, NoParameters]) -> RawResponse:
    """Get counters, latencies and queue lengths of this server, as OpenMetrics text."""
    return RawResponse((await request.services.metrics.text()).encode(), media_type=MEDIA_TYPE)


ENDPOINTS: tuple[Endpoint, ...] = (
    Endpoint("GET", "/metrics", read_metrics, response=str, media_type="application/openmetrics-text"),
)
