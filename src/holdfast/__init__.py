"""Holdfast: a coding agent that runs as a small local server, and that loses nothing.

``from holdfast import Client`` is the Python interface for programs (docs/sdk.md). Every name is imported when it is
first used, so that importing the package costs nothing.
"""

TYPE_CHECKING = False  # importing `typing` for it would take longer than all the rest

if TYPE_CHECKING:
    from holdfast.errors import HoldfastError as HoldfastError
    from holdfast.errors import RunNotCompleted as RunNotCompleted
    from holdfast.schema.approvals import Approval as Approval
    from holdfast.schema.approvals import Question as Question
    from holdfast.schema.client_tools import ClientResult as ClientResult
    from holdfast.schema.events import Event as Event
    from holdfast.schema.messages import File as File
    from holdfast.schema.messages import Message as Message
    from holdfast.schema.runs import Receipt as Receipt
    from holdfast.schema.runs import Run as Run
    from holdfast.sdk.agent_client import AgentClient as Client
    from holdfast.sdk.agent_client import AgentRun as AgentRun
    from holdfast.sdk.agent_client import AgentSession as AgentSession
    from holdfast.sdk.agent_client import PromptResult as PromptResult
    from holdfast.sdk.event_handlers import ApprovalReply as ApprovalReply
    from holdfast.sdk.prompt_options import PromptOptions as PromptOptions

__version__ = "0.1.0"

__all__ = [
    "AgentRun",
    "AgentSession",
    "Approval",
    "ApprovalReply",
    "Client",
    "ClientResult",
    "Event",
    "File",
    "HoldfastError",
    "Message",
    "PromptOptions",
    "PromptResult",
    "Question",
    "Receipt",
    "Run",
    "RunNotCompleted",
    "__version__",
]

_PLACES = {
    "AgentRun": "sdk.agent_client.AgentRun",
    "AgentSession": "sdk.agent_client.AgentSession",
    "Approval": "schema.approvals.Approval",
    "ApprovalReply": "sdk.event_handlers.ApprovalReply",
    "Client": "sdk.agent_client.AgentClient",
    "ClientResult": "schema.client_tools.ClientResult",
    "Event": "schema.events.Event",
    "File": "schema.messages.File",
    "HoldfastError": "errors.HoldfastError",
    "Message": "schema.messages.Message",
    "PromptOptions": "sdk.prompt_options.PromptOptions",
    "PromptResult": "sdk.agent_client.PromptResult",
    "Question": "schema.approvals.Question",
    "Receipt": "schema.runs.Receipt",
    "Run": "schema.runs.Run",
    "RunNotCompleted": "errors.RunNotCompleted",
}


def __getattr__(name: str) -> object:
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    module, _, attribute = _PLACES[name].rpartition(".")
    return getattr(import_module(f"{__name__}.{module}"), attribute)
