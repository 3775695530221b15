"""The setup of a provider: pick it, paste its key, try it. Or the offline demo."""

from __future__ import annotations

from holdfast.errors import HoldfastError
from holdfast.schema.api.response_bodies import ModelsView, ProviderView
from holdfast.tui.picker import Picker, PickerRow
from holdfast.tui.text_dialog import TextDialog
from holdfast.tui.tui_host import TuiHost

OFFLINE = "offline/demo"


def start_setup(app: TuiHost) -> None:
    """Offer the providers."""
    models = app.link.models or ModelsView()

    def chosen(value: str | None) -> None:
        if value == OFFLINE:
            app.use_model(OFFLINE)
            app.main.tell("this is the offline demo: it answers from a script")
        elif value is not None:
            ask_key(app, value)

    hint = "enter: paste its key; it is stored in a file that only you can read · esc: later, with /key"
    app.push_screen(Picker(provider_rows(models), heading="which provider do you use?", hint=hint), chosen)


def provider_rows(models: ModelsView) -> list[PickerRow]:
    providers = [provider for provider in models.providers if not provider.local and provider.id != "offline"]
    rows = [PickerRow(p.id, p.name or p.id, notes=(_state(p),), mark="●" if p.active else " ") for p in providers]
    return [*rows, PickerRow(OFFLINE, "offline demo", notes=("no key, no network",))]


def _state(provider: ProviderView) -> str:
    return f"ready ({provider.key})" if provider.active and provider.key else "ready" if provider.active else ""


def ask_key(app: TuiHost, provider: str) -> None:
    def given(key: str | None) -> None:
        if key is not None and key.strip():
            app.main.do(_try_key(app, provider, key.strip()))

    note = "it is not shown · enter stores and tries it · esc closes"
    app.push_screen(TextDialog(f"key for {provider}", note=note, secret=True), given)


async def _try_key(app: TuiHost, provider: str, key: str) -> None:
    client = await app.link.ready()
    await client.set_key(provider, key)
    app.main.tell(f"trying {provider}…")
    try:
        result = await client.try_provider(provider)
    except HoldfastError as error:
        app.main.tell(f"{provider} could not be tried: {error.message}", warning=True)
        return
    await app.link.reload_settings()
    if result.ok:
        app.main.tell(f"{provider} works with {result.model}")
        if not (app.link.models and app.link.models.large):
            app.use_model(result.model)
        app.main.draw_all()
        return
    app.main.tell(f"{provider} refused: {result.message}", warning=True)
    ask_key(app, provider)
