"""Where the server serves its web page."""

from __future__ import annotations

from holdfast.errors import BadRequest, ConfigError, ServerStopping
from holdfast.schema.api.request_bodies import EmptyBody, NoParameters, WebListenBody
from holdfast.schema.api.response_bodies import WebListenerView, WebView
from holdfast.server.http.endpoint import ApiRequest, Endpoint


async def get_web(request: ApiRequest[None, NoParameters]) -> WebView:
    """List the addresses at which the web page is served."""
    return request.services.web.view()


async def listen_web(request: ApiRequest[WebListenBody, NoParameters]) -> WebListenerView:
    """Serve the web page on loopback, or with a certificate on the network, also after a restart."""
    return await request.services.web.listen(request.body)


async def stop_web(request: ApiRequest[EmptyBody, NoParameters]) -> WebView:
    """Serve the web page no longer. Paired devices stay paired."""
    return await request.services.web.stop()


_WEB = "/v1/web"

ENDPOINTS: tuple[Endpoint, ...] = (
    Endpoint("GET", _WEB, get_web, response=WebView),
    Endpoint(
        *("POST", _WEB, listen_web),
        body=WebListenBody,
        response=WebListenerView,
        stores_answer=False,
        errors=(BadRequest, ConfigError, ServerStopping),
    ),
    Endpoint("DELETE", _WEB, stop_web, body=EmptyBody, response=WebView, stores_answer=False),
)
