"""What a key and a piece of an answer make the interface do: they draw their own lines, not the whole screen."""

from pathlib import Path

from holdfast.testing import Answer, Gate, Say
from tests.tui.ui_harness import open_ui


async def test_neither_keys_nor_a_growing_answer_lay_out_the_screen(tmp_path: Path) -> None:
    lines = "".join(f"Paragraph {number}.\n\n" for number in range(60))
    answer = Answer(pieces=(Say(lines), Gate("more"), Say(f"{lines}The last one."), Gate("end")))
    async with open_ui(tmp_path, answer) as ui:
        await ui.send("go")
        await ui.shows("Paragraph 59.")
        await ui.type("x")
        await ui.until(lambda: ui.draft == "x")
        await ui.settled()
        layouts: list[object] = []
        lay_out = ui.app.chat._refresh_layout
        ui.app.chat._refresh_layout = lambda *a, **k: (layouts.append(a), lay_out(*a, **k))  # type: ignore[method-assign]
        ui.server.provider.open("more")
        await ui.type("yz")
        await ui.shows("xyz")
        await ui.shows("The last one.")
        assert layouts == []
        ui.server.provider.open("end")
