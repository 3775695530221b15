"""Every setting with its type, its default and a one-line description. Defaults are defined only here.

The JSON Schema, the table in docs/configuration.md and the messages about unknown keys are made from these types.
A default of `None` means "not set": the catalogue or another setting decides.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeAlias

import msgspec
from msgspec import Meta

from holdfast.config.setting_types import Duration, Headers, KeySource, ProxyUrl, StoreUrl, Url, Variables
from holdfast.schema.hooks import HookEvent
from holdfast.schema.runs import Mode

ConfigWire = Literal["openai-chat", "openai-responses", "anthropic", "gemini"]
Wire: TypeAlias = ConfigWire | Literal["scripted"]
"""The protocol of a provider. ``scripted`` is the model that ships in the package; it cannot be configured."""

NotifyBy = Literal["terminal", "bell", "off"]
Sandbox = Literal["auto", "off", "workspace-write", "read-only"]
SandboxNetwork = Literal["allow", "ask", "off"]
Effort = Literal["off", "minimal", "low", "medium", "high", "xhigh", "max"]
McpTransport = Literal["http", "sse"]
SearchProvider = Literal["none", "brave", "tavily", "searxng"]
Text = Annotated[str, Meta(min_length=1)]
Dollars = Annotated[float, Meta(ge=0)]
Count = Annotated[int, Meta(ge=1)]


class Table(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Base of every table of the configuration file."""


class DefaultModels(Table, frozen=True):
    """The models to use."""

    large: Annotated[Text | None, Meta(description="The model that does the work, as `provider/model`.")] = None
    small: Annotated[
        Text | None, Meta(description="The model for titles and page summaries; without it, the large one.")
    ] = None
    effort: Annotated[
        Effort,
        Meta(
            description="How hard the large model thinks. A model gets the nearest effort that it supports; one that"
            " does not reason gets none. Can also be set per run."
        ),
    ] = "medium"


class LongPrice(Table, frozen=True):
    """Prices of a request whose prompt is longer than a threshold."""

    above: Annotated[int, Meta(ge=0, description="Prompt tokens above which these prices apply to the whole request.")]
    input: Annotated[Dollars, Meta(description="US dollars per million input tokens.")] = 0.0
    output: Annotated[Dollars, Meta(description="US dollars per million output tokens.")] = 0.0
    cache_read: Annotated[Dollars, Meta(description="US dollars per million tokens read from a cache.")] = 0.0
    cache_write: Annotated[Dollars, Meta(description="US dollars per million tokens written to a cache.")] = 0.0


class PriceSettings(Table, frozen=True):
    """US dollars per million tokens."""

    input: Annotated[Dollars | None, Meta(description="US dollars per million input tokens.")] = None
    output: Annotated[Dollars | None, Meta(description="US dollars per million output tokens.")] = None
    cache_read: Annotated[
        Dollars | None,
        Meta(description="US dollars per million tokens read from a cache; without it, the price of input."),
    ] = None
    cache_write: Annotated[
        Dollars | None,
        Meta(description="US dollars per million tokens written to a cache; without it, the price of input."),
    ] = None
    long: Annotated[LongPrice | None, Meta(description="Prices of long prompts, if they differ.")] = None


class ModelSettings(Table, frozen=True):
    """One model of a provider. Keys that are not set come from the catalogue."""

    name: Annotated[Text | None, Meta(description="The name to show.")] = None
    context_window: Annotated[Count | None, Meta(description="Tokens of one request and its answer together.")] = None
    max_output: Annotated[Count | None, Meta(description="Maximum tokens of one answer.")] = None
    images: Annotated[bool | None, Meta(description="Whether the model accepts images.")] = None
    reasoning: Annotated[
        tuple[Text, ...] | None, Meta(description="Supported reasoning efforts, from least to most.")
    ] = None
    price: Annotated[PriceSettings | None, Meta(description="The price of its tokens.")] = None
    body: Annotated[dict[str, Any], Meta(description="Merged into the body of each request to this model.")] = {}


