"""Runs: what is accepted, started, joined, cancelled and ended, and in which order.

`Engine` is what the layers above talk to. `lane` decides and is pure; `lane_state` is what it holds, `lane_words` what
it hears and says. A session's `mailbox` owns its lane and sends it one command at a time: decide, commit (what
`ledger_writes` says), apply. That order closes the races: at no moment does a session look idle while it is not, a
cancel covers exactly what was accepted before it, and a refused commit leaves everything as it was. A `driver` runs
one run's turn and writes its one end; `recovery` ends what a crash left, before anything else is decided.

A lane does not know prompts, messages, models, clients or finished runs; the engine does not know models or tools: a
turn (`agent.protocol`) is all it drives.
"""

from __future__ import annotations

from holdfast.runs.engine import Engine, Scope
from holdfast.runs.engine_limits import EngineLimits

__all__ = ["Engine", "EngineLimits", "Scope"]
