"""Finding files and lines: ripgrep, its replacement in Python, ignore rules, glob patterns."""
