"""The synchronous client imports no event loop, no HTTP library and no subprocess module."""

import json
import subprocess
import sys

import pytest

_HEAVY = {
    *(
        "asyncio",
        "httpx2",
        "httpcore2",
        "anyio",
        "http",
        "urllib.request",
        "ssl",
        "email",
        "subprocess",
        "logging",
        "hashlib",
    ),
    *("tempfile", "shutil", "importlib.metadata", "starlette", "uvicorn", "tomlkit", "holdfast.client.async_client"),
}


@pytest.mark.parametrize("module", ["holdfast.client", "holdfast.client.sync_client", "holdfast.client.local_server"])
def test_importing_a_client_loads_nothing_heavy(module: str) -> None:
    program = f"import json, sys, {module}; print(json.dumps(sorted(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=30)
    loaded = set(json.loads(done.stdout))
    assert loaded & _HEAVY == set()


def test_the_package_exports_its_public_names() -> None:
    import holdfast.client as face
    from holdfast.client.async_client import AsyncClient
    from holdfast.client.local_server import open_sync_client

    assert face.AsyncClient is AsyncClient
    assert face.open_sync_client is open_sync_client
    with pytest.raises(AttributeError, match="no attribute 'Nonsense'"):
        _ = face.Nonsense  # type: ignore[attr-defined]
