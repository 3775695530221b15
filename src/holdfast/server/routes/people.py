"""People and their tokens (`W14`)."""

from __future__ import annotations

from holdfast.errors import BadRequest, Conflict, NotFound
from holdfast.schema.api.request_bodies import EmptyBody, NoParameters, PersonBody, PersonPatch, PersonTokenBody
from holdfast.schema.api.response_bodies import PageView
from holdfast.schema.people import Person, PersonToken
from holdfast.server.http.endpoint import ApiRequest, Endpoint


async def list_people(request: ApiRequest[None, NoParameters]) -> PageView[Person]:
    """List the people that have tokens of their own, without those that were removed."""
    return await request.services.people.list_people()


async def add_person(request: ApiRequest[PersonBody, NoParameters]) -> Person:
    """Add a person with a role, and the directories that the person may use (`null`: all)."""
    body = request.body
    return await request.services.people.add(body.name, role=body.role, workspaces=body.workspaces)


async def change_person(request: ApiRequest[PersonPatch, NoParameters]) -> Person:
    """Change the role or the directories of a person. Takes effect at once; the person's open streams end."""
    body = request.body
    return await request.services.people.change(request.path["name"], role=body.role, workspaces=body.workspaces)


async def remove_person(request: ApiRequest[EmptyBody, NoParameters]) -> Person:
    """Remove a person: all tokens of the person are refused, and their open streams end at once."""
    return await request.services.people.remove(request.path["name"])


async def make_person_token(request: ApiRequest[PersonTokenBody, NoParameters]) -> PersonToken:
    """Make a token for a person. It is shown only here; `DELETE /v1/devices/{device_id}` revokes it."""
    body = request.body
    return await request.services.people.make_token(request.path["name"], label=body.label, scope=body.scope)


_PERSON = "/v1/people/{name}"

ENDPOINTS: tuple[Endpoint, ...] = (
    Endpoint("GET", "/v1/people", list_people, response=PageView[Person]),
    Endpoint(
        *("POST", "/v1/people", add_person),
        body=PersonBody,
        response=Person,
        status=201,
        response_ids={"name": "/name"},
        errors=(BadRequest, Conflict),
    ),
    Endpoint("PATCH", _PERSON, change_person, body=PersonPatch, response=Person, errors=(NotFound, BadRequest)),
    Endpoint("DELETE", _PERSON, remove_person, body=EmptyBody, response=Person, errors=(NotFound,)),
    Endpoint(
        *("POST", f"{_PERSON}/tokens", make_person_token),
        body=PersonTokenBody,
        response=PersonToken,
        status=201,
        errors=(NotFound,),
        stores_answer=False,  # the token is not stored
    ),
)
