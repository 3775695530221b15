"""What a server says it has: `/models`, asked with little patience. For local servers, whose models nobody lists."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import msgspec

from holdfast.config.provider_catalogue import CatalogueModel
from holdfast.config.setting_types import Secret
from holdfast.errors import ModelError, ModelMalformed
from holdfast.models.http_transport import HttpTransport
from holdfast.models.provider_address import provider_address
from holdfast.models.stall_timeout import Deadlines, StallTimeout
from holdfast.models.wires.stream_json import count_in

TIMEOUT = 1.5
_MOST_BYTES = 8 * 1024 * 1024
_WINDOWS = (
    ("loaded_context_length",),
    ("max_model_len",),
    ("context_length",),
    ("context_window",),
    ("max_context_length",),
    ("meta", "n_ctx"),
    ("meta", "n_ctx_train"),
)
"""Where servers say how much fits: LM Studio, vLLM, OpenRouter, Groq, LM Studio, llama.cpp."""


async def discover(
    base_url: str,
    *,
    transport: HttpTransport,
    key: Secret | None = None,
    headers: Mapping[str, str] | None = None,
    timeout: float = TIMEOUT,
) -> tuple[CatalogueModel, ...]:
    """The models of a server that speaks the OpenAI protocol. Raises leaves of `ModelError`."""
    target = provider_address(base_url, "/models")
    sent = {
        "accept": "application/json",
        "accept-encoding": "identity",
        **{k.lower(): v for k, v in (headers or {}).items()},
    }
    if key:
        sent.setdefault("authorization", f"Bearer {key.reveal()}")
    redact = (lambda text: text.replace(key.reveal(), "[redacted]")) if key else str
    patience = StallTimeout(Deadlines(first_token=timeout), clock=asyncio.get_running_loop().time)
    async with transport.send("GET", target, headers=sent, patience=patience, redact=redact) as answer:
        body = await answer.body(patience, most=_MOST_BYTES)
        if answer.status not in range(200, 300):
            raise transport.error(answer, body, host=target.host, redact=redact)
    return read_models(body, host=target.host)


async def discover_all(
    servers: Mapping[str, str], *, transport: HttpTransport, timeout: float = TIMEOUT
) -> dict[str, tuple[CatalogueModel, ...]]:
    """The models of all servers (base URL by provider) that answer in time; the others are left out."""

    async def ask(base_url: str) -> tuple[CatalogueModel, ...]:
        try:
            return await discover(base_url, transport=transport, timeout=timeout)
        except ModelError:
            return ()

    found = await asyncio.gather(*(ask(base_url) for base_url in servers.values()))
    return {name: models for name, models in zip(servers, found, strict=True) if models}


def read_models(body: bytes, *, host: str) -> tuple[CatalogueModel, ...]:
    """``{"data": [{"id": …}]}``, with what different servers add to it. Models that cannot chat are left out."""
    try:
        found = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        found = None
    rows = (found.get("data") or found.get("models")) if isinstance(found, dict) else found
    if not isinstance(rows, list):
        raise ModelMalformed(f"{host} did not answer with a list of models; check base_url")
    models = [_model(row) for row in rows if isinstance(row, dict)]
    return tuple(model for model in models if model is not None)


def _model(row: dict[str, Any]) -> CatalogueModel | None:
    name = row.get("id") or row.get("name") or row.get("model")
    if not isinstance(name, str) or not name or _is_for_embedding(row, name):
        return None
    window = next((size for path in _WINDOWS if (size := count_in(row, *path))), 0)
    return CatalogueModel(name, context_window=window, images=_sees(row))


def _is_for_embedding(row: dict[str, Any], name: str) -> bool:
    return row.get("type") == "embeddings" or "embed" in name.lower()


def _sees(row: dict[str, Any]) -> bool:
    architecture = row.get("architecture")
    inputs = architecture.get("input_modalities") if isinstance(architecture, dict) else None
    capabilities = row.get("capabilities")
    return (
        row.get("type") == "vlm"
        or (isinstance(inputs, list) and "image" in inputs)
        or (isinstance(capabilities, list) and ("vision" in capabilities or "multimodal" in capabilities))
    )
