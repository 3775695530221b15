"""Which layer wins, where a value came from, and how problems are reported."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.config import Config, load_config, plain_values, project_files
from holdfast.config.config_layers import Origin, merge
from holdfast.config.toml_document import parse_key
from holdfast.errors import ConfigError
from holdfast.locations import Locations

PLANTED = "sk-planted-0123456789abcdef"


@pytest.fixture
def locations(holdfast_home: Path) -> Locations:
    found = Locations.from_env({"HOLDFAST_HOME": str(holdfast_home)})
    found.prepare()
    return found


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    root = tmp_path / "repository"
    (root / ".git").mkdir(parents=True)
    (root / "package" / "inner").mkdir(parents=True)
    return root


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def project_file(directory: Path, text: str) -> Path:
    return write(directory / ".holdfast" / "config.toml", text)


def load(locations: Locations, **options: Any) -> Config:
    options.setdefault("env", {})
    return load_config(locations, **options)


def value_of(config: Config, key: str) -> Any:
    found = plain_values(config.settings)
    for part in parse_key(key):
        found = found[part]
    return found


def origin_of(config: Config, key: str) -> Origin:
    return config.origins.get(parse_key(key), Origin())


def everything(directory: Path) -> bool:
    return True


def refused(locations: Locations, **options: Any) -> ConfigError:
    with pytest.raises(ConfigError) as caught:
        load(locations, **options)
    assert caught.value.status == 400
    return caught.value


def test_without_a_file_the_defaults_apply(locations: Locations) -> None:
    config = load(locations)
    assert config.settings.limits.max_steps == 200
    assert config.settings.limits.first_token == 120
    assert config.settings.server.keep_events == 7 * 86_400
    assert config.settings.approvals.mode == "ask"
    assert origin_of(config, "limits.max_steps") == Origin("default")
    assert config.files == ()


def test_each_layer_overrides_the_one_below_and_every_value_has_an_origin(
    locations: Locations, repository: Path, tmp_path: Path
) -> None:
    user = write(locations.config_file, '[models]\nlarge = "user/a"\nsmall = "user/b"\n[limits]\nmax_steps = 1\n')
    extra = write(tmp_path / "extra.toml", "[limits]\nmax_steps = 2\ntool_parallel = 2\n")
    outer = project_file(repository, "[limits]\ntool_parallel = 3\nagent_depth = 3\n")
    inner = project_file(repository / "package", "limits.agent_depth = 4\n")
    config = load(
        locations,
        env={"HOLDFAST_CONFIG": str(extra), "HOLDFAST_MODEL": "env/c"},
        workspace=repository / "package" / "inner",
        trusted=everything,
        flags={"limits.max_cost": 1.5},
    )
    found = {
        key: (value_of(config, key), origin_of(config, key))
        for key in (
            *("models.small", "models.large", "limits.max_steps", "limits.tool_parallel", "limits.agent_depth"),
            *("limits.max_cost", "limits.max_time"),
        )
    }
    assert found == {
        "models.small": ("user/b", Origin("user", str(user), 3)),
        "models.large": ("env/c", Origin("environment", "HOLDFAST_MODEL")),
        "limits.max_steps": (2, Origin("extra", str(extra), 2)),
        "limits.tool_parallel": (3, Origin("project", str(outer), 2)),
        "limits.agent_depth": (4, Origin("project", str(inner), 1)),
        "limits.max_cost": (1.5, Origin("flag", "limits.max_cost")),
        "limits.max_time": ("0s", Origin("default")),
    }
    assert config.files == (user, extra, outer, inner)
    assert str(origin_of(config, "models.small")) == f"user ({user}:3)"


def test_tables_merge_and_lists_replace(locations: Locations, tmp_path: Path) -> None:
    write(locations.config_file, 'approvals.allow = ["view", "ls"]\ntui.keys = { cancel = "escape", quit = "q" }\n')
    extra = write(tmp_path / "extra.toml", 'approvals.allow = ["grep"]\ntui.keys = { quit = "x" }\n')
    settings = load(locations, env={"HOLDFAST_CONFIG": str(extra)}).settings
    assert settings.approvals.allow == ("grep",)
    assert settings.tui.keys == {"cancel": "escape", "quit": "x"}


json_trees = st.recursive(
    st.integers() | st.text(max_size=3) | st.lists(st.integers(), max_size=2),
    lambda inner: st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=12,
)
tables = st.dictionaries(st.sampled_from("abc"), json_trees, max_size=3)


@given(tables, tables, tables)
@settings(max_examples=50)
def test_merge_is_associative_when_shapes_agree(a: Any, b: Any, c: Any) -> None:
    if same_shape(a, b) and same_shape(b, c) and same_shape(a, c):
        assert merge(merge(a, b), c) == merge(a, merge(b, c))


@given(tables, tables)
@settings(max_examples=50)
def test_a_merge_has_all_of_the_upper_layer_and_the_rest_of_the_lower(a: Any, b: Any) -> None:
    merged = merge(a, b)
    assert merge(merged, b) == merged
    assert merge(a, {}) == a == merge({}, a)
    for key in a.keys() - b.keys():
        assert merged[key] == a[key]


def same_shape(a: Any, b: Any) -> bool:
    """Whether no key is a table here and something else there."""
    if isinstance(a, dict) and isinstance(b, dict):
        return all(same_shape(a[key], b[key]) for key in a.keys() & b.keys())
    return not isinstance(a, dict) and not isinstance(b, dict)


def test_an_untrusted_project_is_not_read(locations: Locations, repository: Path) -> None:
    file = project_file(repository, "this is not TOML")
    config = load(locations, workspace=repository)
    assert config.untrusted == (file,)
    assert config.files == ()


def test_each_project_file_needs_the_trust_of_its_own_directory(locations: Locations, repository: Path) -> None:
    outer = project_file(repository, "limits.max_steps = 1\n")
    inner = project_file(repository / "package", "limits.tool_parallel = 1\n")
    config = load(locations, workspace=repository / "package", trusted=lambda path: path.name == "package")
    assert (config.untrusted, config.files) == ((outer,), (inner,))
    assert config.settings.limits.max_steps == 200


def test_files_above_the_repository_or_in_sibling_directories_are_ignored(
    locations: Locations, repository: Path
) -> None:
    project_file(repository.parent, "limits.max_steps = 1\n")
    project_file(repository / "package" / "inner", "limits.max_steps = 2\n")
    assert load(locations, workspace=repository / "package", trusted=everything).files == ()


def test_files_override_the_common_proxy_and_certificate_variables(locations: Locations) -> None:
    env = {"HTTPS_PROXY": "http://p:1", "no_proxy": "a.test, .b.test,", "SSL_CERT_FILE": "/ca.pem", "HTTP_PROXY": "x"}
    network = load(locations, env=env).settings.network
    assert (network.proxy, network.no_proxy, network.ca_file) == ("http://p:1", ("a.test", ".b.test"), "/ca.pem")
    assert load(locations, env={"https_proxy": "p.test:3128"}).settings.network.proxy == "http://p.test:3128"
    write(locations.config_file, 'network.proxy = "http://mine:2"\n')
    config = load(locations, env=env)
    assert config.settings.network.proxy == "http://mine:2"
    assert origin_of(config, "network.ca_file") == Origin("environment", "SSL_CERT_FILE")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[limits]\nmax_step = 3", ":2: limits.max_step: unknown key 'max_step'; did you mean 'max_steps'?"),
        ("[limit]\nmax_steps = 3", ":1: limit: unknown key 'limit'; did you mean 'limits'?"),
        ("[tui]\nzzz = 3", ":2: tui.zzz: unknown key 'zzz'; known here: theme, notify, plain, keys"),
        ("[limits]\nmax_steps = 'x'", ":2: limits.max_steps: expected a whole number, got text"),
        ("[limits]\nmax_steps = 0", ":2: limits.max_steps: expected at least 1, got 0"),
        ("[limits]\nmax_steps = 1.5", ":2: limits.max_steps: expected a whole number, got a number"),
        ("[limits]\nmax_steps = true", ":2: limits.max_steps: expected a whole number, got true or false"),
        (f"[limits]\nmax_cost = 1{'0' * 400}", ":2: limits.max_cost: the number is out of range"),
        ("[limits]\nagent_depth = -1", ":2: limits.agent_depth: expected at least 0, got -1"),
        ("[limits]\nmax_cost = nan", ":2: limits.max_cost: expected a finite number"),
        ("[limits]\nmax_cost = -1", ":2: limits.max_cost: expected at least 0, got -1"),
        ("limits = 3", ":1: limits: expected a table, got a whole number"),
        ("[limits]\n\nfirst_token = 5", ":3: limits.first_token: expected a duration such as '90s'"),
        ("approvals.mode = 'aks'", ":1: approvals.mode: unknown value 'aks'; did you mean 'ask'?"),
        ("approvals.allow = 'ls'", ":1: approvals.allow: expected a list, got text"),
        ("approvals.deny = [1]", ":1: approvals.deny: each value in it must be text that is not empty"),
        ("models.large = ''", ":1: models.large: expected text that is not empty"),
        ("providers.anthropic.models.x.images = 1", "images: expected true or false, got a whole number"),
        ("[providers.x]\nwire = 'anthropic'", ":1: providers.x: 'base_url' is missing, and 'x' is not a built-in"),
        ("[providers.'a/b']\nenabled = false", "a name may contain only letters, digits"),
        ("providers = { x = 3 }", ":1: providers.x: expected a table, got a whole number"),
        ("mcp.docs.timeout = '1s'", ":1: mcp.docs: needs either 'command' or 'url'"),
        ("providers.openai.body.when = 2020-01-01", "dates and times are not supported"),
        ("providers.openai.models.x.price.long.input = 1", "'above' is missing"),
        ("a = ", ":1: is not valid TOML"),
    ],
)
def test_a_problem_is_reported_with_file_line_and_key(locations: Locations, text: str, message: str) -> None:
    write(locations.config_file, text)
    error = refused(locations)
    assert f"{locations.config_file}" in error.message
    assert message in error.message
    assert error.detail["file"] == str(locations.config_file)


def test_all_problems_of_a_file_are_reported_at_once(locations: Locations) -> None:
    write(locations.config_file, "[limits]\nmax_step = 1\nmax_steps = 0\n" + "".join(f"x{n} = 1\n" for n in range(30)))
    error = refused(locations)
    assert len(error.detail["problems"]) == 20
    assert error.message.endswith("and 12 more")
    assert error.detail["problems"][1] == {
        "file": str(locations.config_file),
        "line": 3,
        "key": "limits.max_steps",
        "message": "expected at least 1, got 0",
    }


def test_an_invalid_variable_or_flag_is_named(locations: Locations) -> None:
    assert refused(locations, env={"ALL_PROXY": "ftp://nonsense"}).message.startswith(
        "ALL_PROXY: network.proxy: expected"
    )
    error = refused(locations, flags={"approvals.mode": "yolo"})
    assert error.message.startswith("approvals.mode: approvals.mode: unknown value 'yolo'")
    assert "is not a key" in refused(locations, flags={"a..b": 1}).message


def test_the_file_in_holdfast_config_must_exist(locations: Locations, tmp_path: Path) -> None:
    missing = tmp_path / "missing.toml"
    assert "HOLDFAST_CONFIG names it" in refused(locations, env={"HOLDFAST_CONFIG": str(missing)}).message


@contextmanager
def as_unprivileged_user() -> Iterator[None]:
    """Run as a user without special permissions: root can read every file."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(65_534)
    try:
        yield
    finally:
        os.seteuid(0)