class ProviderSettings(Table, frozen=True):
    """A service that offers models. Built-in providers need only a key."""

    name: Annotated[Text | None, Meta(description="The name to show.")] = None
    enabled: Annotated[bool, Meta(description="`false` hides the provider even if it has a key.")] = True
    wire: Annotated[ConfigWire | None, Meta(description="The protocol it uses.")] = None
    base_url: Annotated[Url | None, Meta(description="Its address, including the version.")] = None
    api_key: Annotated[
        KeySource | None,
        Meta(description="`env:NAME`, `file:PATH`, `cmd:COMMAND` or a literal key (only in your own file)."),
    ] = None
    headers: Annotated[Headers, Meta(description="Sent with each request; a value may be `env:NAME`.")] = msgspec.field(
        default_factory=Headers
    )
    body: Annotated[dict[str, Any], Meta(description="Merged into the body of each request.")] = {}
    models: Annotated[dict[str, ModelSettings], Meta(description="Its models by id.")] = {}


class ApprovalSettings(Table, frozen=True):
    """What the agent may do without asking."""

    mode: Annotated[Mode, Meta(description="When to ask for approval; can also be set per session and per run.")] = (
        "ask"
    )
    allow: Annotated[
        tuple[Text, ...], Meta(description="Rules for calls that run without approval: `tool` or `tool: pattern`.")
    ] = ()
    deny: Annotated[
        tuple[Text, ...],
        Meta(description="Rules for calls that never run. A project can add rules but not remove yours."),
    ] = ()
    deadline: Annotated[
        Duration, Meta(description="How long an approval waits before it counts as denied; `0s`: no limit.")
    ] = Duration(0)
    auto_deadline: Annotated[
        Duration,
        Meta(
            description="The same in the mode `auto`, if `deadline` sets no limit: there is often nobody to answer."
            " `0s`: no limit."
        ),
    ] = Duration(600)

    def deadline_in(self, mode: Mode) -> float:
        """Return how long an approval or a question of a run waits, in seconds; 0 means no limit."""
        return self.deadline or (self.auto_deadline if mode == "auto" else 0.0)


MAX_AGENT_DEPTH = 5
"""The highest `limits.agent_depth`. Each level has less time to stop than the one above it."""


class LimitSettings(Table, frozen=True):
    """Limits of one run, and of the time a model may stay silent."""

    max_steps: Annotated[Count, Meta(description="Maximum model requests of one run.")] = 200
    max_cost: Annotated[Dollars, Meta(description="Maximum cost of one run in US dollars; 0: no limit.")] = 0.0
    max_time: Annotated[Duration, Meta(description="Maximum duration of one run; `0s`: no limit.")] = Duration(0)
    last_answer: Annotated[
        Duration,
        Meta(
            description="When the steps or the time are over, the model gets this long to say where things stand;"
            " `0s`: it is not asked."
        ),
    ] = Duration(20)
    first_token: Annotated[Duration, Meta(description="Maximum wait for a model's first token.")] = Duration(120)
    between_tokens: Annotated[Duration, Meta(description="Maximum pause within an answer.")] = Duration(90)
    tool_parallel: Annotated[Count, Meta(description="Tool calls of one step that run in parallel.")] = 5
    agent_depth: Annotated[
        int,
        Meta(ge=0, le=MAX_AGENT_DEPTH, description="How deep sub-agents may be nested, at most 5; 0: no sub-agents."),
    ] = 2


