"""Keys are stored in a private file, fetched from their source and never shown."""

from __future__ import annotations

import asyncio
import os
import stat
import time
from pathlib import Path

import pytest

from holdfast.config import Keyring, Secret, SecretStore
from holdfast.config.secrets import find_source
from holdfast.config.setting_types import KeySource
from holdfast.errors import ConfigError, ModelAuth

PLANTED = "sk-planted-0123456789abcdef"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "data" / "secrets.json"


@pytest.fixture
def store(file: Path) -> SecretStore:
    return SecretStore(file)


def keyring(store: SecretStore, **options: object) -> Keyring:
    options.setdefault("env", {"PATH": os.environ["PATH"]})
    return Keyring(store, **options)  # type: ignore[arg-type]


def source(text: str) -> KeySource:
    return KeySource.from_config(text)


@pytest.mark.promise("W8")
def test_the_key_file_is_private(store: SecretStore, file: Path) -> None:
    store.put("anthropic", Secret(f" {PLANTED}\n"))
    assert store.read() == {"anthropic": Secret(PLANTED)}
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    assert PLANTED not in repr(store.read())


def test_a_key_can_be_replaced_and_removed(store: SecretStore) -> None:
    store.put("a", Secret("one-key"))
    store.put("a", Secret("two-key"))
    store.put("b", Secret("three-key"))
    assert store.remove("a") is True
    assert store.remove("a") is False
    assert store.read() == {"b": Secret("three-key")}


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660, 0o777, 0o610])
def test_a_key_file_that_others_can_read_is_refused_with_the_command_that_fixes_it(
    store: SecretStore, file: Path, mode: int
) -> None:
    store.put("anthropic", Secret(PLANTED))
    file.chmod(mode)
    for use in (store.read, lambda: store.put("b", Secret("x")), lambda: store.remove("anthropic")):
        with pytest.raises(ConfigError, match=f"other users can read it, so it is not used; run 'chmod 600 {file}'"):
            use()
    file.chmod(0o600)
    assert store.read() == {"anthropic": Secret(PLANTED)}


@pytest.mark.parametrize("data", [b"", b"{", b'{"keys": [1]}', f'{{"keys": {{"a": ["{PLANTED}"]}}}}'.encode(), b"\xff"])
def test_a_damaged_key_file_is_named_and_not_shown(store: SecretStore, file: Path, data: bytes) -> None:
    file.parent.mkdir()
    file.write_bytes(data)
    file.chmod(0o600)
    with pytest.raises(ConfigError, match="is damaged") as caught:
        store.read()
    assert PLANTED not in repr(caught.value)


@pytest.mark.parametrize("key", ["", "  \n", "two\nlines", "nul\0", "x" * 70_000, "ключ"])
def test_an_invalid_key_is_not_stored(store: SecretStore, file: Path, key: str) -> None:
    with pytest.raises(ConfigError, match="the key for 'anthropic' cannot be stored") as caught:
        store.put("anthropic", Secret(key))
    assert not key.strip() or key not in caught.value.message
    assert not file.exists()


@pytest.mark.parametrize("name", ["", "a b", "../x", "a/b"])
def test_a_key_needs_a_valid_provider_name(store: SecretStore, name: str) -> None:
    with pytest.raises(ConfigError, match="is not a valid provider name"):
        store.put(name, Secret(PLANTED))


def test_a_failed_write_leaves_the_old_keys(store: SecretStore, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store.put("a", Secret("one-key"))

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(ConfigError, match="cannot be written: No space left on device"):
        store.put("a", Secret("two-key"))
    assert store.read() == {"a": Secret("one-key")}
    assert sorted(path.name for path in file.parent.iterdir()) == ["secrets.json"]


async def test_a_key_is_fetched_from_each_kind_of_source(store: SecretStore, tmp_path: Path) -> None:
    await asyncio.to_thread(store.put, "anthropic", Secret("from-the-store"))
    key_file = tmp_path / "key"
    key_file.write_text("from-the-file\n")
    key_file.chmod(0o600)
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "key").write_text("from-the-home\n")
    (tmp_path / "home" / "key").chmod(0o600)
    ring = keyring(store, env={"PATH": os.environ["PATH"], "MY_KEY": " from-the-env ", "HOME": str(tmp_path / "home")})
    found = {
        text: (await ring.resolve(source(text))).reveal()
        for text in ("env:MY_KEY", f"file:{key_file}", "file:~/key", "cmd:printf 'from-the-%s\\n' cmd", "literal-key")
    }
    assert list(found.values()) == ["from-the-env", "from-the-file", "from-the-home", "from-the-cmd", "literal-key"]
    assert (await ring.resolve(KeySource("stored", "anthropic"))).reveal() == "from-the-store"
    text = " ".join([*found.values(), "from-the-store"])
    assert ring.redactor.redact(text) == " ".join(["[redacted]"] * 6)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("env:NOT_SET", "no key from 'env:NOT_SET': it is empty"),
        ("file:/nowhere/key", "the key file '/nowhere/key' does not exist"),
        ("cmd:exit 3", "the key command 'exit 3' ended with status 3; run it in a shell to see why"),
        ("cmd:true", "it is empty"),
        ("cmd:printf 'two\\nlines'", "a key must be one line of printable ASCII"),
        ("cmd:yes", "a key must be one line"),
        (f"cmd:echo {PLANTED[:5]} >&2; exit 1", "ended with status 1"),
    ],
)
async def test_the_error_for_a_missing_key_says_what_to_do(store: SecretStore, text: str, message: str) -> None:
    with pytest.raises(ModelAuth) as caught:
        await keyring(store).resolve(source(text))
    assert message in caught.value.message
    assert caught.value.code == "auth"