def make_directory(path: Path) -> None:
    path.mkdir()


def make_cycle(path: Path) -> None:
    path.symlink_to(path.with_name("other"))
    path.with_name("other").symlink_to(path)


def make_dangling(path: Path) -> None:
    path.symlink_to(path.with_name("nothing"))


def make_pipe(path: Path) -> None:
    os.mkfifo(path)


def make_socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))


def make_huge(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(1 << 34)


def make_latin1(path: Path) -> None:
    path.write_bytes("# fine\nname = 'é'\n".encode("latin-1"))


def make_binary(path: Path) -> None:
    path.write_bytes(bytes(range(256)))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (make_directory, "is a directory"),
        (make_cycle, "cannot be read: Too many levels of symbolic links"),
        (make_dangling, "is a link to a file that does not exist"),
        (make_pipe, "is not a regular file"),
        (make_socket, "cannot be read"),
        (make_huge, "is larger than 1 MiB"),
        (make_latin1, ":2: is not UTF-8"),
        (make_binary, "is not UTF-8"),
    ],
)
def test_a_hostile_file_gets_a_clear_error(locations: Locations, make: Callable[[Path], None], message: str) -> None:
    make(locations.config_file)
    error = refused(locations)
    assert str(locations.config_file) in error.message
    assert message in error.message


