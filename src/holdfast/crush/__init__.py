"""A second face of the server: the HTTP and SSE protocol of Crush's clients, on a Unix socket of its own.

An unchanged `crush` attaches to it with its interface and with `crush run`. The package translates in both directions:
requests become calls of `services`, our events become Crush's envelopes. It decides nothing about runs and stores
nothing. What Crush's protocol cannot carry is listed in docs/crush.md. The package is imported only when the face is
used.
"""

from __future__ import annotations

from holdfast.crush.crush_address import crush_socket
from holdfast.crush.crush_application import make_crush_app

__all__ = ["crush_socket", "make_crush_app"]
