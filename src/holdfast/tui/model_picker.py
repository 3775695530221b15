"""The list of models: the one of the next prompts, the default, the small one, the effort, and missing keys."""

from __future__ import annotations

from typing import ClassVar

from textual.binding import BindingType

from holdfast.schema.api.response_bodies import ModelsView, ModelView
from holdfast.tui.background_calls import call_in_background
from holdfast.tui.bindings import bindings_for, hints
from holdfast.tui.picker import Picker, PickerRow
from holdfast.tui.status_words import tokens
from holdfast.tui.tui_host import TuiHost

_KEY = "key:"


class ModelPicker(Picker):
    """Enter uses a model for the next prompts; a provider without key is set up first."""

    heading = "models"
    BINDINGS: ClassVar[list[BindingType]] = [*bindings_for("models")]

    def __init__(self, host: TuiHost) -> None:
        super().__init__(chosen=host.controller.model_name)
        self._host = host

    def on_mount(self) -> None:
        super().on_mount()
        self._show()
        names = ("model_effort", "model_default", "model_small", "model_key")
        self.set_hint(f"enter uses it for the next prompts · {hints(self.app, *names)}")

    @property
    def _models(self) -> ModelsView:
        return self._host.link.models or ModelsView()

    def _show(self) -> None:
        controller = self._host.controller
        self.show_rows(model_rows(self._models, controller.model_name, effort=controller.effort or ""))

    def _model(self) -> ModelView | None:
        value = self.current.value if self.current else ""
        return next((model for model in self._models.models if model.name == value), None)

    def choose(self, row: PickerRow) -> None:
        self.dismiss(None)
        if row.value.startswith(_KEY):
            self._ask_key(row.value.removeprefix(_KEY))
        else:
            self._host.use_model(row.value)

    def action_model_effort(self) -> None:
        model = self._model()
        if model is None:
            return
        if not model.reasoning:
            self.notify(f"{model.name} has no levels of effort", markup=False)
            return
        self.dismiss(None)
        self._host.use_model(model.name)
        self._host.push_screen(EffortPicker(self._host, model.reasoning), self._host.use_effort)

    def action_model_default(self) -> None:
        if model := self._model():
            self._host.use_model(model.name)
            self._save({"models.large": model.name}, f"{model.name} is the model of new sessions now")

    def action_model_small(self) -> None:
        if model := self._model():
            self._save({"models.small": model.name}, f"{model.name} is the small model now")

    def action_model_key(self) -> None:
        value = self.current.value if self.current else ""
        model = self._model()
        provider = model.provider or model.name.partition("/")[0] if model else value.removeprefix(_KEY)
        if provider:
            self.dismiss(None)
            self._ask_key(provider)

    def _ask_key(self, provider: str) -> None:
        from holdfast.tui.setup import ask_key

        ask_key(self._host, provider)

    def _save(self, changes: dict[str, str], done: str) -> None:
        async def save() -> None:
            link = self._host.link
            client = await link.ready()
            assert link.workspace is not None
            await client.change_config(link.workspace.id, changes)
            await link.reload_settings()
            self.notify(done, markup=False)
            self._show()

        call_in_background(self, save())


class EffortPicker(Picker):
    """Dismissed with the effort; an empty text leaves it to the provider."""

    heading = "effort"

    def __init__(self, host: TuiHost, efforts: tuple[str, ...]) -> None:
        rows = [PickerRow("", "as the provider decides"), *(PickerRow(effort, effort) for effort in efforts)]
        super().__init__(rows, chosen=host.controller.effort or "", hint="enter uses it for the next prompts")


def efforts_of(host: TuiHost) -> tuple[str, ...]:
    """The levels of effort that the model of the next prompts has."""
    models = host.link.models.models if host.link.models else ()
    return next((model.reasoning for model in models if model.name == host.controller.model_name), ())


def model_rows(models: ModelsView, current: str, *, effort: str = "") -> list[PickerRow]:
    rows = []
    for model in models.models:
        is_current = model.name == current
        roles = [role for role, name in (("default", models.large), ("small", models.small)) if name == model.name]
        window = tokens(model.context_window) if model.context_window else ""
        shown_effort = effort if is_current else "thinks" if model.reasoning else ""
        notes = tuple(note for note in ("images" if model.images else "", shown_effort, *roles, window) if note)
        mark, style = ("●", "$primary") if is_current else (" ", "")
        rows.append(PickerRow(model.name, model.name, notes=notes, mark=mark, style=style, searched=model.title))
    missing = [p for p in models.providers if not p.active and p.missing and not p.local]
    rows += [PickerRow(f"{_KEY}{p.id}", p.name or p.id, notes=("add a key",), mark="+") for p in missing]
    return rows
