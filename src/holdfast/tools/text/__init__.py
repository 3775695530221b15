"""Pure functions on the text of files: encodings, lines, matching, replacing, diffs."""
