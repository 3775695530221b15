"""Real turns on a real store, with the scripted model and small tools that count their calls."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec

from holdfast.agent.compaction import CompactTurn
from holdfast.agent.kept_conversations import KeptConversations
from holdfast.agent.prompt_turn import PromptTurn
from holdfast.agent.protocol import Turn, TurnHandle
from holdfast.agent.reminders import Observations
from holdfast.agent.system_prompt import Instructions, PromptContext, Surroundings
from holdfast.agent.turn_dependencies import CallDenied, CallPermitted, TurnDependencies
from holdfast.agent.turn_limits import TurnLimits
from holdfast.config import Redactor, Secret, Settings, StreamRedactor
from holdfast.config.settings import LimitSettings
from holdfast.errors import ToolError
from holdfast.models.model_script import ScriptAction
from holdfast.models.protocol import Model, ModelInfo
from holdfast.models.scripted_model import ScriptedModel
from holdfast.schema.approvals import Subject
from holdfast.schema.hooks import HookDecision
from holdfast.schema.messages import File, Finish, Message, ToolCall, ToolResult, ToolSpec
from holdfast.schema.runs import Run, RunRequest
from holdfast.schema.sessions import Session, Workspace
from holdfast.store import Batch, Store
from holdfast.store.writes import PutWorkspace
from holdfast.tools.protocol import PreparedCall, ToolContext, ToolOutput, ToolPlan
from tests.support.any_store import open_any_store
from tests.support.engine_harness import LONG_LIMITS, WORKSPACE, EngineHarness
from tests.support.scripted_turns import Gates, ScriptedTurns
from tests.support.tool_contexts import permit_every_url

Answers = str | ScriptAction | tuple[ScriptAction, ...]


class Word(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    word: str = ""


class _TestTool:
    description = "for tests"
    arguments = Word
    effect = "none"
    parallel = True
    name = ""

    def __init__(self, gates: Gates) -> None:
        self.gates = gates
        self.ran: Counter[str] = Counter()
        self.said: dict[str, str] = {}
        """The output by call."""

    async def plan(self, arguments: Word, context: ToolContext) -> ToolPlan:
        return ToolPlan(Subject(tool=self.name, effect="none", title=arguments.word))

    async def run(self, arguments: Word, context: ToolContext, plan: ToolPlan) -> ToolOutput:
        self.ran[context.call_id] += 1
        output = await self.act(arguments, context)
        self.said[context.call_id] = output.text
        return output

    async def act(self, arguments: Word, context: ToolContext) -> ToolOutput:
        raise NotImplementedError


class Echo(_TestTool):
    """Returns its word."""

    name = "echo"

    async def act(self, arguments: Word, context: ToolContext) -> ToolOutput:
        context.emit(arguments.word)
        return ToolOutput(f"echo {arguments.word}")


class Gated(_TestTool):
    """Waits at the gate with the name of its word."""

    name = "gated"

    async def act(self, arguments: Word, context: ToolContext) -> ToolOutput:
        await self.gates.pass_through(arguments.word)
        return ToolOutput(f"passed {arguments.word}")


class Alone(Gated):
    """A gated tool that never runs in parallel."""

    name = "alone"
    parallel = False


class Killed(_TestTool):
    """On a cancel it reports what it killed, as tools with processes do."""

    name = "killed"

    async def act(self, arguments: Word, context: ToolContext) -> ToolOutput:
        try:
            await self.gates.pass_through(arguments.word)
        except asyncio.CancelledError:
            return ToolOutput("killed it", status="cancelled", killed=("sleep 100",))
        return ToolOutput("done")


class Broken(_TestTool):
    name = "broken"

    async def act(self, arguments: Word, context: ToolContext) -> ToolOutput:
        if arguments.word == "tool":
            raise ToolError("it cannot be done")
        raise ZeroDivisionError("our own fault")


class StartSubagent(_TestTool):
    """Starts a sub-agent."""

    name = "subagent"

    async def act(self, arguments: Word, context: ToolContext) -> ToolOutput:
        outcome = await context.subagents.run(agent="", prompt=arguments.word, title="subagent")
        return ToolOutput(outcome.text, status="ok" if outcome.state == "completed" else "error")


class TestToolbox:
    __test__ = False

    def __init__(self, tools: dict[str, _TestTool]) -> None:
        self._tools = tools
        self.specs = tuple(ToolSpec(name, "for tests", {"type": "object"}) for name in tools)

    def update(self) -> None:
        pass

    def prepare(self, call: ToolCall) -> PreparedCall:
        if call.malformed is not None:
            raise ToolError(f"the arguments are not a JSON object: {call.malformed!r}")
        if call.name not in self._tools:
            raise ToolError(f"there is no tool {call.name!r}")
        tool: Any = self._tools[call.name]
        try:
            return PreparedCall(tool, msgspec.convert(call.arguments, tool.arguments))
        except msgspec.ValidationError as error:
            raise ToolError(f"bad arguments: {error}") from None


class TestApprover:
    """Permits all calls except those in `denied`. Calls in `asking` wait at a gate, as for an approval."""

    __test__ = False

    def __init__(self, gates: Gates) -> None:
        self.gates = gates
        self.denied: set[str] = set()
        self.asking: set[str] = set()

    async def permit(
        self,
        handle: TurnHandle,
        call: ToolCall,
        plan: ToolPlan,
        *,
        on_wait: Callable[[], None],
        hook: HookDecision | None = None,
    ) -> CallPermitted | CallDenied:
        if call.name in self.asking:
            on_wait()
            await self.gates.pass_through(f"approval:{plan.subject.title}")
        return CallDenied("denied: not today") if call.name in self.denied else CallPermitted()


class TestToolContexts:
    __test__ = False

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def redact(self, text: str) -> str:
        return text.replace("s3cret", "[redacted]")

    def redact_answer(self) -> StreamRedactor:
        return Redactor([Secret("planted-secret")]).stream()

    def context(self, handle: TurnHandle, call: ToolCall, *, emit: Any, progress: Any, on_subagent: Any) -> ToolContext:
        unused: Any = None
        return ToolContext(
            workspace=self._directory,
            session_id=handle.run.session_id,
            run_id=handle.run.id,
            call_id=call.id,
            workspace_id=WORKSPACE,
            settings=Settings(),
            environment={},
            outputs=self._directory,
            temporary=self._directory / "tmp",
            can_see_images=False,
            interactive=handle.run.interactive,
            emit=emit,
            redact=self.redact,
            redact_stream=self.redact_answer,
            permits_url=permit_every_url,
            new_id=unused,
            now=handle.now,
            files=unused,
            jobs=unused,
            asker=unused,
            todos=unused,
            subagents=_TestSubagents(handle, on_subagent),
            search_key=unused,
        )


class _TestSubagents:
    def __init__(self, handle: TurnHandle, on_subagent: Any) -> None:
        self._handle = handle
        self._on_subagent = on_subagent

    async def run(self, *, agent: str, prompt: str, title: str) -> Any:
        subagent = await self._handle.start_subagent(RunRequest(prompt=prompt, agent=agent), title=title)
        await self._on_subagent(subagent)
        return await subagent.ended()


class TestContextGatherer:
    __test__ = False

    def __init__(self) -> None:
        self.branch = "main"
        self.instructions: tuple[Instructions, ...] = ()

    async def gather(self) -> PromptContext:
        return PromptContext(Surroundings("/w", "Linux", "2026-01-01", self.branch), self.instructions)


class TestObserver:
    __test__ = False

    def __init__(self) -> None:
        self.files: tuple[File, ...] = ()
        self.asked_files: list[tuple[str, ...]] = []
        self.seen: list[Observations] = []
        """What the next looks see, in order; then nothing."""

    async def observe(self, *, calls: Sequence[ToolCall]) -> Observations:
        return self.seen.pop(0) if self.seen else Observations()

    async def read_files(self, paths: Sequence[str], *, characters: int) -> tuple[File, ...]:
        self.asked_files.append(tuple(paths))
        return self.files


class TestTitler:
    __test__ = False

    def __init__(self) -> None:
        self.asked: list[tuple[str, str]] = []

    def suggest(self, session_id: str, prompt: str) -> None:
        self.asked.append((session_id, prompt))


class Clock:
    """Time limits that expire when a test says so."""

    def __init__(self) -> None:
        self.limits: list[asyncio.Timeout] = []
        """The limits of the turns, in the order of their start."""

    def __call__(self, seconds: float | None) -> asyncio.Timeout:
        self.limits.append(asyncio.timeout(None))
        return self.limits[-1]

    def run_out(self, number: int = -1) -> None:
        self.limits[number].reschedule(0)


def turn_limits(*, max_steps: int, max_seconds: float = 0.0) -> TurnLimits:
    configured = LimitSettings()
    return TurnLimits(
        max_steps=max_steps,
        max_seconds=max_seconds,
        max_cost=configured.max_cost,
        last_answer_seconds=configured.last_answer,
        tool_parallel=configured.tool_parallel,
    )


async def at_once(seconds: float) -> None:
    """Wait no time before a retry, but let other tasks run."""
    await asyncio.sleep(0)


class RealTurns(ScriptedTurns):
    """A `TurnFactory` of real turns."""

    def __init__(self, store: Store, model: Model, directory: Path) -> None:
        super().__init__()
        self.model = model
        self.tools: dict[str, Any] = {
            kind.name: kind(self.gates) for kind in (Echo, Gated, Alone, Killed, Broken, StartSubagent)
        }
        self.approver = TestApprover(self.gates)
        self.context_gatherer = TestContextGatherer()
        self.observer = TestObserver()
        self.titler = TestTitler()
        self.kept_conversations = KeptConversations(least_messages=1)
        self.limits = turn_limits(max_steps=50)
        self.clock = Clock()
        self.pause: Any = at_once
        self._store = store
        self._tool_contexts = TestToolContexts(directory)

    async def prepare(self, session: Session, request: RunRequest) -> RunRequest:
        return request

    def turn(self, run: Run, session: Session) -> Turn:
        dependencies = self.dependencies(run)
        return CompactTurn(dependencies) if run.kind == "compact" else PromptTurn(dependencies)

    def dependencies(self, run: Run) -> TurnDependencies:
        return TurnDependencies(
            store=self._store,
            model=self.model,
            toolbox=TestToolbox(self.tools),
            approver=self.approver,
            tool_contexts=self._tool_contexts,
            context_gatherer=self.context_gatherer,
            observer=self.observer,
            titler=self.titler,
            limits=self.limits,
            mode=run.mode or "ask",
            effort=run.effort,
            kept_conversations=self.kept_conversations,
            pause=self.pause,
            deadline=self.clock,
        )


class TurnHarness(EngineHarness):
    turns: RealTurns

    @property
    def tools(self) -> dict[str, Any]:
        return self.turns.tools


@asynccontextmanager
async def open_turns(directory: Path, model: Model, *, store: Store | None = None) -> AsyncIterator[TurnHarness]:
    """Open a workspace with one session, ``ses_1``, whose turns use this model."""
    opened = store or await open_any_store(directory / "holdfast.db")
    if not await opened.workspaces():
        await opened.commit(Batch((PutWorkspace(Workspace(WORKSPACE, str(directory))),)))
    harness = TurnHarness(directory, opened, turns=RealTurns(opened, model, directory), limits=LONG_LIMITS)
    await harness.engine.open_workspace(WORKSPACE)
    try:
        await harness.session()
        yield harness
    finally:
        await harness.close()


def scripted_model(*answers: Answers, **info: int) -> ScriptedModel:
    return ScriptedModel.answering(*answers, info=ModelInfo("offline/test", **info))


def tool_results(messages: tuple[Message, ...]) -> list[ToolResult]:
    return [part for message in messages for part in message.parts if isinstance(part, ToolResult)]


def finish_part(message: Message) -> Finish:
    assert isinstance(message.parts[-1], Finish)
    return message.parts[-1]


async def complete_run(harness: TurnHarness, prompt: str = "do it") -> Run:
    return await harness.ended(await harness.accept(prompt))
