"""Answers that reach the output limit or are empty, and the last answer at a limit of the run, on each wire."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from holdfast.schema.events import RunRetrying
from holdfast.schema.messages import Finish, Message
from holdfast.schema.runs import Limits
from holdfast.testing import Answer, Call, Hang, RawBytes, ReceivedRequest, Say, Think, WireName, text
from tests.support.wire_server import asked, conversation, each_wire, model, results, script, server, spoken

LENGTH = {
    "openai-chat": "length",
    "openai-responses": "max_output_tokens",
    "anthropic": "max_tokens",
    "gemini": "MAX_TOKENS",
}
CONTINUE = (
    "<reminder>\nYour answer above reached the output limit and is cut off. Unless something else is asked below, "
    "continue exactly where it stops: no introduction, and nothing that is already there.\n</reminder>"
)


def calls_are_forbidden(received: ReceivedRequest) -> bool:
    """Whether a request offers tools but allows no call."""
    body = received.body
    assert body["tools"]
    match received.wire:
        case "openai-chat" | "openai-responses":
            return bool(body.get("tool_choice") == "none")
        case "anthropic":
            return bool(body.get("tool_choice") == {"type": "none"})
        case "gemini":
            return bool(body.get("toolConfig") == {"functionCallingConfig": {"mode": "NONE"}})


def finishes(messages: tuple[Message, ...]) -> list[str]:
    return [part.reason for message in messages for part in message.parts if isinstance(part, Finish)]


@each_wire
@pytest.mark.promise("R12")
async def test_a_text_at_the_output_limit_is_continued(tmp_path: Path, wire: WireName) -> None:
    async with server(tmp_path, wire) as (harness, provider):
        script(provider, Answer((Say("It is a long st"),), finish=LENGTH[wire]), text("ory, but it ends."))
        run = await harness.run("tell me", model=model(wire))
        assert (run.state, run.reason, run.text) == ("completed", "end_turn", "It is a long story, but it ends.")
        assert conversation((await asked(provider, 2))[1]) == spoken(
            wire, ("user", "tell me"), ("assistant", "It is a long st"), ("user", CONTINUE)
        )
        assert finishes(await harness.messages(run.session_id)) == ["max_tokens", "end_turn"]
        await harness.run("thanks", model=model(wire), session_id=run.session_id)
        assert conversation((await asked(provider, 3))[2])[-1] == spoken(wire, ("user", "thanks"))[0]


@pytest.mark.promise("R12")
async def test_answers_that_reach_the_output_limit_again_and_again_fail(tmp_path: Path) -> None:
    async with server(tmp_path, "anthropic") as (harness, provider):
        script(provider, *[Answer((Say("bla "),), finish="max_tokens")] * 20)
        run = await harness.run("tell me", model=model("anthropic"))
        assert (run.state, run.reason, run.steps) == ("failed", "max_tokens", 6)
        assert run.text == "bla " * 6
        assert run.error is not None
        assert run.error.message == "6 answers in a row reached the model's output limit; the last one is cut off"


@pytest.mark.parametrize("wire", ["openai-chat", "openai-responses", "anthropic"])  # on the other, calls arrive whole
@pytest.mark.promise("R12")
async def test_a_cut_call_is_answered_and_not_run(tmp_path: Path, wire: WireName) -> None:
    async with server(tmp_path, wire) as (harness, provider):
        cut = Call("write", raw='{"path": "made.txt", "content": "first li')
        whole = Call("write", {"path": "other.txt", "content": "x"})
        script(provider, Answer((whole, cut), finish=LENGTH[wire]), text("In parts, then."))
        run = await harness.run("write it", model=model(wire), mode="auto")
        assert (run.state, run.text, run.steps) == ("completed", "In parts, then.", 2)
        wrote, refused = results(await harness.messages(run.session_id))
        assert (wrote.status, refused.status) == ("ok", "error")
        assert refused.text == (
            "Not run: your answer reached the output limit, so the arguments of this call are cut off. Send it in "
            "smaller parts, for example the first part of a file with write, and the rest with several edits."
        )
        assert not (harness.directory / "made.txt").exists()
        assert (harness.directory / "other.txt").read_text() == "x"
        assert "cut off. Send it in smaller parts" in json.dumps((await asked(provider, 2))[1].body)


async def test_a_call_cut_before_its_arguments_is_not_run(tmp_path: Path) -> None:
    async with server(tmp_path, "openai-chat") as (harness, provider):
        script(provider, Answer((Call("ls", raw=""),), finish="length"), text("done"))
        run = await harness.run("go", model=model("openai-chat"))
        (result,) = results(await harness.messages(run.session_id))
        assert (run.state, result.status) == ("completed", "error")
        assert "reached the output limit" in result.text


async def test_reasoning_that_reaches_the_output_limit_is_asked_to_be_brief(tmp_path: Path) -> None:
    async with server(tmp_path, "anthropic") as (harness, provider):
        script(provider, Answer((Think("hm" * 20),), finish="max_tokens"), text("42"))
        run = await harness.run("why", model=model("anthropic"))
        assert (run.state, run.text) == ("completed", "42")
        brief = "Your last answer reached the output limit before it said anything. Think less and answer briefly."
        assert conversation((await asked(provider, 2))[1]) == spoken(
            "anthropic", ("user", "why"), ("user", f"<reminder>\n{brief}\n</reminder>")
        )


@each_wire
@pytest.mark.promise("R12", "R13")
async def test_an_empty_answer_is_retried(tmp_path: Path, wire: WireName) -> None:
    async with server(tmp_path, wire) as (harness, provider):
        script(provider, Answer(()), text("here"))
        run = await harness.run("go", model=model(wire))
        assert (run.state, run.text, run.steps) == ("completed", "here", 1)
        retries = [event for event in await harness.events() if isinstance(event, RunRetrying)]
        assert [(event.attempt, event.cause) for event in retries] == [(1, "empty_answer")]
        again = "Your answer was empty. Go on with the task; if it is done, say so and what the result is."
        assert conversation((await asked(provider, 2))[1]) == spoken(
            wire, ("user", "go"), ("user", f"<reminder>\n{again}\n</reminder>")
        )


@pytest.mark.promise("R12", "R13")
async def test_answers_that_stay_empty_fail(tmp_path: Path) -> None:
    async with server(tmp_path, "openai-chat") as (harness, provider):
        script(provider, *[Answer((Say(" "),))] * 5)
        run = await harness.run("go", model=model("openai-chat"))
        assert (run.state, run.reason, run.text) == ("failed", "provider", " ")
        assert run.error is not None
        assert (run.error.code, run.error.message) == (
            "empty_answer",
            "the answer of 'test-openai-chat/m' is empty",
        )
        assert len(await asked(provider, 3)) == 3


@each_wire
@pytest.mark.promise("R12")
async def test_at_the_step_limit_the_model_says_where_things_stand(tmp_path: Path, wire: WireName) -> None:
    async with server(tmp_path, wire) as (harness, provider):
        script(provider, Answer((Say("I look."), Call("ls", {}))), text("I have listed the files; the rest is open."))
        run = await harness.run("go", model=model(wire), limits=Limits(max_steps=1))
        assert (run.state, run.reason, run.steps) == ("failed", "limit_steps", 1)
        assert run.text == "I have listed the files; the rest is open."
        assert run.usage.input == 200, "the tokens of the last answer are counted"
        assert run.error is not None
        assert run.error.message == "the run took 1 steps, the limit is 1"
        first, last = await asked(provider, 2)
        assert calls_are_forbidden(last)
        assert not calls_are_forbidden(first)
        words = (
            "<reminder>\nThe run ends now: the run took 1 steps, the limit is 1. No tool can be called any more. "
            "Say in a few sentences what is done, what is not, and what the next step would be.\n</reminder>"
        )
        assert json.dumps(words)[1:-1] in json.dumps(conversation(last)[-1])
        messages = await harness.messages(run.session_id)
        assert finishes(messages) == ["tool_use", "limit"]
        assert run.message_id == messages[-1].id
        again = await harness.run("go on", model=model(wire), session_id=run.session_id)
        assert again.state == "completed"


@pytest.mark.promise("R12")
async def test_calls_in_the_last_answer_are_not_run(tmp_path: Path) -> None:
    async with server(tmp_path, "anthropic") as (harness, provider):
        write = Call("write", {"path": "made", "content": "x"})
        script(provider, Answer((Say("First"), Call("ls", {}))), Answer((Say("More to do."), write)))
        run = await harness.run("go", model=model("anthropic"), mode="auto", limits=Limits(max_steps=1))
        assert (run.reason, run.text, run.steps) == ("limit_steps", "More to do.", 1)
        assert not (harness.directory / "made").exists()
        assert len(results(await harness.messages(run.session_id))) == 1


@pytest.mark.promise("R12")
async def test_there_is_no_last_answer_at_the_cost_limit(tmp_path: Path) -> None:
    async with server(tmp_path, "anthropic") as (harness, provider):
        script(provider, Answer((Call("ls", {}),)))
        run = await harness.run("go", model=model("anthropic"), limits=Limits(max_cost=0.0001))
        assert run.reason == "limit_cost"
        assert len(await asked(provider, 1)) == 1


@pytest.mark.promise("R12")
async def test_a_last_answer_that_fails_or_takes_too_long_changes_nothing(tmp_path: Path) -> None:
    config = '[limits]\nlast_answer = "50ms"\n'
    async with server(tmp_path, "anthropic", config_head=config) as (harness, provider):
        for last in (Answer((Say("I was"), Hang())), Answer(status=400), Answer(hang_first=True)):
            script(provider, Answer((Say("I look."), Call("ls", {}))), last)
            run = await harness.run("go", model=model("anthropic"), limits=Limits(max_steps=1))
            assert (run.state, run.reason, run.steps) == ("failed", "limit_steps", 1)
            assert run.text in ("I look.", "I was")
            assert run.error is not None
            assert "the limit is 1" in run.error.message
            assert finishes(await harness.messages(run.session_id)) == ["tool_use", "limit"]


DEEP = "[" * 100_000 + "]" * 100_000


@each_wire
async def test_arguments_nested_100_000_deep_go_back_to_the_model(tmp_path: Path, wire: WireName) -> None:
    async with server(tmp_path, wire) as (harness, provider):
        deep = Call("write", raw=f'{{"path": "made", "content": {DEEP}}}', chunk=50_000)
        if wire == "gemini":
            event = b'data: {"candidates": [{"index": 0, "content": {"role": "model", "parts": [{"functionCall": '
            event += b'{"name": "write", "args": {"path": "made", "content": %b}}}]}}]}\n\n' % DEEP.encode()
            script(provider, Answer((RawBytes(event),)), text("I see."))
        else:
            script(provider, Answer((deep,)), text("I see."))
        run = await harness.run("go", model=model(wire), mode="auto")
        assert (run.state, run.text, run.steps) == ("completed", "I see.", 2)
        (result,) = results(await harness.messages(run.session_id))
        assert result.status == "error"
        assert "'write' are not" in result.text or "invalid arguments" in result.text
        assert len(json.dumps((await asked(provider, 2))[1].body)) < 100_000


@each_wire
@pytest.mark.promise("R12")
async def test_a_model_that_goes_round_in_circles_is_told_before_the_run_ends(tmp_path: Path, wire: WireName) -> None:
    async with server(tmp_path, wire) as (harness, provider):
        script(provider, *[Answer((Call("ls", {}),))] * 4, text("I was lost."))
        run = await harness.run("go", model=model(wire))
        assert (run.state, run.text, run.steps) == ("completed", "I was lost.", 5)
        told = (
            "You are going round in circles: the last 3 steps repeat earlier calls (ls) with the same arguments and "
            "results. Try another way, or say what you need. If this goes on, the run ends."
        )
        sent = [json.dumps(conversation(one)) for one in await asked(provider, 5)]
        assert [told in body for body in sent] == [False, False, False, False, True]
