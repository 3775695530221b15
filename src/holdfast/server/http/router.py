"""Finds the application for the path of a request."""

from __future__ import annotations

from collections.abc import Mapping

from holdfast.server.http.request_parsing import Receive
from holdfast.server.http.responses import AsgiApp, Scope, Send


class Router:
    """Passes a request on by its path, and adds the parameters of the path to its scope.

    A parameter of a template such as ``/v1/runs/{run_id}`` matches one segment that is not empty. Where a literal
    segment and a parameter match, the literal one is tried first.
    """

    def __init__(self, by_template: Mapping[str, AsgiApp], *, default: AsgiApp) -> None:
        """``default`` gets the requests whose path matches no template."""
        self._default = default
        self._root = _Node()
        for template, app in by_template.items():
            self._add(template, app)

    def _add(self, template: str, app: AsgiApp) -> None:
        node, names = self._root, []
        for segment in template.split("/"):
            if segment.startswith("{"):
                names.append(segment[1:-1])
                node.parameter = node.parameter or _Node()
                node = node.parameter
            else:
                node = node.literals.setdefault(segment, _Node())
        node.app, node.names = app, tuple(names)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        values: list[str] = []
        found = _find(self._root, scope["path"].split("/"), 0, values)
        if found is None or found.app is None:
            await self._default(scope, receive, send)
            return
        scope["path_params"] = dict(zip(found.names, values, strict=True))
        await found.app(scope, receive, send)


class _Node:
    """What may follow a beginning of a path."""

    __slots__ = ("app", "literals", "names", "parameter")

    def __init__(self) -> None:
        self.literals: dict[str, _Node] = {}
        self.parameter: _Node | None = None
        self.app: AsgiApp | None = None
        """What answers if the path ends here."""
        self.names: tuple[str, ...] = ()
        """The parameters on the way here."""


def _find(node: _Node, segments: list[str], index: int, values: list[str]) -> _Node | None:
    if index == len(segments):
        return None if node.app is None else node
    segment = segments[index]
    literal = node.literals.get(segment)
    if literal is not None and (found := _find(literal, segments, index + 1, values)) is not None:
        return found
    if node.parameter is None or not segment:
        return None
    values.append(segment)
    found = _find(node.parameter, segments, index + 1, values)
    if found is None:
        values.pop()
    return found
