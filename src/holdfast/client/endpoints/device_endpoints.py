"""Paired devices, and where the web page is served."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.client.api_call import ApiCall, api_call, api_path, without_none
from holdfast.schema.api.response_bodies import PageView, PairingCodeView, PairingView, WebListenerView, WebView
from holdfast.schema.devices import AccessScope, Device


def pair(code: str, *, name: str = "") -> ApiCall[PairingView]:
    """Exchange a one-time code for a device's token, which is in the cookie of the response."""
    return api_call("POST", api_path("pairing"), {"code": code, "name": name}, returns=PairingView)


def pairing_code(*, scope: AccessScope, person: str | None = None) -> ApiCall[PairingCodeView]:
    body = without_none(scope=scope, person=person)
    return api_call("POST", api_path("pairing", "codes"), body, returns=PairingCodeView)


def own_device() -> ApiCall[PairingView]:
    return api_call("GET", api_path("device"), returns=PairingView)


def forget_own_device() -> ApiCall[PairingView]:
    return api_call("DELETE", api_path("device"), {}, returns=PairingView)


def devices() -> ApiCall[PageView[Device]]:
    return api_call("GET", api_path("devices"), returns=PageView[Device])


def rename_device(device_id: str, name: str) -> ApiCall[Device]:
    return api_call("PATCH", api_path("devices", device_id), {"name": name}, returns=Device)


def revoke_device(device_id: str) -> ApiCall[Device]:
    return api_call("DELETE", api_path("devices", device_id), {}, returns=Device)


def web() -> ApiCall[WebView]:
    """Where the web page is served."""
    return api_call("GET", api_path("web"), returns=WebView)


def listen_web(
    *,
    host: str | None = None,
    port: int | None = None,
    certificate: str | None = None,
    key: str | None = None,
    names: Sequence[str] | None = None,
) -> ApiCall[WebListenerView]:
    """Serve the web page: on loopback, or with a certificate on the network."""
    body = without_none(host=host, port=port, certificate=certificate, key=key, names=names)
    return api_call("POST", api_path("web"), body, returns=WebListenerView)


def stop_web() -> ApiCall[WebView]:
    return api_call("DELETE", api_path("web"), {}, returns=WebView)
