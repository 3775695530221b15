"""Hashes are those of hashlib for data of any size, without OpenSSL for small ones."""

import hashlib
import subprocess
import sys

import pytest

from holdfast.digests import are_equal_secrets, sha256_hex


@pytest.mark.parametrize("size", [0, 1, 63, 64, 1000, 16_383, 16_384, 100_000])
def test_a_hash_is_the_same_as_that_of_hashlib(size: int) -> None:
    data = bytes(number % 251 for number in range(size))
    assert sha256_hex(data) == hashlib.sha256(data).hexdigest()


def test_secrets_are_equal_or_not() -> None:
    assert are_equal_secrets(b"secret", b"secret")
    assert not are_equal_secrets(b"secret", b"secreT")
    assert not are_equal_secrets(b"secret", b"secrets")
    assert not are_equal_secrets(b"", b"s")


def test_small_data_and_comparisons_need_no_openssl() -> None:
    program = (
        "import sys\n"
        "from holdfast.digests import are_equal_secrets, sha256_hex\n"
        "print(sha256_hex(b'x' * 1000)[:4], are_equal_secrets(b'x', b'y'), '_hashlib' in sys.modules)\n"
    )
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert ran.stdout == f"{sha256_hex(b'x' * 1000)[:4]} False False\n"
