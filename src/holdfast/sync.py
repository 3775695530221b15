"""The synchronous Python interface: ``from holdfast.sync import Client``. See docs/sdk.md."""

from holdfast.sdk.sync_agent import SyncAgentClient as Client
from holdfast.sdk.sync_agent import SyncAgentRun, SyncAgentSession

__all__ = ["Client", "SyncAgentRun", "SyncAgentSession"]
