"""The list of sessions: switch, rename, fork, archive, delete, search in their content."""

from __future__ import annotations

import time
from collections.abc import Awaitable
from functools import partial
from typing import ClassVar

from textual.binding import BindingType

from holdfast.errors import HoldfastError
from holdfast.schema.sessions import Session
from holdfast.tui.background_calls import call_in_background
from holdfast.tui.bindings import bindings_for, hints
from holdfast.tui.exclusive_work import run_newest
from holdfast.tui.picker import Picker, PickerRow
from holdfast.tui.server_link import ServerLink
from holdfast.tui.status_words import money, seconds_since, span
from holdfast.tui.terminal_signals import plain_text
from holdfast.tui.text_dialog import ConfirmDialog, TextDialog


class SessionPicker(Picker):
    """Its rows follow the events while it is open."""

    heading = "sessions"
    empty = "There is no such session."
    BINDINGS: ClassVar[list[BindingType]] = [*bindings_for("sessions")]

    def __init__(self, link: ServerLink) -> None:
        super().__init__(chosen=link.session_id or "")
        self._link = link
        self._kept: set[str] = set()
        """Archived from this list: they keep their place, and the same key restores them."""
        self._in_content = False

    def on_mount(self) -> None:
        super().on_mount()
        self._show()
        names = ("session_rename", "session_fork", "session_archive", "session_delete", "session_content")
        self.set_hint(f"enter open · {hints(self.app, *names)}")
        self.set_interval(1.0, self._refresh)

    def _refresh(self) -> None:
        if not self._in_content:
            self._show()

    def _show(self) -> None:
        asking = {s.root_session_id for ask in self._link.fold.asks if (s := ask.approval or ask.question)}
        sessions = [s for s in self._link.fold.sessions if not s.archived or s.id in self._kept]
        rows = [session_row(s, asks=s.id in asking) for s in sessions]
        self.set_empty(self.empty if self._link.is_live else "The sessions are not loaded yet.")
        if list(self.rows) != rows:
            self.show_rows(rows)

    def filter_rows(self, query: str) -> list[PickerRow]:
        return list(self.rows) if self._in_content else super().filter_rows(query)

    def on_query(self, query: str) -> None:
        if self._in_content:
            run_newest(self, partial(self._search, query), group="search")
        else:
            super().on_query(query)

    def action_session_content(self) -> None:
        self._in_content = not self._in_content
        self.heading = "sessions that contain…" if self._in_content else "sessions"
        self.query_one("Vertical").border_title = self.heading
        self.on_query(self.query_text)
        if not self._in_content:
            self._show()

    async def _search(self, query: str) -> None:
        if not query.strip():
            self.show_rows([])
            return
        try:
            client = await self._link.ready()
            workspace = self._link.workspace
            hits = (await client.search(query, workspace_id=workspace.id if workspace else None)).items
        except HoldfastError as error:
            self.set_hint(error.message)
            return
        rows: dict[str, PickerRow] = {}
        for hit in hits:
            title = f"{hit.session_title or 'session'}: {plain_text(hit.excerpt)}"
            rows.setdefault(hit.session_id, PickerRow(hit.session_id, title))
        self.show_rows(list(rows.values()))

    def _call(self, work: Awaitable[object]) -> None:
        async def call() -> None:
            try:
                await work
            finally:
                self._refresh()

        call_in_background(self, call())

    def action_session_rename(self) -> None:
        row = self.current
        if row is None:
            return

        def renamed(title: str | None) -> None:
            if title is not None and title.strip():
                self._call(self._change(row.value, title=title.strip()))

        self.app.push_screen(TextDialog("new name", value=row.title), renamed)

    async def _change(self, session_id: str, *, title: str | None = None, archived: bool | None = None) -> None:
        client = await self._link.ready()
        await client.change_session(session_id, title=title, archived=archived)

    def action_session_archive(self) -> None:
        session = self._link.fold.session(row.value) if (row := self.current) is not None else None
        if session is not None:
            self._kept.add(session.id)
            self._call(self._change(session.id, archived=not session.archived))

    def action_session_fork(self) -> None:
        if (row := self.current) is not None:
            self._call(self._fork(row.value))

    async def _fork(self, session_id: str) -> None:
        self.dismiss((await (await self._link.ready()).fork(session_id)).id)

    def action_session_delete(self) -> None:
        row = self.current
        if row is None:
            return

        def confirmed(yes: bool | None) -> None:  # noqa: FBT001 - the result of the dialog
            if yes:
                self._call(self._delete(row.value))

        question = f"Delete “{plain_text(row.title, longest=60)}” with its messages? Its files stay as they are."
        self.app.push_screen(ConfirmDialog(question), confirmed)

    async def _delete(self, session_id: str) -> None:
        await (await self._link.ready()).delete_session(session_id)


def session_row(session: Session, *, asks: bool) -> PickerRow:
    mark, style, state = " ", "", ""
    if session.archived:
        state = "archived"
    elif asks:
        mark, style, state = "?", "$warning", "asks you"
    elif session.busy:
        mark, style, state = "●", "$primary", "running"
    age = f"{span(seconds_since(session.updated_at, time.time()))} ago"
    clients = f"{session.clients} clients" if session.clients > 1 else ""
    queued = f"{session.queued} queued" if session.queued else ""
    notes = [note for note in (clients, money(session.usage.cost), age, queued, state) if note]
    return PickerRow(session.id, session.title or "(no title yet)", notes=tuple(notes), mark=mark, style=style)
