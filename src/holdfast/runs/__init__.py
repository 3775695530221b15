"""Runs: what is accepted, started, joined, cancelled and ended, and in which order.

`Engine` is the interface for the layers above. Each session has a mailbox that handles one command at a time: the lane
decides, the decision is committed, and only then it takes effect. So a session never looks idle while a run is about
to start, a cancel covers exactly what was accepted before it, and a refused commit changes nothing. One effect does not
wait for its commit: a run that a cancel covers is stopped at once, so that a full disk cannot keep it running. The
engine does not know models, tools or HTTP: it runs turns through `agent.protocol`.
"""

from __future__ import annotations

from holdfast.runs.engine import Engine
from holdfast.runs.engine_state import EngineLimits
from holdfast.runs.intent_file import IntentFile

__all__ = ["Engine", "EngineLimits", "IntentFile"]
