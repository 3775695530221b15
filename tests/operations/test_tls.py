"""Encrypted connections to the database: what is checked, and what a failed check says."""

import asyncio
import datetime
import ipaddress
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from holdfast.errors import StoreUnreachable
from holdfast.store.postgres import open_postgres_store
from tests.e2e.server import free_port
from tests.store.batches import new_workspace
from tests.support.operated_programs import debian_postgres
from tests.support.postgres_cluster import PostgresCluster

pytestmark = pytest.mark.timeout(60)


class Authority:
    """Signs certificates, and writes them as files."""

    def __init__(self, directory: Path, name: str) -> None:
        self._directory = directory
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        self.file = directory / f"{name}.crt"
        certificate = self._build(self._name, self._key, days=365, is_ca=True, names=())
        self.file.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))

    def sign(self, file: str, *, common_name: str, names: tuple[str, ...] = (), days: int = 365) -> tuple[Path, Path]:
        """The files of a certificate and its key. ``days``: how long it is good; negative if it has expired."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])
        certificate = self._build(subject, key, days=days, is_ca=False, names=names)
        paths = self._directory / f"{file}.crt", self._directory / f"{file}.key"
        paths[0].write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
        paths[1].write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
            )
        )
        paths[1].chmod(0o600)
        return paths

    def _build(
        self, subject: x509.Name, key: ec.EllipticCurvePrivateKey, *, days: int, is_ca: bool, names: tuple[str, ...]
    ) -> x509.Certificate:
        now = datetime.datetime.now(datetime.UTC)
        builder = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(days=30))
            .not_valid_after(now + datetime.timedelta(days=days))
            .add_extension(x509.BasicConstraints(ca=is_ca, path_length=None), critical=True)
        )
        if names:
            found = [
                x509.IPAddress(ipaddress.ip_address(one)) if one[0].isdigit() else x509.DNSName(one) for one in names
            ]
            builder = builder.add_extension(x509.SubjectAlternativeName(found), critical=False)
        return builder.sign(self._key, hashes.SHA256())


class TlsCluster(PostgresCluster):
    """Takes only encrypted TCP connections."""

    def __init__(self) -> None:
        super().__init__(
            binaries=debian_postgres(),
            port=free_port(),
            hba=(
                "hostssl all by_certificate 127.0.0.1/32 cert",
                "hostssl all all 127.0.0.1/32 trust",
                "hostnossl all all all reject",
            ),
        )

    def use(self, certificate: tuple[Path, Path], *, authority: Path) -> None:
        """Serve this certificate from now on, and let the authority vouch for clients."""
        files = {"ssl_cert_file": certificate[0], "ssl_key_file": certificate[1], "ssl_ca_file": authority}
        owner = self.data.stat()
        for setting, file in files.items():
            copy = self.data / f"{setting}.pem"
            shutil.copy(file, copy)
            copy.chmod(0o600)
            os.chown(copy, owner.st_uid, owner.st_gid)
            self.admin(f"ALTER SYSTEM SET {setting} = '{copy}'")
        self.admin("ALTER SYSTEM SET ssl = on")
        self.kill()
        self.start()

    def address(self, **options: object) -> str:
        given = {"user": "holdfast", "sslmode": "verify-full", "connect_timeout": 5} | options
        return psycopg.conninfo.make_conninfo(host="127.0.0.1", port=self.port, dbname="holdfast", **given)


@pytest.fixture(scope="module")
def tls() -> Iterator[TlsCluster]:
    cluster = TlsCluster()
    cluster.admin("CREATE ROLE holdfast LOGIN")
    cluster.admin("CREATE ROLE by_certificate LOGIN IN ROLE holdfast")
    cluster.admin("CREATE DATABASE holdfast OWNER holdfast")
    yield cluster
    cluster.stop()


@pytest.fixture
def ours(tmp_path: Path) -> Authority:
    return Authority(tmp_path, "ours")


async def _refusal(address: str, home: Path) -> str:
    with pytest.raises(StoreUnreachable) as refused:
        await open_postgres_store(address, home=home)
    assert "the encrypted connection cannot be made: check sslmode, sslrootcert" in refused.value.message
    return refused.value.message


async def test_a_certificate_is_checked_and_there_is_no_way_around_it(
    tls: TlsCluster, ours: Authority, tmp_path: Path
) -> None:
    good = ours.sign("good", common_name="db", names=("127.0.0.1",))
    await asyncio.to_thread(tls.use, good, authority=ours.file)
    store = await open_postgres_store(tls.address(sslrootcert=ours.file), home=tmp_path)
    await store.commit(new_workspace())
    encrypted = await asyncio.to_thread(
        tls.admin,
        "SELECT count(*) FROM pg_stat_ssl JOIN pg_stat_activity USING (pid) WHERE datname = 'holdfast' AND ssl",
    )
    assert encrypted[0][0] >= 1  # type: ignore[operator]
    await store.close()

    other = Authority(tmp_path, "other")
    assert "certificate verify failed" in await _refusal(tls.address(sslrootcert=other.file), tmp_path)
    assert "root certificate file" in await _refusal(tls.address(sslrootcert=tmp_path / "missing"), tmp_path)

    with pytest.raises(StoreUnreachable, match=r"pg_hba\.conf"):
        await open_postgres_store(tls.address(sslmode="disable"), home=tmp_path)


@pytest.mark.parametrize(
    ("certificate", "said"),
    [
        ({"names": ("db.elsewhere.example",)}, "does not match host name"),
        ({"names": ("127.0.0.1",), "days": -1}, "certificate verify failed"),
    ],
    ids=["wrong name", "expired"],
)
async def test_a_bad_certificate_is_refused(
    tls: TlsCluster, ours: Authority, tmp_path: Path, certificate: dict[str, object], said: str
) -> None:
    bad = ours.sign("bad", common_name="db", **certificate)  # type: ignore[arg-type]
    await asyncio.to_thread(tls.use, bad, authority=ours.file)
    assert said in await _refusal(tls.address(sslrootcert=ours.file), tmp_path)


async def test_a_client_certificate_is_the_password(tls: TlsCluster, ours: Authority, tmp_path: Path) -> None:
    good = ours.sign("good", common_name="db", names=("127.0.0.1",))
    await asyncio.to_thread(tls.use, good, authority=ours.file)
    certificate, key = ours.sign("client", common_name="by_certificate")
    address = tls.address(sslrootcert=ours.file, user="by_certificate")
    store = await open_postgres_store(f"{address} sslcert={certificate} sslkey={key}", home=tmp_path)
    await store.close()
    await _refusal(address, tmp_path)
    certificate, key = ours.sign("stranger", common_name="stranger")
    with pytest.raises(StoreUnreachable, match="certificate authentication failed"):
        await open_postgres_store(f"{address} sslcert={certificate} sslkey={key}", home=tmp_path)
