"""The list of themes."""

from __future__ import annotations

from holdfast.tui.picker import Picker, PickerRow
from holdfast.tui.themes import AUTOMATIC
from holdfast.tui.tui_host import TuiHost


def pick_theme(app: TuiHost) -> None:
    names = sorted(app.available_themes, key=lambda name: (not name.startswith("holdfast"), name))
    rows = [PickerRow(AUTOMATIC, "auto", notes=("follows the terminal",))]
    rows += [PickerRow(name, name, notes=("dark" if app.available_themes[name].dark else "light",)) for name in names]

    def chosen(name: str | None) -> None:
        if name is not None:
            app.use_theme(name, save=True)

    app.push_screen(Picker(rows, heading="themes", chosen=app.theme), chosen)
