"""Patches as text: reading both formats, and applying hunks. Pure."""
