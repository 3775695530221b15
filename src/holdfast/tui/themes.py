"""Holdfast's own pair of themes, and which theme to use. Textual's themes can be chosen too."""

from __future__ import annotations

from typing import Literal

from textual.theme import Theme

Background = Literal["dark", "light"]

DARK = Theme(
    name="holdfast-dark",
    primary="#7aa2d6",
    secondary="#8f9bb3",
    accent="#e0a458",
    foreground="#d5d9e0",
    background="#14171c",
    surface="#1a1e25",
    panel="#20252d",
    success="#7fb27f",
    warning="#e0a458",
    error="#e0706c",
    dark=True,
    variables={"border": "#39414d", "block-cursor-background": "#2d3542", "block-cursor-foreground": "#ffffff"},
)
LIGHT = Theme(
    name="holdfast-light",
    primary="#1f5fa8",
    secondary="#5b6472",
    accent="#a8570b",
    foreground="#20252d",
    background="#fbfbfa",
    surface="#f2f2f0",
    panel="#e9e9e6",
    success="#2f7d32",
    warning="#a8570b",
    error="#b3261e",
    dark=False,
    variables={"border": "#c9ccd1", "block-cursor-background": "#dbe4f0", "block-cursor-foreground": "#20252d"},
)
AUTOMATIC = "auto"


def theme_name(configured: str, *, background: Background, colours: int, available: frozenset[str]) -> str:
    """The theme to use. ``auto`` follows the terminal; terminals with 16 colours get their own colours."""
    if configured and configured != AUTOMATIC and configured in available:
        return configured
    if colours <= 16:
        return "ansi-dark" if background == "dark" else "ansi-light"
    return DARK.name if background == "dark" else LIGHT.name
