"""What an empty session shows. The first frame is drawn before the server has answered."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from textual.app import App
from textual.content import Content

from holdfast import __version__
from holdfast.schema.base import Value
from holdfast.tui.bindings import key_of
from holdfast.tui.status_words import seconds_since, span
from holdfast.tui.terminal_signals import plain_text

if TYPE_CHECKING:
    from holdfast.schema.api.response_bodies import RepositoryView
    from holdfast.schema.sessions import Session


class StartFacts(Value, frozen=True):
    directory: str
    model: str = ""
    is_live: bool = False
    problem: str = ""
    last: Session | None = None
    untrusted: tuple[str, ...] = ()
    repository: RepositoryView | None = None


def draw_start(facts: StartFacts, *, now: float, app: App[Any]) -> Content:
    where = f"{facts.directory}{_repository(facts.repository)}"
    head: list[str | tuple[str, str]] = [("holdfast", "bold $primary"), f" {__version__} · {where}"]
    if facts.model:
        head.append(f" · {facts.model}")
    lines = [Content.assemble(*head), Content("")]
    if facts.problem:
        lines += [Content.assemble((facts.problem, "$error")), Content("")]
    if facts.last is not None:
        age = span(seconds_since(facts.last.updated_at, now))
        title = plain_text(facts.last.title, longest=60) or "a session without title"
        lines.append(_row("last here", f"{title}, {age} ago", f"{key_of(app, 'sessions')} sessions"))
    lines.append(_row("try", "@file to mention · !command to run · /help", "? all keys"))
    if facts.untrusted:
        files = ", ".join(plain_text(name, longest=60) for name in facts.untrusted[:3])
        lines += [Content(""), _row("not loaded", f"{files}: this directory is not trusted", "/trust loads it")]
    return Content("\n").join(lines)


def _repository(found: RepositoryView | None) -> str:
    """`` (main, 3 changed files)``."""
    if found is None or found.branch is None:
        return ""
    count = found.changed_files
    changed = f", {count} changed file{'s' if count != 1 else ''}" if count else ", no changes" if count == 0 else ""
    return f" ({plain_text(found.branch, longest=60)}{changed})"


def _row(name: str, text: str, keys: str) -> Content:
    return Content.assemble((f"{name:<12}", "$text-muted"), text, ("   " + keys, "$text-muted"))
