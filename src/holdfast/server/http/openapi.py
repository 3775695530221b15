"""The OpenAPI 3.1 description, from the same rows that the routes are made of."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any, TypeVar

import msgspec

from holdfast.errors import (
    BadRequest,
    Forbidden,
    HoldfastError,
    InternalError,
    RequestTimeout,
    ServerStopping,
    StoreUnwritable,
    TooLarge,
    Unauthorized,
)
from holdfast.schema.api.request_bodies import QueryParameters, RequestBody
from holdfast.schema.api.response_bodies import ErrorBody
from holdfast.schema.base import Value
from holdfast.server import presence
from holdfast.server.http import idempotency
from holdfast.server.http.endpoint import Endpoint

S = TypeVar("S", bound=msgspec.Struct)

_REF = "#/components/schemas/{name}"
_PARAMETER = re.compile(r"{(\w+)}")

_ALWAYS: tuple[type[HoldfastError], ...] = (BadRequest, Forbidden, RequestTimeout, InternalError)
_MUTATIONS: tuple[type[HoldfastError], ...] = (TooLarge, ServerStopping, StoreUnwritable)


def describe(endpoints: Sequence[Endpoint], *, version: str) -> dict[str, Any]:
    types = [ErrorBody, *(one for endpoint in endpoints for one in _types(endpoint))]
    schemas, components = msgspec.json.schema_components(types, ref_template=_REF)
    schema_of = {id(one): schema for one, schema in zip(types, schemas, strict=True)}
    paths: dict[str, dict[str, Any]] = {}
    for endpoint in endpoints:
        operation = _operation(endpoint, schema_of, components)
        paths.setdefault(endpoint.path, {})[endpoint.method.lower()] = operation
    for endpoint in endpoints:
        for status in (endpoint.status, *endpoint.also):
            if links := _links(endpoint, endpoints):
                paths[endpoint.path][endpoint.method.lower()]["responses"][str(status)]["links"] = links
    _require_every_field_of_responses(components)
    for body in _subclasses(RequestBody):
        if body.constraints and body.__name__ in components:
            components[body.__name__] |= body.constraints
    for endpoint in endpoints:
        components.pop(endpoint.query.__name__, None)  # they stand with their operations, one by one
    return {
        "openapi": "3.1.0",
        "info": {"title": "Holdfast", "version": version, "description": _DESCRIPTION},
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
            "responses": {"Error": {"description": "What went wrong.", "content": _json(schema_of[id(ErrorBody)])}},
        },
        "security": [{"token": []}],
    }


_DESCRIPTION = "A coding agent that runs as a small local server. docs/protocol.md explains what is not in here."


def _types(endpoint: Endpoint) -> list[Any]:
    found = [endpoint.body, endpoint.answer, *endpoint.also.values()]
    return [endpoint.query, *(one for one in found if one is not None)]


def _require_every_field_of_responses(components: dict[str, Any]) -> None:
    """The server sends every field unless its type omits defaults; the defaults of the others are for clients."""
    requests = {one.__name__ for base in (RequestBody, QueryParameters) for one in _subclasses(base)}
    partial = {one.__name__ for one in _subclasses(Value) if one.__struct_config__.omit_defaults}
    for name, schema in components.items():
        if name not in requests | partial and "properties" in schema:
            schema["required"] = list(schema["properties"])


def _subclasses(base: type[S]) -> Iterator[type[S]]:
    for one in base.__subclasses__():
        yield one
        yield from _subclasses(one)


def _operation(endpoint: Endpoint, schema_of: dict[int, Any], components: dict[str, Any]) -> dict[str, Any]:
    operation: dict[str, Any] = {
        "operationId": endpoint.handler.__name__,
        "summary": endpoint.summary,
        "parameters": [
            *_path_parameters(endpoint),
            *_query_parameters(endpoint.query, components),
            *_headers(endpoint),
        ],
        "responses": _responses(endpoint, schema_of),
    }
    if endpoint.public:
        operation["security"] = []
    if endpoint.body is not None:
        fields = msgspec.structs.fields(endpoint.body)
        required = bool(endpoint.body.constraints) or any(field.required for field in fields)
        operation["requestBody"] = {"required": required, "content": _json(schema_of[id(endpoint.body)])}
    return operation


def _links(endpoint: Endpoint, endpoints: Sequence[Endpoint]) -> dict[str, Any]:
    """What can be done with what this one answers."""
    return {
        other.handler.__name__: {
            "operationId": other.handler.__name__,
            "parameters": {name: f"$response.body#{endpoint.gives[name]}" for name in needed},
        }
        for other in endpoints
        if (needed := _PARAMETER.findall(other.path)) and all(name in endpoint.gives for name in needed)
    }


def _responses(endpoint: Endpoint, schema_of: dict[int, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for status, answer in {endpoint.status: endpoint.answer, **endpoint.also}.items():
        content = {kind: {"schema": schema_of[id(answer)]} for kind in (endpoint.kind,)}
        content |= {kind: {"schema": {"type": "string"}} for kind in endpoint.other_kinds}
        found[str(status)] = {"description": endpoint.summary, "content": content}
    errors = {error.status for error in (*_ALWAYS, *endpoint.errors)}
    if endpoint.mutates:
        errors |= {error.status for error in _MUTATIONS}
        if endpoint.keyed:
            errors.add(409)
    if not endpoint.public:
        errors.add(Unauthorized.status)
    return found | {str(status): {"$ref": "#/components/responses/Error"} for status in sorted(errors)}


def _path_parameters(endpoint: Endpoint) -> list[dict[str, Any]]:
    return [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string", "minLength": 1}}
        for name in _PARAMETER.findall(endpoint.path)
    ]


def _query_parameters(query: type[QueryParameters], components: dict[str, Any]) -> list[dict[str, Any]]:
    described = components[query.__name__]
    required = described.get("required", [])
    return [
        {"name": name, "in": "query", "required": name in required, "schema": _plain(schema)}
        for name, schema in described["properties"].items()
    ]


def _plain(schema: dict[str, Any]) -> dict[str, Any]:
    """A parameter is given or not; it cannot be null."""
    options = [option for option in schema.get("anyOf", ()) if option != {"type": "null"}]
    if len(options) != 1:
        return schema
    return {**{name: value for name, value in schema.items() if name not in ("anyOf", "default")}, **options[0]}


def _headers(endpoint: Endpoint) -> list[dict[str, Any]]:
    found = [_header(presence.HEADER, presence.PATTERN, "`name/version id` of the client; who did what is told by it.")]
    if endpoint.mutates:
        said = "The same key answers the same again for a day."
        found.append(_header(idempotency.HEADER, idempotency.PATTERN, said))
    return found


def _header(name: str, pattern: str, description: str) -> dict[str, Any]:
    return {
        "name": name,
        "in": "header",
        "required": False,
        "description": description,
        "schema": {"type": "string", "pattern": pattern},
    }


def _json(schema: Any) -> dict[str, Any]:
    return {"application/json": {"schema": schema}}
