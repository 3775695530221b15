"""Turns that follow a test's script, with gates where they wait for the test."""

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable
from typing import TypeAlias

from msgspec.structs import replace

from holdfast.agent.protocol import Ending, Spent, TurnHandle
from holdfast.errors import HoldfastError
from holdfast.schema.events import MessageCreated, MessageFinished
from holdfast.schema.messages import Finish, FinishReason, Message, Part, Text, ToolCall, ToolResult
from holdfast.schema.runs import BoundaryAnswer, Ended, GoOn, Outcome, Run, RunRequest, StopNow
from holdfast.schema.sessions import Session
from holdfast.schema.usage import Usage
from holdfast.store.writes import PutMessage

COMPLETED = Outcome("completed", "end_turn")


class Gates:
    """Named gates. A turn waits at one; the test sees its arrival and opens it."""

    def __init__(self) -> None:
        self._arrived: defaultdict[str, asyncio.Event] = defaultdict(asyncio.Event)
        self._open: defaultdict[str, asyncio.Event] = defaultdict(asyncio.Event)

    async def pass_through(self, name: str) -> None:
        self._arrived[name].set()
        await self._open[name].wait()

    async def arrived(self, name: str) -> None:
        await self._arrived[name].wait()

    def has_arrived(self, name: str) -> bool:
        return self._arrived[name].is_set()

    def open(self, name: str) -> None:
        self._open[name].set()


class TurnActions:
    """The actions of a turn. It stores what a real turn stores, in the same order."""

    def __init__(self, handle: TurnHandle, gates: Gates) -> None:
        self.handle = handle
        self.gates = gates
        self.message: Message | None = None

    @property
    def run(self) -> Run:
        return self.handle.run

    def new_message(self, *parts: Part, role: str = "assistant") -> Message:
        return Message(
            id=self.handle.new_id("msg"),
            session_id=self.handle.session.id,
            run_id=self.handle.run.id,
            role=role,  # type: ignore[arg-type]
            seq=0,
            created_at=self.handle.now(),
            parts=parts,
        )

    async def say(self, text: str) -> None:
        """Stream text and store it."""
        if self.message is None:
            self.message = self.new_message()
            await self.handle.commit(
                [PutMessage(self.message)], [MessageCreated(self.handle.now(), self.handle.session.id, self.message)]
            )
        said = "".join(part.text for part in self.message.parts if isinstance(part, Text))
        self.handle.progress("streaming")
        self.handle.delta(self.message.id, 0, text=text)
        self.message = replace(self.message, parts=(Text(said + text),))
        await self.handle.commit([PutMessage(self.message)])

    async def call(self, *names: str) -> list[ToolCall]:
        """Store calls of tools, before anything runs."""
        calls = [ToolCall(id=self.handle.new_id("call"), name=name) for name in names]
        message = self.message or self.new_message()
        message = replace(message, parts=(*message.parts, *calls, Finish("tool_use")))
        self.message = None
        await self.handle.commit(
            [PutMessage(message)],
            [MessageFinished(self.handle.now(), self.handle.session.id, message)],
            spent=Spent("test/model", Usage(input=10, output=1)),
        )
        self.handle.progress("tool", names[0])
        return calls

    def results(self, calls: list[ToolCall]) -> Message:
        parts = tuple(ToolResult(call_id=call.id, name=call.name, text="done") for call in calls)
        return self.new_message(*parts, role="tool")

    async def tool(self, name: str, effect: Callable[[], object] | None = None) -> BoundaryAnswer:
        """Run a step with one call, including its boundary."""
        calls = await self.call(name)
        if effect is not None:
            effect()
        return await self.handle.boundary(messages=[self.results(calls)])

    def closed(self, reason: FinishReason = "end_turn") -> Message:
        message = self.message or self.new_message()
        self.message = None
        return replace(message, parts=(*message.parts, Finish(reason)))

    async def finish(self, text: str = "", outcome: Outcome = COMPLETED) -> BoundaryAnswer:
        """Run a last step: it ends the run unless a steer joins."""
        if text:
            await self.say(text)
        message = self.closed()
        said = "".join(part.text for part in message.parts if isinstance(part, Text))
        outcome = replace(outcome, text=said, message_id=message.id)
        spent = Spent("test/model", Usage(input=10, output=5))
        return await self.handle.boundary(outcome=outcome, messages=[message], spent=spent)

    async def gate(self, name: str) -> None:
        self.handle.progress("tool", name)
        await self.gates.pass_through(name)


Script: TypeAlias = Callable[[TurnActions], Awaitable[Ending | None]]


async def answer_prompt(turn: TurnActions) -> Ending | None:
    """Answer with the prompt, and again after each boundary at which steers join."""
    text = f"you said {turn.run.prompt}"
    while True:
        match await turn.finish(text):
            case GoOn(joined):
                text = f"you said {len(joined)} more"
            case StopNow():
                return Ending(Outcome("cancelled", "user_cancel"))
            case Ended():
                return None


class ScriptedTurn:
    def __init__(self, turns: "ScriptedTurns", script: Script) -> None:
        self._turns = turns
        self._script = script

    async def run(self, handle: TurnHandle) -> Ending | None:
        session_id, run_id = handle.session.id, handle.run.id
        self._turns.started.append(run_id)
        self._turns.running[session_id].append(run_id)
        try:
            return await self._script(TurnActions(handle, self._turns.gates))
        finally:
            self._turns.running[session_id].remove(run_id)


class ScriptedTurns:
    """A `TurnFactory`. The first word of the prompt names the script; the default is `answer_prompt`."""

    def __init__(self) -> None:
        self.gates = Gates()
        self.scripts: dict[str, Script] = {}
        self.default: Script = answer_prompt
        self.refusal: HoldfastError | None = None
        self.broken: Exception | None = None
        self.started: list[str] = []
        """Ids of the runs whose turns started, in that order."""
        self.running: defaultdict[str, list[str]] = defaultdict(list)
        """The runs whose turns are running, by session."""

    def on(self, word: str) -> Callable[[Script], Script]:
        def remember(script: Script) -> Script:
            self.scripts[word] = script
            return script

        return remember

    async def prepare(self, session: Session, request: RunRequest) -> RunRequest:
        if self.refusal is not None:
            raise self.refusal
        return request

    def turn(self, run: Run, session: Session) -> ScriptedTurn:
        if self.broken is not None:
            raise self.broken
        word = (run.prompt or run.kind).split()[0]
        return ScriptedTurn(self, self.scripts.get(word, self.default))
