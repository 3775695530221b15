"""The servers of a file: installed ones of the catalogue, configured ones, one of each group, in the nearest root."""

import tomllib
from pathlib import Path

import pytest

from holdfast.config.settings import LanguageServerSettings, Settings, ToolSettings
from holdfast.extend.lsp.server_choice import CATALOGUE, ChosenServer, choose_servers, define_servers, usable_servers
from tests.support.tool_contexts import settings_of

_DOCS = Path(__file__).parents[3] / "docs" / "extensions.md"
NO_PROGRAMS = {"PATH": ""}


def _install(directory: Path, *names: str, place: str = ".venv/bin") -> None:
    for name in names:
        program = directory / place / name
        program.parent.mkdir(parents=True, exist_ok=True)
        program.write_text("")
        program.chmod(0o755)


def _choose(directory: Path, path: str, settings: Settings | None = None) -> tuple[ChosenServer, ...]:
    return choose_servers(directory / path, directory, settings or Settings(), NO_PROGRAMS)


def _names(directory: Path, path: str, settings: Settings | None = None) -> list[str]:
    return [chosen.definition.name for chosen in _choose(directory, path, settings)]


def test_every_server_that_people_expect_is_known_with_a_unique_name() -> None:
    names = [entry.name for entry in CATALOGUE]
    assert len(names) == len(set(names)) >= 35
    wanted = {"basedpyright", "pyright", "ruff", "gopls", "rust-analyzer", "typescript-language-server", "clangd"}
    wanted |= {"jdtls", "lua-language-server", "ruby-lsp", "zls", "bash-language-server", "yaml-language-server"}
    wanted |= {f"vscode-{kind}-language-server" for kind in ("json", "html", "css")}
    assert wanted <= set(names)
    told = _DOCS.read_text()
    assert [name for name in names if name not in told and not name.startswith("vscode-")] == []


def test_only_installed_servers_are_chosen_and_one_of_each_group(tmp_path: Path) -> None:
    assert _names(tmp_path, "a.py") == []
    _install(tmp_path, "pyright-langserver", "ruff")
    assert _names(tmp_path, "a.py") == ["pyright", "ruff"]
    _install(tmp_path, "basedpyright-langserver", place="node_modules/.bin")
    assert _names(tmp_path, "deep/down/a.pyi") == ["basedpyright", "ruff"]
    assert _names(tmp_path, "a.txt") == []
    assert choose_servers(tmp_path.parent / "a.py", tmp_path, Settings(), NO_PROGRAMS) == ()


def test_a_server_works_in_the_nearest_root_and_else_in_the_workspace(tmp_path: Path) -> None:
    _install(tmp_path, "gopls", "csharp-ls")
    (tmp_path / "inner/deep").mkdir(parents=True)
    (tmp_path / "inner/go.mod").touch()
    (tmp_path / "inner/App.csproj").touch()
    assert [chosen.root for chosen in _choose(tmp_path, "inner/deep/a.go")] == [tmp_path / "inner"]
    assert [chosen.root for chosen in _choose(tmp_path, "inner/deep/a.cs")] == [tmp_path / "inner"]
    assert [chosen.root for chosen in _choose(tmp_path, "a.go")] == [tmp_path]


def test_settings_turn_servers_off_change_them_and_add_others(tmp_path: Path) -> None:
    _install(tmp_path, "ruff", "mine")
    off = Settings(lsp={"ruff": LanguageServerSettings(enabled=False)})
    assert _names(tmp_path, "a.py", off) == []
    assert _names(tmp_path, "a.py", Settings(tools=ToolSettings(lsp="off"))) == []
    assert _names(tmp_path, "a.py", Settings(tools=ToolSettings(lsp="configured"))) == []
    own = Settings(lsp={"mine": LanguageServerSettings(command=("mine", "--x"), files=("src/**/*.py",), language="py")})
    assert _names(tmp_path, "src/deep/a.py", own) == ["mine", "ruff"]
    assert _names(tmp_path, "a.py", own) == ["ruff"]
    (mine, _) = _choose(tmp_path, "src/a.py", own)
    assert (mine.argv, mine.definition.language_of(Path("a.py"))) == ((str(tmp_path / ".venv/bin/mine"), "--x"), "py")
    missing = Settings(lsp={"gone": LanguageServerSettings(command=("gone",), files=("*.py",))})
    assert [(chosen.definition.name, bool(chosen.argv)) for chosen in _choose(tmp_path, "a.py", missing)] == [
        ("gone", False),
        ("ruff", True),
    ]


def test_the_example_of_the_documentation_means_what_it_says() -> None:
    section = _DOCS.read_text().partition("## Language servers")[2].partition("\n## ")[0]
    settings = settings_of(**tomllib.loads(section.partition("```toml\n")[2].partition("```")[0]))
    defined = {definition.name: definition.entry for definition in define_servers(settings)}
    assert defined["basedpyright"].settings["basedpyright"]["analysis"] == {
        "typeCheckingMode": "strict",
        "diagnosticMode": "openFilesOnly",
    }
    assert "pylsp" not in defined
    assert defined["my-server"].files == ("*.mine",)


@pytest.mark.parametrize(("file", "found"), [("a.py", ["ruff"]), ("deep/b.pyi", ["ruff"]), ("a.txt", [])])
def test_a_workspace_has_a_use_for_servers_of_the_files_in_it(tmp_path: Path, file: str, found: list[str]) -> None:
    _install(tmp_path, "ruff", "gopls")
    (tmp_path / file).parent.mkdir(exist_ok=True)
    (tmp_path / file).touch()
    (tmp_path / "node_modules").mkdir()
    (tmp_path / "node_modules/x.go").touch()
    assert [definition.name for definition in usable_servers(tmp_path, Settings(), NO_PROGRAMS)] == found
