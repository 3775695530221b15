"""Every example of docs/sdk.md is a file below examples/. Each one runs on a real server with a scripted provider, and
so does the example of the README."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from holdfast.testing import Answer, Call, ReceivedRequest, Say, TestProvider, TokenCounts, calls, text
from tests.support.background_server import BackgroundServer, serve_in_background

ROOT = Path(__file__).parents[2]
DOC = ROOT / "docs" / "sdk.md"
EXAMPLES = {path.name: path for path in sorted((ROOT / "examples").glob("*.py"))}
PRICE = {"input": 1.0, "output": 1.0}

ANSWERS: dict[str, Answer] = {
    "What does this project do": text("It holds fast."),
    "Review the uncommitted changes": text('{"findings": [{"file": "a.py", "line": 3, "problem": "divides by zero"}]}'),
    "Describe": Answer(pieces=(Say("A file."),), usage=TokenCounts(input=100_000, output=0)),
    "List the modules": text('[{"path": "a.py", "purpose": "It adds.", "risk": 4}]'),
    "Explain how": text("With pytest, of course."),
    "Summarize what changed": text("Nothing much."),
    "watch me": text("You are seen."),
    "ping": text("pong"),
}


def respond(received: ReceivedRequest) -> Answer:
    messages: list[dict[str, Any]] = received.body["messages"]
    prompt = str(next(message["content"] for message in reversed(messages) if message["role"] == "user"))
    results = [str(message["content"]) for message in messages if message["role"] == "tool"]
    if "Give this coding task a title" in str(messages[0]):
        return text("A title")
    if "Do we have anchors" in prompt:
        return text(f"Yes, {results[-1]}.") if results else calls(Call("stock", {"item": "anchor"}))
    if "which ticket of team core" in prompt:
        return text(f'["{results[-1][2:6]}"]') if results else calls(Call("open_tickets", {"team": "core"}))
    if "Run the tests" in prompt:
        commands = ["python -m unittest --help", "git commit -m x"]
        if len(results) < len(commands):
            return calls(Call("bash", {"command": commands[len(results)]}))
        return text("I ran the tests." if "Only the tests" in results[-1] else "I committed.")
    return next((answer for start, answer in ANSWERS.items() if start in prompt), text("?"))


class Programs:
    """Runs the examples in the directory of the server."""

    def __init__(self, background: BackgroundServer) -> None:
        self.background = background
        server = background.server
        self.work = server.work
        self.env = {**os.environ, "HOLDFAST_SERVER": f"unix:{server.app.shared.locations.socket}"}

    def command(self, name: str, *arguments: str) -> list[str]:
        return [sys.executable, str(EXAMPLES[name]), *arguments]

    def run(self, name: str, *arguments: str, status: int = 0, stdin: str = "") -> list[str]:
        return self.run_command(self.command(name, *arguments), status=status, stdin=stdin)

    def run_command(self, command: list[str], *, status: int = 0, stdin: str = "") -> list[str]:
        done = subprocess.run(
            command,
            capture_output=True,
            check=False,
            cwd=self.work,
            env=self.env,
            input=stdin,
            text=True,
            timeout=50,
        )
        assert (done.returncode, done.stderr) == (status, "")
        return done.stdout.splitlines()


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Programs]:
    directory = tmp_path_factory.mktemp("sdk")
    with serve_in_background(directory, lambda: TestProvider(respond)) as background:
        found = Programs(background)
        server = background.server
        changes = {"providers.test.models.test-model.price": PRICE}
        target = f"/v1/workspaces/{server.workspace_id}/config"
        background.do(server.http.send("PATCH", target, {"changes": changes})).ok()
        yield found


def test_the_document_has_every_example_as_it_is_in_its_file() -> None:
    blocks = dict(
        re.findall(r"^```python\n# examples/(\w+\.py)\n(.*?)^```$", DOC.read_text(), re.MULTILINE | re.DOTALL)
    )
    assert sorted(blocks) == sorted(EXAMPLES)
    for name, shown in blocks.items():
        assert shown == EXAMPLES[name].read_text(), name


def test_the_example_in_the_readme(programs: Programs) -> None:
    (program,) = re.findall(r"^```python\n(.*?)^```$", (ROOT / "README.md").read_text(), re.MULTILINE | re.DOTALL)
    assert programs.run_command([sys.executable, "-c", program]) == ["['T-17']"]


def test_script(programs: Programs) -> None:
    assert programs.run("script.py") == ["It holds fast."]


def test_a_check_fails_on_findings(programs: Programs) -> None:
    assert programs.run("ci_check.py", status=1) == ["a.py:3: divides by zero"]


def test_a_batch_stays_in_its_budget(programs: Programs) -> None:
    names = [f"file{number}.py" for number in range(50)]
    *lines, last = programs.run("batch.py", *names)
    assert [line.partition(":")[0] for line in lines] == names
    done = [line for line in lines if line.endswith("A file.")]
    assert 19 <= len(done) < 50  # 0.1 dollars each, of 2
    assert set(lines) - set(done) <= {f"{name}: skipped, the budget is used up" for name in names} | {
        f"{name}: limit_cost" for name in names
    }
    assert re.fullmatch(r"50 files, [12]\.\d{4} of 2.0 dollars", last)


def test_a_relay_has_one_session_per_channel(programs: Programs) -> None:
    lines = programs.run("relay.py", stdin="#a: ping\n#b: ping\n#c: stop\n")
    assert sorted(lines) == ["#a> pong", "#b> pong", "#c> cancelled 0 run(s)"]


def test_a_policy_allows_tests_and_nothing_else(programs: Programs) -> None:
    lines = programs.run("approval_policy.py")
    assert lines == [
        "asked: bash: python -m unittest --help",
        "asked: bash: git commit -m x",
        "I ran the tests.",
    ]


@pytest.mark.promise("R3")
def test_a_program_that_was_killed_gets_the_same_run_again(programs: Programs) -> None:
    process = subprocess.Popen(
        programs.command("resume.py", "nightly-7"),
        stdout=subprocess.PIPE,
        cwd=programs.work,
        env=programs.env,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "following nightly-7\n"
    process.kill()
    process.communicate()
    for _ in range(2):
        assert programs.run("resume.py", "nightly-7") == ["following nightly-7", "Nothing much."]
    sent = [request for request in programs.background.server.provider.requests if "Summarize" in str(request.body)]
    assert len([request for request in sent if "tools" in request.body]) == 1


def test_a_typed_answer(programs: Programs) -> None:
    assert programs.run("typed_answer.py") == ["4 a.py: It adds."]


@pytest.mark.promise("W13")
def test_a_tool_in_python(programs: Programs) -> None:
    assert programs.run("python_tool.py") == ["looking up anchor in main", "Yes, 3."]


def test_streaming_to_a_terminal(programs: Programs) -> None:
    assert programs.run("streaming.py") == ["With pytest, of course."]


def test_watching_a_session_of_others(programs: Programs) -> None:
    do, server = programs.background.do, programs.background.server
    session_id = do(server.session())
    stream = do(server.http.open_stream("/v1/events"))
    process = subprocess.Popen(
        programs.command("watching.py", session_id),
        stdout=subprocess.PIPE,
        cwd=programs.work,
        env=programs.env,
        text=True,
    )
    while do(stream.until("client.attached")).get("session_id") != session_id:
        pass
    do(stream.close())
    do(server.prompt(session_id, "watch me"))
    printed, _ = process.communicate(timeout=50)
    assert printed.splitlines() == ["test/1 cli_test asks: watch me", "completed: You are seen."]
