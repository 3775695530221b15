"""Paths are matched by their segments."""

import pytest

from holdfast.server.http.router import Router


async def _route(path: str) -> tuple[str, dict[str, str]]:
    found: list[tuple[str, dict[str, str]]] = []

    def app(name: str) -> object:
        async def note(scope: dict[str, object], receive: object, send: object) -> None:
            found.append((name, scope.get("path_params", {})))  # type: ignore[arg-type]

        return note

    templates = ("/a", "/a/{x}", "/a/b/c", "/a/{x}/d", "/a/{y}/{z}/e", "/")
    router = Router({template: app(template) for template in templates}, default=app("none"))  # type: ignore[misc,arg-type]
    await router({"path": path}, None, None)  # type: ignore[arg-type]
    return found[0]


@pytest.mark.parametrize(
    ("path", "template", "parameters"),
    [
        ("/", "/", {}),
        ("/a", "/a", {}),
        ("/a/b", "/a/{x}", {"x": "b"}),
        ("/a/b/c", "/a/b/c", {}),
        ("/a/b/d", "/a/{x}/d", {"x": "b"}),
        ("/a/b/f/e", "/a/{y}/{z}/e", {"y": "b", "z": "f"}),
        ("/a/ü\n/d", "/a/{x}/d", {"x": "ü\n"}),
        *((path, "none", {}) for path in ("", "/a/", "//", "/a//d", "/a/b/c/", "/a/b/g", "/b", "/a/b/c/d/e", "a")),
    ],
)
async def test_a_path_finds_its_template(path: str, template: str, parameters: dict[str, str]) -> None:
    assert await _route(path) == (template, parameters)
