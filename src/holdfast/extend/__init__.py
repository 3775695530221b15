"""Extensions that users and projects add to the agent: instruction files, memory, skills, commands and agents in files,
MCP servers, language servers and hooks.

Reading them never runs code of the project. The caller decides which folders are trusted.
"""
