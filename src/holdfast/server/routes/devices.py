"""Devices: pairing with a one-time code, and the list of paired devices."""

from __future__ import annotations

from holdfast.errors import Forbidden, NotFound, TooMany, Unauthorized
from holdfast.schema.api.request_bodies import DevicePatch, EmptyBody, NoParameters, PairingBody, PairingCodeBody
from holdfast.schema.api.response_bodies import PageView, PairingCodeView, PairingView
from holdfast.schema.devices import Device
from holdfast.server.device_cookie import clear_cookie, make_cookie, split_token
from holdfast.server.http.endpoint import ApiRequest, Endpoint
from holdfast.server.http.responses import Header, JsonResponse


async def pair(request: ApiRequest[PairingBody, NoParameters]) -> JsonResponse:
    """Exchange a one-time code for the cookie of a device. Needs no token."""
    body, devices = request.body, request.services.devices
    current = request.access.device
    paired = await devices.pair(body.code, name=body.name, current=current, address=request.peer_address)
    headers: tuple[Header, ...] = ()
    page_key: str | None = None
    if paired.token is not None:
        half, page_key = split_token(paired.token)
        headers = (make_cookie(half, server_id=devices.server_id, secure=request.is_secure),)
    return JsonResponse(PairingView(paired.device, page_key), headers=headers)


async def get_own_device(request: ApiRequest[None, NoParameters]) -> PairingView:
    """Find out as which device a browser is paired; `401` if it is not."""
    if request.access.device is None:
        raise Unauthorized("this client is not a paired device")
    return PairingView(request.access.device)


async def forget_own_device(request: ApiRequest[EmptyBody, NoParameters]) -> JsonResponse:
    """Revoke the device that asks, and clear its cookie."""
    if request.access.device is None:
        raise Unauthorized("this client is not a paired device")
    devices = request.services.devices
    view = PairingView(await devices.revoke(request.access.device.id))
    return JsonResponse(view, headers=(clear_cookie(server_id=devices.server_id, secure=request.is_secure),))


async def make_code(request: ApiRequest[PairingCodeBody, NoParameters]) -> PairingCodeView:
    """Make a one-time code for a new device. It can be used for five minutes."""
    body = request.body
    if body.person is not None:
        await request.services.people.require(body.person)
    return request.services.devices.make_code(body.scope, person=body.person)


async def list_devices(request: ApiRequest[None, NoParameters]) -> PageView[Device]:
    """List the paired devices, without revoked ones."""
    return await request.services.devices.devices()


async def rename_device(request: ApiRequest[DevicePatch, NoParameters]) -> Device:
    """Rename a device."""
    return await request.services.devices.rename(request.path["device_id"], request.body.name)


async def revoke_device(request: ApiRequest[EmptyBody, NoParameters]) -> Device:
    """Revoke a device: its token is refused, and its open streams end at once."""
    return await request.services.devices.revoke(request.path["device_id"])


_DEVICE = "/v1/devices/{device_id}"

ENDPOINTS: tuple[Endpoint, ...] = (
    Endpoint(
        *("POST", "/v1/pairing", pair),
        body=PairingBody,
        response=PairingView,
        public=True,
        stores_answer=False,
        errors=(Forbidden, TooMany),
    ),
    Endpoint(
        *("POST", "/v1/pairing/codes", make_code),
        body=PairingCodeBody,
        response=PairingCodeView,
        stores_answer=False,
        errors=(NotFound,),
    ),
    Endpoint("GET", "/v1/device", get_own_device, response=PairingView),
    Endpoint("DELETE", "/v1/device", forget_own_device, body=EmptyBody, response=PairingView, stores_answer=False),
    Endpoint("GET", "/v1/devices", list_devices, response=PageView[Device]),
    Endpoint("PATCH", _DEVICE, rename_device, body=DevicePatch, response=Device, errors=(NotFound,)),
    Endpoint("DELETE", _DEVICE, revoke_device, body=EmptyBody, response=Device, errors=(NotFound,)),
)
