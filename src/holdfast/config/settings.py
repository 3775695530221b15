"""Every setting with its type, its default and one line that says what it does.

The JSON Schema, the table in docs/configuration.md and the messages about unknown keys all come from these types.
`None` as a default means "not said": the catalogue or another setting decides.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeAlias

import msgspec
from msgspec import Meta

from holdfast.config.value_types import Duration, Headers, KeySource, ProxyUrl, Url, Variables
from holdfast.schema.runs import Mode

ConfigWire = Literal["openai-chat", "openai-responses", "anthropic", "gemini"]
Wire: TypeAlias = ConfigWire | Literal["scripted"]
"""How a provider is spoken to. ``scripted`` is the model that ships in the package, and cannot be configured."""

Sandbox = Literal["off", "workspace-write", "read-only"]
SearchProvider = Literal["none", "brave", "tavily", "searxng"]
Text = Annotated[str, Meta(min_length=1)]
Dollars = Annotated[float, Meta(ge=0)]
Count = Annotated[int, Meta(ge=1)]


class Table(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Base of every table of the file."""


class Models(Table, frozen=True):
    """Which models to use."""

    large: Annotated[Text | None, Meta(description="The model that works, as `provider/model`.")] = None
    small: Annotated[
        Text | None, Meta(description="The model for titles and summaries of pages; falls back to the large one.")
    ] = None


class LongPrice(Table, frozen=True):
    """Prices of a request whose prompt is longer than a threshold."""

    above: Annotated[int, Meta(ge=0, description="Prompt tokens above which these prices hold for the whole request.")]
    input: Annotated[Dollars, Meta(description="US dollars per million input tokens.")] = 0.0
    output: Annotated[Dollars, Meta(description="US dollars per million output tokens.")] = 0.0
    cache_read: Annotated[Dollars, Meta(description="US dollars per million tokens read from a cache.")] = 0.0
    cache_write: Annotated[Dollars, Meta(description="US dollars per million tokens written to a cache.")] = 0.0


class PriceSettings(Table, frozen=True):
    """US dollars per million tokens."""

    input: Annotated[Dollars | None, Meta(description="US dollars per million input tokens.")] = None
    output: Annotated[Dollars | None, Meta(description="US dollars per million output tokens.")] = None
    cache_read: Annotated[
        Dollars | None, Meta(description="US dollars per million tokens read from a cache; as input if not said.")
    ] = None
    cache_write: Annotated[
        Dollars | None, Meta(description="US dollars per million tokens written to a cache; as input if not said.")
    ] = None
    long: Annotated[LongPrice | None, Meta(description="Prices of long prompts, where they differ.")] = None


class ModelSettings(Table, frozen=True):
    """One model of a provider. What is not said comes from the catalogue."""

    name: Annotated[Text | None, Meta(description="The name to show.")] = None
    context_window: Annotated[Count | None, Meta(description="Tokens that fit, the answer included.")] = None
    max_output: Annotated[Count | None, Meta(description="Most tokens of one answer.")] = None
    images: Annotated[bool | None, Meta(description="Whether the model sees images.")] = None
    reasoning: Annotated[
        tuple[Text, ...] | None, Meta(description="Efforts it can be asked for, from least to most.")
    ] = None
    price: Annotated[PriceSettings | None, Meta(description="What tokens cost.")] = None
    body: Annotated[dict[str, Any], Meta(description="Merged into each request to this model.")] = {}


class Provider(Table, frozen=True):
    """A service that has models. Built-in ones need only their key."""

    name: Annotated[Text | None, Meta(description="The name to show.")] = None
    enabled: Annotated[bool, Meta(description="`false` hides the provider even if its key is there.")] = True
    wire: Annotated[ConfigWire | None, Meta(description="How it is spoken to.")] = None
    base_url: Annotated[Url | None, Meta(description="Its address, up to and including the version.")] = None
    api_key: Annotated[
        KeySource | None,
        Meta(
            description="`env:NAME`, `file:PATH`, `cmd:COMMAND` or the key itself (user's files only, with a warning)."
        ),
    ] = None
    headers: Annotated[Headers, Meta(description="Sent with each request; a value may be `env:NAME`.")] = msgspec.field(
        default_factory=Headers
    )
    body: Annotated[dict[str, Any], Meta(description="Merged into each request.")] = {}
    models: Annotated[dict[str, ModelSettings], Meta(description="Its models by id.")] = {}


class Approvals(Table, frozen=True):
    """What the agent may do without asking."""

    mode: Annotated[Mode, Meta(description="What is asked of a person; also per session and per run.")] = "ask"
    allow: Annotated[
        tuple[Text, ...], Meta(description="Rules for what runs without asking: `tool` or `tool: pattern`.")
    ] = ()
    deny: Annotated[
        tuple[Text, ...],
        Meta(description="Rules for what never runs. A project's file adds to this list, nothing removes from it."),
    ] = ()
    deadline: Annotated[
        Duration, Meta(description="How long an approval waits before it counts as denied; `0s`: for ever.")
    ] = Duration(0)


