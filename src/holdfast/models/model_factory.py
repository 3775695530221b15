"""From a configured model to one that can be asked. Wires are imported when they are first used."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, assert_never

import msgspec

from holdfast.models.protocol import Model, ModelInfo, Price
from holdfast.models.provider_address import Network
from holdfast.models.stall_timeout import Deadlines
from holdfast.models.wires.protocol import Wire

if TYPE_CHECKING:
    from holdfast.config.model_catalogue import ResolvedModel
    from holdfast.config.secrets import Keyring
    from holdfast.config.setting_types import Secret
    from holdfast.config.settings import ConfigWire
    from holdfast.models.http_transport import HttpTransport
    from holdfast.models.model_script import ModelScript


class ModelFactory:
    """Opens models and owns their connections: one pool per provider, for all its models. End it with `aclose`."""

    def __init__(
        self,
        keyring: Keyring,
        *,
        network: Network | None = None,
        scripts: Mapping[str, ModelScript] | None = None,
    ) -> None:
        """``scripts``: by the name of the scripted model that says them; without one it only repeats what it hears."""
        self._keyring = keyring
        self._network = network or Network()
        self._scripts = dict(scripts or {})
        self._transports: dict[str, HttpTransport] = {}

    def open(self, resolved: ResolvedModel, *, deadlines: Deadlines | None = None) -> Model:
        """The model, ready to be asked. Nothing is sent and no key is fetched before that."""
        if resolved.wire == "scripted":
            from holdfast.models.scripted_model import ScriptedModel

            return ScriptedModel(self._scripts.get(resolved.model), info=info_of(resolved))
        return open_model(
            resolved, keyring=self._keyring, transport=self._transport(resolved.provider), deadlines=deadlines
        )

    async def aclose(self) -> None:
        transports, self._transports = self._transports, {}
        for transport in transports.values():
            await transport.aclose()

    def _transport(self, provider: str) -> HttpTransport:
        if provider not in self._transports:
            from holdfast.models.http_transport import HttpTransport

            self._transports[provider] = HttpTransport(network=self._network)
        return self._transports[provider]


def open_model(
    resolved: ResolvedModel, *, keyring: Keyring, transport: HttpTransport, deadlines: Deadlines | None = None
) -> Model:
    """A model behind HTTP, over connections that somebody else closes."""
    from holdfast.models.http_model import HttpModel

    assert resolved.wire != "scripted", "a scripted model needs no connection"
    source = resolved.key

    async def key() -> Secret | None:
        return await keyring.resolve(source) if source else None

    return HttpModel(
        info_of(resolved),
        wire=wire_named(resolved.wire),
        base_url=resolved.base_url,
        model=resolved.model,
        transport=transport,
        key=key,
        on_auth_failure=(lambda: keyring.forget(source)) if source else None,
        headers=resolved.headers,
        body=resolved.body,
        deadlines=deadlines,
    )


def wire_named(name: ConfigWire) -> Wire:
    """The wire of a name, imported now."""
    match name:
        case "openai-chat":
            from holdfast.models.wires.openai_chat import OpenAIChat

            return OpenAIChat()
        case "openai-responses":
            from holdfast.models.wires.openai_responses import OpenAIResponses

            return OpenAIResponses()
        case "anthropic":
            from holdfast.models.wires.anthropic import Anthropic

            return Anthropic()
        case "gemini":
            from holdfast.models.wires.gemini import Gemini

            return Gemini()
        case _:
            assert_never(name)


def info_of(resolved: ResolvedModel) -> ModelInfo:
    """What the turn needs to know of a model."""
    return ModelInfo(
        resolved.name,
        context_window=resolved.context_window,
        max_output=resolved.max_output,
        images=resolved.images,
        reasoning=resolved.reasoning,
        price=price_of(resolved),
    )


def price_of(resolved: ResolvedModel) -> Price | None:
    if resolved.price is None:
        return None
    found = msgspec.to_builtins(resolved.price)
    long = found.pop("long", None)
    if long is None:
        return Price(**found)
    above = long.pop("above")
    return Price(**found, above=above, long=Price(**long))
