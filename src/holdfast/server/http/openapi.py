"""The OpenAPI 3.1 description of the API, made from its endpoints."""

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
    StoreLocked,
    StoreUnwritable,
    TooLarge,
    Unauthorized,
)
from holdfast.schema.api.request_bodies import QueryParameters, RequestBody
from holdfast.schema.api.response_bodies import ErrorBody
from holdfast.schema.base import Value
from holdfast.server.http.endpoint import Endpoint
from holdfast.server.http.request_parsing import (
    CLIENT_HEADER,
    CLIENT_PATTERN,
    CLIENT_WITH_ID_PATTERN,
    KEY_HEADER,
    KEY_PATTERN,
)

S = TypeVar("S", bound=msgspec.Struct)

_REF = "#/components/schemas/{name}"
_PARAMETER = re.compile(r"{(\w+)}")

_ALWAYS: tuple[type[HoldfastError], ...] = (BadRequest, Forbidden, RequestTimeout, InternalError)
_MUTATIONS: tuple[type[HoldfastError], ...] = (TooLarge, ServerStopping, StoreLocked, StoreUnwritable)


def describe(endpoints: Sequence[Endpoint], *, version: str) -> dict[str, Any]:
    types = [ErrorBody, *(one for endpoint in endpoints for one in _types(endpoint))]
    schemas, components = msgspec.json.schema_components(types, ref_template=_REF)
    schema_of = {id(one): schema for one, schema in zip(types, schemas, strict=True)}
    paths: dict[str, dict[str, Any]] = {}
    for endpoint in endpoints:
        operation = _operation(endpoint, schema_of, components)
        paths.setdefault(endpoint.path, {})[endpoint.method.lower()] = operation
    for endpoint in endpoints:
        for status in (endpoint.status, *endpoint.other_responses):
            if links := _links(endpoint, endpoints):
                paths[endpoint.path][endpoint.method.lower()]["responses"][str(status)]["links"] = links
    _require_every_field_of_responses(components)
    for body in _subclasses(RequestBody):
        if body.constraints and body.__name__ in components:
            components[body.__name__] |= body.constraints
    for endpoint in endpoints:
        components.pop(endpoint.query.__name__, None)  # each is described with its operations
    return {
        "openapi": "3.1.0",
        "info": {"title": "Holdfast", "version": version, "description": _DESCRIPTION},
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
            "responses": {"Error": {"description": "An error.", "content": _json(schema_of[id(ErrorBody)])}},
        },
        "security": [{"token": []}],
    }


_DESCRIPTION = "A coding agent that runs as a small local server. docs/protocol.md explains the protocol."


def _types(endpoint: Endpoint) -> list[Any]:
    found = [endpoint.body, endpoint.response, *endpoint.other_responses.values()]
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
    """The operations whose path parameters are in the response."""
    return {
        other.handler.__name__: {
            "operationId": other.handler.__name__,
            "parameters": {name: f"$response.body#{endpoint.response_ids[name]}" for name in needed},
        }
        for other in endpoints
        if (needed := _PARAMETER.findall(other.path)) and all(name in endpoint.response_ids for name in needed)
    }


def _responses(endpoint: Endpoint, schema_of: dict[int, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for status, response in {endpoint.status: endpoint.response, **endpoint.other_responses}.items():
        content = {endpoint.media_type: {"schema": schema_of[id(response)]}}
        content |= {media_type: {"schema": {"type": "string"}} for media_type in endpoint.other_media_types}
        found[str(status)] = {"description": endpoint.summary, "content": content}
    errors = {error.status for error in (*_ALWAYS, *endpoint.errors)}
    if endpoint.mutates:
        errors |= {error.status for error in _MUTATIONS}
        if endpoint.stores_answer:
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
        {"name": name, "in": "query", "required": name in required, "schema": _not_null(schema)}
        for name, schema in described["properties"].items()
    ]


def _not_null(schema: dict[str, Any]) -> dict[str, Any]:
    """Without null: a parameter that is not given is left out."""
    options = [option for option in schema.get("anyOf", ()) if option != {"type": "null"}]
    if len(options) != 1:
        return schema
    return {**{name: value for name, value in schema.items() if name not in ("anyOf", "default")}, **options[0]}


def _headers(endpoint: Endpoint) -> list[dict[str, Any]]:
    pattern = CLIENT_WITH_ID_PATTERN if endpoint.needs_client_id else CLIENT_PATTERN
    description = "`name/version id` of the client. It names the author of a change."
    headers = [_header(CLIENT_HEADER, pattern, description, required=endpoint.needs_client_id)]
    if endpoint.mutates:
        description = "For a day, the same request with the same key gets the same answer and is not done again."
        headers.append(_header(KEY_HEADER, KEY_PATTERN, description))
    return headers


def _header(name: str, pattern: str, description: str, *, required: bool = False) -> dict[str, Any]:
    return {
        "name": name,
        "in": "header",
        "required": required,
        "description": description,
        "schema": {"type": "string", "pattern": pattern},
    }


def _json(schema: Any) -> dict[str, Any]:
    return {"application/json": {"schema": schema}}
