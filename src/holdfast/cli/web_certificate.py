"""Certificates for the shared web page: one that is made here and kept, or one that the user gives.

Needs `cryptography`, which the extra ``holdfast[web]`` installs. Only `holdfast web --share` imports it.
"""

from __future__ import annotations

import ipaddress
import os
import socket
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.cli.exit_status import CommandError, Exit
from holdfast.files import write_atomic
from holdfast.schema.base import Value

if TYPE_CHECKING:
    from cryptography import x509

_DAYS = 365
_RENEW_DAYS = 30
"""A certificate is made anew when it is valid for less than this."""


class WebCertificate(Value, frozen=True):
    certificate: str
    """The path of the file."""
    key: str
    names: tuple[str, ...]
    """The host names that it is for."""


def own_certificate(directory: Path, address: str) -> WebCertificate:
    """The certificate that was made for this address before, or a new one. Blocks."""
    certificate, key = directory / "web-certificate.pem", directory / "web-key.pem"
    names = _own_names()
    if not _is_usable(certificate, key, address=address, names=names):
        try:
            directory.mkdir(parents=True, exist_ok=True, mode=0o700)
            made, private = _make(address, names)
            write_atomic(key, private, mode=0o600)
            write_atomic(certificate, made, mode=0o600)
        except OSError as error:
            raise CommandError(
                f"the certificate cannot be written to {str(directory)!r}: {error.strerror or error}",
                advice="free some space, or give one with --certificate and --key",
                status=Exit.FAILED,
            ) from None
    return WebCertificate(str(certificate), str(key), names)


def given_certificate(certificate: str, key: str) -> WebCertificate:
    """The user's own certificate, with the host names in it."""
    try:
        found = _load(Path(certificate))
    except (OSError, ValueError) as error:
        raise CommandError(
            f"{certificate!r} is not a certificate that can be read: {error}",
            advice="give a PEM file, with the chain after it if there is one",
            status=Exit.USAGE,
        ) from None
    return WebCertificate(os.path.abspath(certificate), os.path.abspath(key), _names_of(found))


def primary_address() -> str:
    """The address of this machine by which others on the network reach it. Sends nothing."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))  # an address for documentation; nothing is sent
            found = str(probe.getsockname()[0])
        except OSError:
            found = "127.0.0.1"
    if ipaddress.ip_address(found).is_loopback:
        raise CommandError(
            "this machine has no network address",
            advice="connect it to a network, or name an address with --listen HOST:PORT",
            status=Exit.FAILED,
        )
    return found


def require_cryptography() -> None:
    from importlib.util import find_spec

    if find_spec("cryptography") is None:
        raise CommandError(
            "sharing the page needs the library 'cryptography'",
            advice="install it with: pip install 'holdfast[web]'",
            status=Exit.CONFIGURATION,
        )


def _own_names() -> tuple[str, ...]:
    """``localhost`` and the name of this machine, as it is and in the local network."""
    name = socket.gethostname().lower().partition(".")[0]
    is_plain = bool(name) and all(part.isalnum() and part.isascii() for part in name.split("-"))
    return ("localhost", name, f"{name}.local") if is_plain else ("localhost",)


def _is_usable(certificate: Path, key: Path, *, address: str, names: tuple[str, ...]) -> bool:
    from cryptography import x509

    try:
        found = _load(certificate)
        alternatives = found.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        private = key.stat().st_mode & 0o077 == 0 and key.stat().st_uid == os.geteuid()
    except (OSError, ValueError, x509.ExtensionNotFound):
        return False
    addresses = {str(one) for one in alternatives.get_values_for_type(x509.IPAddress)}
    remains = found.not_valid_after_utc - datetime.now(UTC)
    return private and address in addresses and set(names) <= set(_names_of(found)) and remains.days > _RENEW_DAYS


def _load(path: Path) -> x509.Certificate:
    from cryptography import x509

    return x509.load_pem_x509_certificate(path.read_bytes())


def _names_of(certificate: x509.Certificate) -> tuple[str, ...]:
    """The host names, without patterns: a pattern would let any name in."""
    from cryptography import x509

    try:
        alternatives = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return ()
    return tuple(name.lower() for name in alternatives.get_values_for_type(x509.DNSName) if "*" not in name)


def _make(address: str, names: tuple[str, ...]) -> tuple[bytes, bytes]:
    """A certificate that is its own authority for no other one, and its key, both as PEM."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "Holdfast")])
    now = datetime.now(UTC)
    addresses = dict.fromkeys((address, "127.0.0.1", "::1"))
    alternatives = [
        *(x509.IPAddress(ipaddress.ip_address(one)) for one in addresses),
        *(x509.DNSName(name) for name in names),
    ]
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(days=_DAYS))
        .add_extension(x509.SubjectAlternativeName(alternatives), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .sign(key, hashes.SHA256())
    )
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return certificate.public_bytes(serialization.Encoding.PEM), private
