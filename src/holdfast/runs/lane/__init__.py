"""The lane of a session: a pure state machine that decides what happens to its runs.

The lane decides what starts, queues, joins, is cancelled and follows, and which rows and events a decision writes. It
has no I/O, clock or tasks. It knows only unfinished runs; it does not know prompts, messages, models or clients.
"""
