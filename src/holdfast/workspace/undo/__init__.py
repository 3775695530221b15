"""Undo and redo of the agent's file changes.

A change is undone only if the file still has exactly the content that the agent left, so edits by the user are never
lost. The file tools record each write before they make it. Around commands the tree is compared (`command_snapshots`);
what changed there may also be the user's, so it is undone only after a confirmation. Ignored files, git's own files,
and what background jobs write are not covered.
"""
