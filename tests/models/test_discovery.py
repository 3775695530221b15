"""Discovery of the models of local servers."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from holdfast.config.provider_catalogue import CatalogueModel
from holdfast.config.settings import NetworkSettings
from holdfast.errors import ModelError, ModelMalformed
from holdfast.models.discovery import discover, discover_all, parse_models
from holdfast.models.http_transport import HttpTransport
from holdfast.testing import TestProvider


@pytest.fixture
async def transport() -> AsyncIterator[HttpTransport]:
    opened = HttpTransport(network=NetworkSettings())
    yield opened
    await opened.aclose()


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        ({"id": "qwen3:8b", "object": "model", "owned_by": "library"}, CatalogueModel("qwen3:8b")),
        ({"id": "q", "max_model_len": 32768}, CatalogueModel("q", context_window=32768)),
        ({"id": "q", "meta": {"n_ctx_train": 4096, "n_params": 1}}, CatalogueModel("q", context_window=4096)),
        (
            {"id": "q", "type": "vlm", "loaded_context_length": 8192, "max_context_length": 131072},
            CatalogueModel("q", context_window=8192, images=True),
        ),
        (
            {"id": "a/b", "context_length": 200000, "architecture": {"input_modalities": ["text", "image"]}},
            CatalogueModel("a/b", context_window=200000, images=True),
        ),
        ({"name": "llama", "capabilities": ["completion", "multimodal"]}, CatalogueModel("llama", images=True)),
        ({"id": "q", "context_length": "many"}, CatalogueModel("q")),
        ({"id": "nomic-embed-text"}, None),
        ({"id": "q", "type": "embeddings"}, None),
        ({"id": 7}, None),
        ({}, None),
    ],
)
def test_parse_models_reads_the_formats_of_all_servers(row: dict[str, Any], expected: CatalogueModel | None) -> None:
    body = json.dumps({"object": "list", "data": [row]}).encode()
    assert parse_models(body, host="h") == ((expected,) if expected else ())


@pytest.mark.parametrize("body", [b"", b"<html>", b"7", b'{"data": 3}', b'{"error": "x"}', b"[" * 100_000])
def test_parse_models_rejects_a_body_without_a_list(body: bytes) -> None:
    with pytest.raises(ModelMalformed):
        parse_models(body, host="h")


async def test_discover_returns_the_models_of_a_server(transport: HttpTransport) -> None:
    async with TestProvider() as provider:
        provider.models = ("one", "two")
        found = await discover(provider.url(), transport=transport, timeout=30)
    assert [model.id for model in found] == ["one", "two"]


async def test_discover_all_leaves_out_unreachable_servers(transport: HttpTransport) -> None:
    async with TestProvider() as provider:
        servers = {"ollama": provider.url(), "lmstudio": "http://127.0.0.1:9/v1"}
        found = await discover_all(servers, transport=transport, timeout=30)
    assert list(found) == ["ollama"]


async def test_discover_raises_the_connection_error(transport: HttpTransport) -> None:
    with pytest.raises(ModelError, match="cannot connect"):
        await discover("http://127.0.0.1:9/v1", transport=transport, timeout=30)
