"""Asks local servers for their models (`GET /models`), because no catalogue can list them."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import msgspec

from holdfast.config.provider_catalogue import CatalogueModel
from holdfast.errors import ModelError, ModelMalformed
from holdfast.models.http_transport import HttpTransport
from holdfast.models.provider_address import build_address
from holdfast.models.stall_timeout import StallLimits, StallTimeout
from holdfast.models.wires.json_values import count_in

DISCOVERY_TIMEOUT = 1.5
"""Seconds. A local server answers at once or is not running."""
_MAX_BYTES = 8 * 1024 * 1024
_CONTEXT_WINDOW_FIELDS = (
    ("loaded_context_length",),
    ("max_model_len",),
    ("context_length",),
    ("context_window",),
    ("max_context_length",),
    ("meta", "n_ctx"),
    ("meta", "n_ctx_train"),
)
"""As named by LM Studio, vLLM, OpenRouter, Groq, LM Studio and llama.cpp."""


async def discover_all(
    servers: Mapping[str, str], *, transport: HttpTransport, timeout: float = DISCOVERY_TIMEOUT
) -> dict[str, tuple[CatalogueModel, ...]]:
    """Return the models of the servers (base URL by provider) that answer in time. Others are left out."""

    async def ask(base_url: str) -> tuple[CatalogueModel, ...]:
        try:
            return await discover(base_url, transport=transport, timeout=timeout)
        except ModelError:
            return ()

    found = await asyncio.gather(*(ask(base_url) for base_url in servers.values()))
    return {name: models for name, models in zip(servers, found, strict=True) if models}


async def discover(base_url: str, *, transport: HttpTransport, timeout: float) -> tuple[CatalogueModel, ...]:
    """Return the models of a server with an OpenAI-compatible API. Raises leaves of `ModelError`."""
    address = build_address(base_url, "/models")
    headers = {"accept": "application/json", "accept-encoding": "identity"}
    stall = StallTimeout(StallLimits(timeout, timeout), clock=asyncio.get_running_loop().time)
    async with transport.send("GET", address, headers=headers, stall=stall) as response:
        body = await response.body(stall, most=_MAX_BYTES)
        if not response.is_success:
            raise transport.error(response, body, host=address.host)
    return parse_models(body, host=address.host)


def parse_models(body: bytes, *, host: str) -> tuple[CatalogueModel, ...]:
    """Parse ``{"data": [{"id": …}]}`` and the variants of different servers. Embedding models are left out."""
    try:
        found = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        found = None
    rows = (found.get("data") or found.get("models")) if isinstance(found, dict) else found
    if not isinstance(rows, list):
        raise ModelMalformed(f"{host} did not answer with a list of models; check base_url")
    models = [_parse_model(row) for row in rows if isinstance(row, dict)]
    return tuple(model for model in models if model is not None)


def _parse_model(row: dict[str, Any]) -> CatalogueModel | None:
    name = row.get("id") or row.get("name") or row.get("model")
    if not isinstance(name, str) or not name or _is_for_embedding(row, name):
        return None
    window = next((size for path in _CONTEXT_WINDOW_FIELDS if (size := count_in(row, *path))), 0)
    return CatalogueModel(name, context_window=window, images=_accepts_images(row))


def _is_for_embedding(row: dict[str, Any], name: str) -> bool:
    return row.get("type") == "embeddings" or "embed" in name.lower()


def _accepts_images(row: dict[str, Any]) -> bool:
    architecture = row.get("architecture")
    inputs = architecture.get("input_modalities") if isinstance(architecture, dict) else None
    capabilities = row.get("capabilities")
    return (
        row.get("type") == "vlm"
        or (isinstance(inputs, list) and "image" in inputs)
        or (isinstance(capabilities, list) and ("vision" in capabilities or "multimodal" in capabilities))
    )
