"""The colours of the transcript, as Rich styles, derived from a theme."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rich.style import Style
from textual.app import App
from textual.color import Color, ColorParseError


@dataclass(frozen=True, slots=True)
class Palette:
    """Styles by meaning. Two equal palettes draw the same."""

    name: str
    dark: bool
    text: Style
    dim: Style
    accent: Style
    good: Style
    warn: Style
    bad: Style
    strong: Style
    prompt: Style
    code: Style
    link: Style
    added: Style
    removed: Style
    added_word: Style
    removed_word: Style
    cursor: Style
    selected: Style
    found: Style
    code_theme: str

    @classmethod
    def of_app(cls, app: App[Any]) -> Palette:
        """The palette of the app's theme. `theme_variables` may still be those of the theme before."""
        theme = app.current_theme
        return cls.from_variables(
            app.get_css_variables(), name=theme.name, dark=theme.dark, ansi=theme.name.startswith("ansi")
        )

    @classmethod
    def from_variables(cls, variables: Mapping[str, str], *, name: str, dark: bool, ansi: bool = False) -> Palette:
        """Derive the styles from a theme's variables. ``ansi``: use the terminal's own 16 colours."""
        if ansi:
            return _ansi_palette(name, dark=dark)
        background = _color(variables, "background", "#14171c" if dark else "#fbfbfa")
        foreground = _color(variables, "foreground", "#d5d9e0" if dark else "#20252d")
        panel = _color(variables, "panel", "#20252d" if dark else "#e9e9e6")
        primary = _color(variables, "primary", "#7aa2d6")
        good = _color(variables, "success", "#7fb27f")
        warn = _color(variables, "warning", "#e0a458")
        bad = _color(variables, "error", "#e0706c")
        accent = _color(variables, "accent", "#e0a458")

        def style(color: Color, *, bold: bool | None = None, underline: bool | None = None) -> Style:
            return Style(color=color.rich_color, bold=bold, underline=underline)

        def on(base: Color, share: float) -> Style:
            return Style(bgcolor=background.blend(base, share).rich_color)

        return cls(
            name=name,
            dark=dark,
            text=style(foreground),
            dim=style(background.blend(foreground, 0.58)),
            accent=style(accent),
            good=style(good),
            warn=style(warn),
            bad=style(bad),
            strong=style(foreground, bold=True),
            prompt=style(foreground, bold=True),
            code=style(primary),
            link=style(primary, underline=True),
            added=style(foreground) + on(good, 0.16),
            removed=style(foreground) + on(bad, 0.16),
            added_word=style(foreground) + on(good, 0.38),
            removed_word=style(foreground) + on(bad, 0.38),
            cursor=Style(bgcolor=panel.rich_color),
            selected=Style(bgcolor=background.blend(primary, 0.4).rich_color),
            found=Style(bgcolor=background.blend(accent, 0.45).rich_color),
            code_theme="github-dark" if dark else "friendly",
        )


def _color(variables: Mapping[str, str], name: str, fallback: str) -> Color:
    try:
        return Color.parse(variables.get(name, fallback))
    except ColorParseError:
        return Color.parse(fallback)


def _ansi_palette(name: str, *, dark: bool) -> Palette:
    return Palette(
        name=name,
        dark=dark,
        text=Style(),
        dim=Style(dim=True),
        accent=Style(color="yellow"),
        good=Style(color="green"),
        warn=Style(color="yellow"),
        bad=Style(color="red"),
        strong=Style(bold=True),
        prompt=Style(bold=True),
        code=Style(color="cyan"),
        link=Style(color="blue", underline=True),
        added=Style(color="green"),
        removed=Style(color="red"),
        added_word=Style(color="green", bold=True, underline=True),
        removed_word=Style(color="red", bold=True, underline=True),
        cursor=Style(reverse=True),
        selected=Style(reverse=True),
        found=Style(reverse=True),
        code_theme="ansi_dark" if dark else "ansi_light",
    )