async def test_the_error_of_a_failed_key_command_does_not_show_its_output(store: SecretStore, tmp_path: Path) -> None:
    script = tmp_path / "script"
    script.write_text(f"echo {PLANTED}; echo {PLANTED} >&2; exit 1")
    with pytest.raises(ModelAuth) as caught:
        await keyring(store).resolve(source(f"cmd:sh {script}"))
    assert PLANTED not in f"{caught.value!r} {caught.value.detail} {caught.value.__cause__} {caught.value.__context__}"


async def test_a_key_command_that_hangs_is_killed_with_its_children(store: SecretStore, tmp_path: Path) -> None:
    pid_file = tmp_path / "pid"
    command = f"sleep 600 & echo $! > {pid_file}.new; mv {pid_file}.new {pid_file}; wait"
    for seconds in (0.2, 2, 20):  # on a busy machine the command may be killed before it has begun
        with pytest.raises(ModelAuth, match=rf"took longer than {seconds:g} s"):
            await keyring(store, command_timeout=seconds).resolve(source(f"cmd:{command}"))
        if pid_file.exists():
            break
    await gone(int(pid_file.read_text()))


async def test_a_key_command_ends_when_its_caller_is_cancelled(store: SecretStore, tmp_path: Path) -> None:
    pid_file = tmp_path / "pid"
    os.mkfifo(pid_file)
    task = asyncio.create_task(keyring(store).resolve(source(f"cmd:echo $$ > {pid_file}; exec sleep 600")))
    pid = int(await asyncio.to_thread(pid_file.read_text))
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await gone(pid)


async def gone(pid: int) -> None:
    """Wait until a killed process is no more; the test's time-out is the limit."""
    while True:
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except (FileNotFoundError, ProcessLookupError):
            return
        if state in "ZX":
            return
        await asyncio.to_thread(time.sleep, 0.01)


async def test_a_key_command_runs_once_until_its_key_is_refused(store: SecretStore, tmp_path: Path) -> None:
    counter = tmp_path / "count"
    command = source(f"cmd:echo x >> {counter}; echo key-$(wc -l < {counter})-long")
    ring = keyring(store)
    assert [(await ring.resolve(command)).reveal() for _ in range(2)] == ["key-1-long"] * 2
    ring.forget(command)
    assert (await ring.resolve(command)).reveal() == "key-2-long"
    assert ring.redactor.redact("key-1-long key-2-long") == "[redacted] [redacted]"


async def test_stored_keys_are_redacted_before_any_is_used(store: SecretStore) -> None:
    await asyncio.to_thread(store.put, "openai", Secret(PLANTED))
    ring = keyring(store)
    assert await ring.stored_names() == {"openai"}
    assert ring.redactor.redact(PLANTED) == "[redacted]"


async def test_a_file_named_as_key_source_must_be_private_too(store: SecretStore, tmp_path: Path) -> None:
    key_file = tmp_path / "key"
    key_file.write_text(PLANTED)
    key_file.chmod(0o644)
    with pytest.raises(ConfigError, match="other users can read it"):
        await keyring(store).resolve(source(f"file:{key_file}"))


def test_a_configured_source_precedes_the_usual_variable_and_that_precedes_the_stored_key() -> None:
    def where(configured: str | None, env: dict[str, str], stored: set[str]) -> str | None:
        found = find_source(
            source(configured) if configured else None, name="p", variables=("A", "B"), env=env, stored=stored
        )
        return found.to_config() if found else None

    assert where("env:C", {"A": "x", "C": "y"}, {"p"}) == "env:C"
    assert where("env:C", {"A": "x"}, {"p"}) is None
    assert where(None, {"B": "x"}, {"p"}) == "env:B"
    assert where(None, {"A": " "}, {"p"}) == "stored:p"
    assert where(None, {}, set()) is None
    assert where("cmd:x", {}, set()) == "cmd:x"