class Limits(Table, frozen=True):
    """When a run ends by itself, and how long the models may be silent."""

    max_steps: Annotated[Count, Meta(description="Model requests of one run.")] = 200
    max_cost: Annotated[Dollars, Meta(description="US dollars of one run; 0: no limit.")] = 0.0
    max_time: Annotated[Duration, Meta(description="Wall time of one run; `0s`: no limit.")] = Duration(0)
    first_token: Annotated[Duration, Meta(description="Longest wait for a model's first token.")] = Duration(120)
    between_tokens: Annotated[Duration, Meta(description="Longest silence inside an answer.")] = Duration(90)
    tool_parallel: Annotated[Count, Meta(description="Tool calls of one step that run side by side.")] = 5
    agent_depth: Annotated[
        int, Meta(ge=0, description="How deep sub-agents may start sub-agents; 0: no sub-agents.")
    ] = 2


class Tools(Table, frozen=True):
    """What the tools do by themselves."""

    disabled: Annotated[tuple[Text, ...], Meta(description="Tools that no model is offered.")] = ()
    bash_background: Annotated[
        Duration, Meta(description="After this time a command goes on in the background, as a job.")
    ] = Duration(60)
    fetch_private: Annotated[bool, Meta(description="Whether `fetch` and `download` may reach private addresses.")] = (
        False
    )


class Server(Table, frozen=True):
    """The local server. A project's file cannot change it."""

    linger: Annotated[Duration, Meta(description="How long an idle server, or an idle workspace, stays up.")] = (
        Duration(600)
    )
    heartbeat: Annotated[Duration, Meta(description="Time between heartbeats on a stream.")] = Duration(10)
    keep_events: Annotated[Duration, Meta(description="How long events are kept for clients that were away.")] = (
        Duration(7 * 86_400)
    )
    sandbox: Annotated[Sandbox, Meta(description="What commands of the agent may write to.")] = "off"
    max_unfinished_runs: Annotated[
        Count, Meta(description="Unfinished runs of one session before prompts are refused.")
    ] = 1_000
    max_streams: Annotated[Count, Meta(description="Event streams that may be open at once.")] = 256


class WebSearch(Table, frozen=True):
    """The `web_search` tool."""

    provider: Annotated[SearchProvider, Meta(description="Who searches.")] = "none"
    api_key: Annotated[KeySource | None, Meta(description="Its key, written as a provider's.")] = None
    url: Annotated[Url | None, Meta(description="The address of a SearXNG server.")] = None


class McpServer(Table, frozen=True):
    """A server that speaks the Model Context Protocol: a command to start, or an address to reach."""

    command: Annotated[tuple[Text, ...], Meta(description="Program and arguments.")] = ()
    env: Annotated[Variables, Meta(description="Added to its environment; a value may be `env:NAME`.")] = msgspec.field(
        default_factory=Variables
    )
    url: Annotated[Url | None, Meta(description="Address, instead of a command.")] = None
    headers: Annotated[Headers, Meta(description="Sent with each request; a value may be `env:NAME`.")] = msgspec.field(
        default_factory=Headers
    )
    timeout: Annotated[Duration, Meta(description="Longest wait for an answer.")] = Duration(60)
    enabled: Annotated[bool, Meta(description="`false` keeps it configured but off.")] = True


class Tui(Table, frozen=True):
    """The terminal UI."""

    theme: Annotated[Text, Meta(description="One of Textual's themes.")] = "textual-dark"
    keys: Annotated[dict[str, str], Meta(description='Keys by action, such as `cancel = "escape"`.')] = {}


class Agent(Table, frozen=True):
    """A named sub-agent."""

    description: Annotated[str, Meta(description="When to use it, told to the model.")] = ""
    prompt: Annotated[str, Meta(description="Its own instructions.")] = ""
    tools: Annotated[tuple[Text, ...] | None, Meta(description="Tools it has; if not said, those that only read.")] = (
        None
    )
    model: Annotated[Text | None, Meta(description="`provider/model`; if not said, its parent's.")] = None
    max_steps: Annotated[Count | None, Meta(description="Model requests of one of its runs.")] = None


class Network(Table, frozen=True):
    """How to reach the world. A project's file cannot change it."""

    proxy: Annotated[
        ProxyUrl | None,
        Meta(description="For all requests; else `HTTPS_PROXY`, `ALL_PROXY` or `HTTP_PROXY` of the environment."),
    ] = None
    no_proxy: Annotated[
        tuple[Text, ...], Meta(description="Hosts reached directly; else `NO_PROXY`. Loopback always is.")
    ] = ()
    ca_file: Annotated[
        Text | None, Meta(description="Certificates to trust instead of the system's; else `SSL_CERT_FILE`.")
    ] = None


class Settings(Table, frozen=True):
    """Holdfast's configuration."""

    models: Models = Models()
    providers: dict[str, Provider] = {}
    approvals: Approvals = Approvals()
    limits: Limits = Limits()
    tools: Tools = Tools()
    agents: dict[str, Agent] = {}
    web_search: WebSearch = WebSearch()
    mcp: dict[str, McpServer] = {}
    network: Network = Network()
    server: Server = Server()
    tui: Tui = Tui()
