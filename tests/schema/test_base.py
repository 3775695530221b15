"""Encoding, unknown values and the repair of text."""

import subprocess
import sys

from hypothesis import example, given

from holdfast.schema.base import encode, repair_text
from holdfast.schema.messages import Text, read_parts
from tests.schema.strategies import any_texts, texts


@given(text=any_texts)
@example("\ud800")
@example("\udc00\ud800")
@example("\ud83d\ud83d\ude00")
def test_repaired_text_can_be_encoded_and_decoded(text: str) -> None:
    clean = repair_text(text)
    assert read_parts(encode((Text(clean),))) == (Text(clean),)
    assert repair_text(clean) == clean


@given(text=texts)
def test_valid_text_is_not_changed(text: str) -> None:
    assert repair_text(text) is text


def test_a_split_surrogate_pair_is_joined() -> None:
    assert repair_text("a" + "\ud83d" + "\ude00" + "b") == "a😀b"


def test_each_lone_surrogate_is_replaced_and_nothing_else_is_lost() -> None:
    assert repair_text("a\ud83db\ude00c") == "a\ufffdb\ufffdc"


@given(head=texts, tail=texts)
def test_the_text_around_a_lone_surrogate_is_kept(head: str, tail: str) -> None:
    assert repair_text(f"{head}\ud83d{tail}") == f"{head}\ufffd{tail}"


_DECODE_AT_ONCE = """
import os, sys, threading
from holdfast.schema.messages import Message, read_message
from holdfast.schema.base import encode
sys.setswitchinterval(1e-6)
raw = encode(Message(id="msg_1", session_id="ses_1", run_id="run_1", role="user", seq=1, created_at="now"))

def decode_at_once():
    barrier = threading.Barrier(4)
    def decode():
        barrier.wait()
        read_message(raw)
    threads = [threading.Thread(target=decode) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

for _ in range(30):
    child = os.fork()
    if child == 0:
        decode_at_once()
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
"""


def test_threads_that_decode_a_first_value_at_the_same_time_do_not_crash() -> None:
    subprocess.run([sys.executable, "-c", _DECODE_AT_ONCE], check=True, timeout=50)