class ToolSettings(Table, frozen=True):
    """The agent's tools."""

    disabled: Annotated[tuple[Text, ...], Meta(description="Tools that are not offered to any model.")] = ()
    bash_background: Annotated[
        Duration, Meta(description="After this time a command continues in the background as a job.")
    ] = Duration(60)
    mask_secrets: Annotated[
        bool,
        Meta(
            description="Whether well-known kinds of keys, and secrets in the workspace's `.env` files, are masked in"
            " what tools return. Keys that Holdfast itself uses are always masked."
        ),
    ] = True
    variables: Annotated[
        tuple[Text, ...],
        Meta(
            description="More variables that commands get from the shell in which a prompt was typed, besides `PATH`,"
            " those of language managers and the locale; `*` at the end of a name stands for any rest. Variables that"
            " may hold a secret are never sent."
        ),
    ] = ()
    format: Annotated[
        Literal["auto", "configured", "off"],
        Meta(
            description="Formatters that run after edits in a trusted directory: configured ones and those that the"
            " project uses (`auto`), only configured ones, or none."
        ),
    ] = "auto"
    format_timeout: Annotated[Duration, Meta(description="Maximum time for formatting after one call.")] = Duration(10)
    claude_hooks: Annotated[
        bool,
        Meta(
            description="Whether hooks in the settings files of Claude Code run, yours and the project's, in trusted"
            " directories."
        ),
    ] = True
    mcp_tokens: Annotated[
        int,
        Meta(
            ge=0,
            description="Maximum size of the definitions of MCP tools in a request, in tokens. The model finds the"
            " tools of servers that do not fit with a search tool.",
        ),
    ] = 12_000
    lsp: Annotated[
        Literal["auto", "configured", "off"],
        Meta(
            description="Language servers that are used in a trusted directory: configured ones and known ones that are"
            " installed (`auto`), only configured ones, or none."
        ),
    ] = "auto"
    lsp_wait: Annotated[
        Duration, Meta(description="Maximum wait for the diagnostics of language servers after an edit.")
    ] = Duration(5)
    lsp_timeout: Annotated[
        Duration, Meta(description="Maximum wait until a language server has started or answers a question.")
    ] = Duration(30)
    fetch_private: Annotated[bool, Meta(description="Whether `fetch` and `download` may access private addresses.")] = (
        False
    )


class FormatterSettings(Table, frozen=True):
    """A formatter that runs after the agent edited a file, in trusted directories. Known ones need no command."""

    command: Annotated[
        tuple[Text, ...],
        Meta(description="Program and arguments; reads stdin and writes stdout. `{file}` is the path of the file."),
    ] = ()
    files: Annotated[tuple[Text, ...], Meta(description="Patterns of the files that it formats, such as `*.py`.")] = ()
    enabled: Annotated[bool, Meta(description="`false` turns it off.")] = True


class HookSettings(Table, frozen=True):
    """A program that runs at certain moments of a run. See docs/extensions.md."""

    events: Annotated[
        tuple[HookEvent, ...],
        Meta(
            description="When it runs: `session_start`, `prompt`, `before_tool`, `after_tool`, `before_end`, `end`,"
            " `approval`, `compaction`, `notification`."
        ),
    ] = ()
    command: Annotated[tuple[Text, ...], Meta(description="Program and arguments; run in the workspace.")] = ()
    tools: Annotated[
        tuple[Text, ...], Meta(description="Patterns of the tools that it is about; without it, all tools.")
    ] = ()
    timeout: Annotated[Duration, Meta(description="After this time it is ended and counts as failed.")] = Duration(60)
    enabled: Annotated[bool, Meta(description="`false` turns it off.")] = True


class LanguageServerSettings(Table, frozen=True):
    """A language server, used in trusted directories. Known ones need no command."""

    command: Annotated[tuple[Text, ...], Meta(description="Program and arguments; talks over stdin and stdout.")] = ()
    files: Annotated[tuple[Text, ...], Meta(description="Patterns of its files, such as `*.py`.")] = ()
    roots: Annotated[
        tuple[Text, ...], Meta(description="Files that show the root of a project, such as `go.mod`.")
    ] = ()
    language: Annotated[str, Meta(description="The protocol's id of the language; without it, the name.")] = ""
    env: Annotated[dict[str, str], Meta(description="Added to its environment.")] = {}
    options: Annotated[dict[str, Any], Meta(description="Its initialization options.")] = {}
    settings: Annotated[
        dict[str, Any], Meta(description="What it gets when it asks for its settings, by section.")
    ] = {}
    enabled: Annotated[bool, Meta(description="`false` turns it off.")] = True


class UndoSettings(Table, frozen=True):
    """Undo of what the agent's commands change."""

    commands: Annotated[bool, Meta(description="Whether undo covers what the agent's commands change.")] = True
    max_files: Annotated[
        Count,
        Meta(
            description="Files and directories of a workspace, without ignored ones, that are compared before and after"
            " a command. In a larger one, undo covers only the files that the session has read or written."
        ),
    ] = 20_000


