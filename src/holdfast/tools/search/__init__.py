"""Finding files and lines: ignore rules, glob patterns, ripgrep, and a Python program that replaces it.

Both search programs run as processes, so that a search can be stopped at any time. Files that ``.gitignore`` or
``.holdfastignore`` exclude are not found, with either program. Nothing above the searched root counts.
"""
