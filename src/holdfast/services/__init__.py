"""What every client interface can do: one service per subject, without HTTP.

A service takes and returns values of `schema`, checks its input, and raises errors of `errors.py`. The HTTP routes
translate requests into service calls; other interfaces (ACP, a web page) call the same services. `Services` holds all
services of a server. They decide nothing about runs (that is `runs/`) and do not redact secrets: the code that sends a
value to a client does.
"""

from __future__ import annotations

from holdfast.services.all_services import Services

__all__ = ["Services"]