def test_an_unreadable_file_gets_a_clear_error(locations: Locations) -> None:
    write(locations.config_file, "limits.max_steps = 1").chmod(0)
    with as_unprivileged_user():
        error = refused(locations)
    assert error.message == f"{locations.config_file}: cannot be read: Permission denied"


def test_a_byte_order_mark_is_ignored(locations: Locations) -> None:
    locations.config_file.write_bytes(b"\xef\xbb\xbflimits.max_steps = 3\r\n")
    assert load(locations).settings.limits.max_steps == 3


def test_a_literal_key_of_the_user_is_used_with_a_warning_that_does_not_show_it(locations: Locations) -> None:
    write(locations.config_file, f'\n[providers.anthropic]\napi_key = "{PLANTED}"\n')
    config = load(locations)
    [warning] = config.warnings
    assert f"{locations.config_file}:3: providers.anthropic.api_key is a key in plain text" in warning
    assert "holdfast key set anthropic" in warning
    assert PLANTED not in f"{config!r} {warning} {value_of(config, 'providers')} {config.settings!r}"
    assert value_of(config, "providers.anthropic.api_key") == "(hidden)"


def test_plain_values_are_text_and_numbers(locations: Locations) -> None:
    write(locations.config_file, '[providers.openai.models."gpt-5.5"]\nname = "Five"\n')
    config = load(locations)
    assert value_of(config, 'providers.openai.models."gpt-5.5".name') == "Five"
    assert value_of(config, "limits")["first_token"] == "2m"


def test_project_files_are_found_through_a_link_and_below_a_git_file(tmp_path: Path) -> None:
    root = tmp_path / "root"
    (root / "a" / "b").mkdir(parents=True)
    (root / ".git").write_text("gitdir: elsewhere")
    (root / ".holdfast").mkdir()
    (root / ".holdfast" / "config.toml").touch()
    (tmp_path / "link").symlink_to(root / "a")
    assert project_files(tmp_path / "link" / "b") == (root / ".holdfast" / "config.toml",)


def test_project_files_come_from_the_root_down(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    directories = [tmp_path, tmp_path / "a", tmp_path / "a" / "b"]
    for directory in directories:
        (directory / ".holdfast").mkdir(parents=True)
        (directory / ".holdfast" / "config.toml").touch()
    assert project_files(directories[-1]) == tuple(directory / ".holdfast" / "config.toml" for directory in directories)
