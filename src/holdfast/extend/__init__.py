"""Extensions that users and projects add to the agent: instruction files and skills.

Reading them never runs code of the project. The caller decides which folders are trusted.
"""
