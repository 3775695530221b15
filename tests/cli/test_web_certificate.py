"""Certificates that are made here: what they are for, and when they are kept."""

import ssl
import stat
from pathlib import Path

import pytest

from holdfast.cli.exit_status import CommandError
from holdfast.cli.web_certificate import given_certificate, own_certificate


def test_a_certificate_is_made_once_per_address_and_is_private(tmp_path: Path) -> None:
    made = own_certificate(tmp_path / "state", "192.0.2.7")
    first = Path(made.certificate).read_bytes()
    assert stat.S_IMODE(Path(made.key).stat().st_mode) == 0o600
    assert "localhost" in made.names
    ssl.create_default_context(ssl.Purpose.CLIENT_AUTH).load_cert_chain(made.certificate, made.key)
    assert own_certificate(tmp_path / "state", "192.0.2.7") == made
    assert Path(made.certificate).read_bytes() == first
    own_certificate(tmp_path / "state", "192.0.2.8")
    assert Path(made.certificate).read_bytes() != first
    given = given_certificate(made.certificate, made.key)
    assert set(given.names) == set(made.names)


def test_a_key_that_others_can_read_and_a_broken_file_are_replaced(tmp_path: Path) -> None:
    made = own_certificate(tmp_path, "127.0.0.1")
    for spoil in (lambda: Path(made.key).chmod(0o644), lambda: Path(made.certificate).write_text("broken")):
        before = Path(made.key).read_bytes()
        spoil()
        own_certificate(tmp_path, "127.0.0.1")
        assert Path(made.key).read_bytes() != before
        assert stat.S_IMODE(Path(made.key).stat().st_mode) == 0o600


def test_files_that_are_no_certificates_are_refused(tmp_path: Path) -> None:
    (tmp_path / "text.pem").write_text("no certificate")
    for name in ("text.pem", "missing.pem"):
        with pytest.raises(CommandError, match="not a certificate"):
            given_certificate(str(tmp_path / name), str(tmp_path / "key.pem"))