class ServerSettings(Table, frozen=True):
    """The local server. A project cannot change these settings."""

    linger: Annotated[Duration, Meta(description="How long an idle server or workspace stays up.")] = Duration(600)
    heartbeat: Annotated[Duration, Meta(description="Interval of heartbeats on an event stream.")] = Duration(10)
    keep_events: Annotated[Duration, Meta(description="How long events are kept for clients that reconnect.")] = (
        Duration(7 * 86_400)
    )
    keep_audit: Annotated[Duration, Meta(description="How long the audit is kept: who changed what.")] = Duration(
        90 * 86_400
    )
    sandbox: Annotated[
        Sandbox,
        Meta(
            description="What the agent's commands may write to; `auto` is `workspace-write` where a sandbox works,"
            " else `off`."
        ),
    ] = "auto"
    sandbox_network: Annotated[
        SandboxNetwork,
        Meta(
            description="Whether confined commands have a network; `ask`: only after an approval."
            " Landlock stops only TCP."
        ),
    ] = "allow"
    sandbox_caches: Annotated[
        bool, Meta(description="Whether confined commands may write the caches of pip, uv, npm, yarn, cargo and go.")
    ] = True
    sandbox_writable: Annotated[
        tuple[Text, ...],
        Meta(description="Further directories that commands and file tools may write; absolute, or `~/…`."),
    ] = ()
    max_unfinished_runs: Annotated[
        Count, Meta(description="Maximum unfinished runs of one session; further prompts are refused.")
    ] = 1_000
    max_streams: Annotated[Count, Meta(description="Maximum event streams open at the same time.")] = 256
    traces: Annotated[
        Url | None,
        Meta(
            description="Where OpenTelemetry traces of runs are sent: an OTLP/HTTP receiver, such as"
            " `http://127.0.0.1:4318/v1/traces`. Needs `holdfast[otel]`."
        ),
    ] = None
    crush: Annotated[
        Text | None,
        Meta(
            description="Also answer the clients of Crush, at `unix:///path`; `auto` is the socket that they use by"
            " default."
        ),
    ] = None


class WebSearchSettings(Table, frozen=True):
    """The `web_search` tool."""

    provider: Annotated[SearchProvider, Meta(description="The search service.")] = "none"
    api_key: Annotated[KeySource | None, Meta(description="Its key, in the same form as for a provider.")] = None
    url: Annotated[Url | None, Meta(description="The address of a SearXNG server.")] = None


class McpServerSettings(Table, frozen=True):
    """A server of the Model Context Protocol: a command to start, or an address to connect to."""

    command: Annotated[tuple[Text, ...], Meta(description="Program and arguments.")] = ()
    env: Annotated[Variables, Meta(description="Added to its environment; a value may be `env:NAME`.")] = msgspec.field(
        default_factory=Variables
    )
    url: Annotated[Url | None, Meta(description="Its address, instead of a command.")] = None
    headers: Annotated[Headers, Meta(description="Sent with each request; a value may be `env:NAME`.")] = msgspec.field(
        default_factory=Headers
    )
    transport: Annotated[
        McpTransport | None,
        Meta(description="How to talk to `url`: `http` (streamable HTTP) or `sse`; without it, both are tried."),
    ] = None
    start_timeout: Annotated[
        Duration, Meta(description="Maximum time until it is ready; runs without a person wait for it.")
    ] = Duration(30)
    timeout: Annotated[Duration, Meta(description="Maximum duration of one call.")] = Duration(60)
    tools: Annotated[
        tuple[Text, ...], Meta(description="The tools to offer, by the server's names; `*` stands for any text.")
    ] = ("*",)
    disabled_tools: Annotated[tuple[Text, ...], Meta(description="Tools that are not offered, in the same form.")] = ()
    sampling: Annotated[
        bool, Meta(description="Whether it may ask a model during a call; each request needs an approval.")
    ] = False
    sampling_model: Annotated[Text | None, Meta(description="The model it asks; without it, the small model.")] = None
    sampling_tokens: Annotated[Count, Meta(description="Maximum tokens of one answer that it gets.")] = 4_000
    sampling_requests: Annotated[Count, Meta(description="How often it may ask in one run.")] = 10
    enabled: Annotated[bool, Meta(description="`false` turns it off.")] = True


class AcpSettings(Table, frozen=True):
    """Editors that use `holdfast acp`."""

    files: Annotated[
        bool, Meta(description="Whether files are read as the editor has them, with changes that are not saved.")
    ] = True
    write_files: Annotated[
        bool,
        Meta(description="Whether files are edited through the editor, also those with changes that are not saved."),
    ] = False
    terminals: Annotated[
        bool, Meta(description="Whether commands that run outside the sandbox run in terminals of the editor.")
    ] = False


