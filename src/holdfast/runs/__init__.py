"""Runs: what is accepted, started, joined, cancelled and ended, and in which order.

`lane` decides and is pure; `lane_state` is what it holds, `lane_words` what it hears and says. Whoever owns a lane
sends it one command at a time: decide, commit, apply. That order closes the races: there is no moment at which a
session looks idle while it is not, a cancel covers exactly what was accepted before it, and a refused commit leaves
everything as it was. A lane does not know prompts, messages, models, clients or finished runs.
"""
