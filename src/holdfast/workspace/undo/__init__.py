"""Undo and redo of file changes: what was there before, what goes back, and what is left alone."""
