"""Patches: parsing the two accepted formats, and applying hunks to a text.

All functions are pure. The package does not read or write files; `apply_patch` does that.
"""