class TuiSettings(Table, frozen=True):
    """The terminal UI."""

    theme: Annotated[
        Text, Meta(description="`auto` follows the terminal's background; or a theme that `/theme` lists.")
    ] = "auto"
    notify: Annotated[
        NotifyBy, Meta(description="How to tell you of a question or an end while the terminal has no focus.")
    ] = "terminal"
    plain: Annotated[
        bool, Meta(description="For screen readers: words instead of symbols, no panel, no animation.")
    ] = False
    keys: Annotated[dict[str, str], Meta(description='Keys by action, such as `cancel = "escape"`.')] = {}


class AgentSettings(Table, frozen=True):
    """A named sub-agent."""

    description: Annotated[str, Meta(description="When to use it; the model reads this.")] = ""
    prompt: Annotated[str, Meta(description="Its own instructions.")] = ""
    tools: Annotated[
        tuple[Text, ...] | None,
        Meta(
            description="The tools it may use, such as `view` or `!bash` for all but one; without it, those that read."
        ),
    ] = None
    model: Annotated[Text | None, Meta(description="`provider/model`; without it, the model of the parent.")] = None
    max_steps: Annotated[Count | None, Meta(description="Maximum model requests of one of its runs.")] = None
    read_only: Annotated[bool, Meta(description="It runs in plan mode, whatever its tools are.")] = False


class SessionSettings(Table, frozen=True):
    """Sessions."""

    agent: Annotated[
        Text | None, Meta(description="The agent of new sessions; `holdfast agents` lists those in files.")
    ] = None


class NetworkSettings(Table, frozen=True):
    """Network access. A project cannot change these settings."""

    proxy: Annotated[
        ProxyUrl | None,
        Meta(description="The proxy for all requests; without it, `HTTPS_PROXY`, `ALL_PROXY` or `HTTP_PROXY` is used."),
    ] = None
    no_proxy: Annotated[
        tuple[Text, ...],
        Meta(description="Hosts that do not use the proxy; without it, `NO_PROXY`. Loopback never does."),
    ] = ()
    ca_file: Annotated[
        Text | None, Meta(description="Certificates to trust instead of the system's; without it, `SSL_CERT_FILE`.")
    ] = None


class FleetSettings(Table, frozen=True):
    """Several servers on one PostgreSQL database (`store`). A project cannot change these settings."""

    host: Annotated[
        Text | None,
        Meta(
            description="The name of this machine in the fleet: directories belong to it. Without it, its machine id."
        ),
    ] = None
    address: Annotated[
        Url | None,
        Meta(description="Where the other servers reach this one; without it, the address that `--listen` gave it."),
    ] = None
    lease: Annotated[
        Duration, Meta(description="How long the others wait for a server that does not answer before they replace it.")
    ] = Duration(3)
    shared: Annotated[
        tuple[Text, ...],
        Meta(description="Directories that every host mounts at the same path: another host may continue in them."),
    ] = ()


class Settings(Table, frozen=True):
    """Holdfast's configuration."""

    store: Annotated[
        StoreUrl | None,
        Meta(
            description="Where sessions are stored: the address of a PostgreSQL database (docs/fleet.md). Without it, a"
            " SQLite file in your data directory. Counts when the server starts; a project cannot set it."
        ),
    ] = None
    models: DefaultModels = DefaultModels()
    providers: dict[str, ProviderSettings] = {}
    approvals: ApprovalSettings = ApprovalSettings()
    limits: LimitSettings = LimitSettings()
    tools: ToolSettings = ToolSettings()
    formatters: dict[str, FormatterSettings] = {}
    hooks: dict[str, HookSettings] = {}
    lsp: dict[str, LanguageServerSettings] = {}
    undo: UndoSettings = UndoSettings()
    agents: dict[str, AgentSettings] = {}
    session: SessionSettings = SessionSettings()
    web_search: WebSearchSettings = WebSearchSettings()
    mcp: dict[str, McpServerSettings] = {}
    network: NetworkSettings = NetworkSettings()
    server: ServerSettings = ServerSettings()
    fleet: FleetSettings = FleetSettings()
    tui: TuiSettings = TuiSettings()
    acp: AcpSettings = AcpSettings()
