"""Text of files: encodings, line endings, matching of lines, replacement, diffs.

All functions are pure. A replacement changes nothing outside the text it matched, and keeps encoding and line endings.
The package knows neither paths nor tool calls.
"""
