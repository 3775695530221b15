"""Opens the models that the configuration names. Wires and HTTP are imported at their first use."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, assert_never

from holdfast.models.pricing import price_from_catalogue
from holdfast.models.protocol import Model, ModelInfo
from holdfast.models.stall_timeout import StallLimits
from holdfast.models.wires.protocol import Wire

if TYPE_CHECKING:
    from holdfast.config.model_catalogue import ResolvedModel
    from holdfast.config.secrets import Keyring
    from holdfast.config.setting_types import Secret
    from holdfast.config.settings import ConfigWire, NetworkSettings
    from holdfast.models.http_transport import HttpTransport
    from holdfast.models.model_script import ModelScript


_MAX_OPENED = 64


class ModelFactory:
    """Opens models and owns their connections: one pool per provider, shared by its models. Close it with `aclose`."""

    def __init__(
        self, keyring: Keyring, *, network: NetworkSettings, scripts: Mapping[str, ModelScript] | None = None
    ) -> None:
        """``scripts``: by the name of a scripted model. A model without a script repeats the prompt."""
        self._keyring = keyring
        self._network = network
        self._scripts = dict(scripts or {})
        self._transports: dict[str, HttpTransport] = {}
        self._opened: dict[str, tuple[ResolvedModel, StallLimits, Model]] = {}
        """By name: the models of providers as they were last opened. Most runs open the same ones."""

    def open(self, resolved: ResolvedModel, *, limits: StallLimits) -> Model:
        """Open a model. Nothing is sent and no key is fetched before the first request."""
        wire = resolved.wire
        if wire == "scripted":
            from holdfast.models.scripted_model import ScriptedModel

            return ScriptedModel(self._scripts.get(resolved.model), info=model_info(resolved))

        last = self._opened.get(resolved.name)
        if last is not None and last[0] == resolved and last[1] == limits:
            return last[2]
        if len(self._opened) >= _MAX_OPENED:
            self._opened.clear()
        opened = self._open(resolved, wire, limits=limits)
        self._opened[resolved.name] = (resolved, limits, opened)
        return opened

    def _open(self, resolved: ResolvedModel, wire: ConfigWire, *, limits: StallLimits) -> Model:
        from holdfast.models.http_model import HttpModel

        source = resolved.key

        async def key() -> Secret | None:
            return await self._keyring.resolve(source) if source else None

        return HttpModel(
            model_info(resolved),
            wire=load_wire(wire),
            base_url=resolved.base_url,
            transport=self._transport(resolved.provider),
            limits=limits,
            key=key,
            on_auth_failure=(lambda: self._keyring.forget(source)) if source else None,
            headers=resolved.headers,
            body=resolved.body,
        )

    async def aclose(self) -> None:
        self._opened.clear()
        transports, self._transports = self._transports, {}
        for transport in transports.values():
            await transport.aclose()

    def _transport(self, provider: str) -> HttpTransport:
        if provider not in self._transports:
            from holdfast.models.http_transport import HttpTransport

            self._transports[provider] = HttpTransport(network=self._network)
        return self._transports[provider]


def load_wire(name: ConfigWire) -> Wire:
    """Import a wire by its name."""
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


def model_info(resolved: ResolvedModel) -> ModelInfo:
    """The properties of a model that the turn needs."""
    return ModelInfo(
        resolved.name,
        context_window=resolved.context_window,
        max_output=resolved.max_output,
        images=resolved.images,
        reasoning=resolved.reasoning,
        price=price_from_catalogue(resolved.price) if resolved.price else None,
    )
