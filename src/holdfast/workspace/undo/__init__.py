"""Undo and redo of the agent's file changes.

A change is undone only if the file still has exactly the content that the agent left, so edits by the user are never
lost. Files written by shell commands, and git's index and refs, are not touched.
"""
