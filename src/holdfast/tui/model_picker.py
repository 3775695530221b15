"""The list of models, and of providers that need a key."""

from __future__ import annotations

from holdfast.schema.api.response_bodies import ModelsView, ModelView
from holdfast.tui.picker import Picker, PickerRow
from holdfast.tui.status_words import tokens
from holdfast.tui.tui_host import TuiHost

_KEY = "key:"
_EFFORT = "effort:"


def pick_model(app: TuiHost) -> None:
    """Choose a model for the next prompts, then its effort; a provider without key is set up first."""
    models = app.link.models or ModelsView()

    def chosen(value: str | None) -> None:
        if value is None:
            return
        if value.startswith(_KEY):
            from holdfast.tui.setup import ask_key

            ask_key(app, value.removeprefix(_KEY))
            return
        app.use_model(value)
        found = next((model for model in models.models if model.name == value), None)
        if found is not None and found.reasoning:
            pick_effort(app, found)

    hint = "enter uses it for the next prompts · 'holdfast config set models.large NAME' makes it the default"
    picker = Picker(model_rows(models, app.controller.model_name), heading="models", hint=hint)
    app.push_screen(picker, chosen)


def pick_effort(app: TuiHost, model: ModelView) -> None:
    rows = [PickerRow("", "as the provider decides"), *(PickerRow(effort, effort) for effort in model.reasoning)]

    def chosen(value: str | None) -> None:
        if value is not None:
            app.controller.effort = value or None
            app.main.draw_all()

    app.push_screen(Picker(rows, heading="effort", chosen=app.controller.effort or ""), chosen)


def model_rows(models: ModelsView, current: str) -> list[PickerRow]:
    rows = []
    for model in models.models:
        roles = [role for role, name in (("default", models.large), ("small", models.small)) if name == model.name]
        window = tokens(model.context_window) if model.context_window else ""
        notes = tuple(note for note in (*roles, "images" if model.images else "", window) if note)
        is_current = model.name == current
        mark, style = ("●", "$primary") if is_current else (" ", "")
        rows.append(PickerRow(model.name, model.name, notes=notes, mark=mark, style=style, searched=model.title))
    missing = [p for p in models.providers if not p.active and p.missing and not p.local]
    rows += [PickerRow(f"{_KEY}{p.id}", p.name or p.id, notes=("add a key",), mark="+") for p in missing]
    return rows
