"""Holdfast: a coding agent that runs as a small local server, and that loses nothing.

This module stays empty but for the version: every part is imported where it is first needed.
"""

__version__ = "0.1.0"
