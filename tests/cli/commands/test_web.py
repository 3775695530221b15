"""`holdfast web` and `holdfast devices`, with a real server."""

import http.client
import json
import re
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from holdfast.cli.commands import web
from tests.cli.cli_shell import CliShell

pytestmark = pytest.mark.skipif(not web.has_page(), reason="the page is not built")


def pair(address: str) -> dict[str, object]:
    """Pair as the page does, with the code in the fragment."""
    place = urlsplit(address)
    connection = http.client.HTTPConnection(place.netloc, timeout=30)
    try:
        connection.request("GET", "/")
        assert b"<html" in connection.getresponse().read()
        body = json.dumps({"code": place.fragment.removeprefix("pair="), "name": "a browser"})
        origin = f"{place.scheme}://{place.netloc}"
        connection.request("POST", "/v1/pairing", body, {"Origin": origin, "Content-Type": "application/json"})
        response = connection.getresponse()
        found: dict[str, object] = json.loads(response.read())
        assert response.status == 200, found
        return found
    finally:
        connection.close()


def test_web_prints_an_address_that_pairs_a_browser_which_devices_lists_and_revokes(sh: CliShell) -> None:
    address = sh.ok("web", "--no-open").strip()
    assert urlsplit(address).hostname == "127.0.0.1"
    assert "Set-Cookie" not in address
    pair(address)
    (device,) = json.loads(sh.ok("devices", "--json"))["devices"]
    assert (device["name"], device["scope"]) == ("a browser", "drive")
    assert "a browser" in sh.ok("devices")
    assert "sofa" in sh.ok("devices", "rename", device["id"][:12], "sofa")
    # The same address again, also after a restart, with another code.
    sh.ok("stop")
    again = sh.ok("web", "--no-open", "--scope", "watch").strip()
    assert urlsplit(again).netloc == urlsplit(address).netloc
    assert again != address
    pair(again)
    assert {one["scope"] for one in json.loads(sh.ok("devices", "--json"))["devices"]} == {"drive", "watch"}
    assert sh.ok("devices", "revoke", "--all").count("revoked dev_") == 2
    assert "no device is paired" in sh.ok("devices")
    assert "not served any more" in sh.ok("web", "--stop")
    with pytest.raises(OSError, match=r"."):
        pair(again)
    sh.ok("stop")
    assert "no server is running" in sh.ok("web", "--stop")


def test_the_browser_is_opened_with_the_address(sh: CliShell, tmp_path: Path) -> None:
    browser = tmp_path / "browser"
    browser.write_text(f'#!/bin/sh\nprintf %s "$1" > {tmp_path}/opened\n')
    browser.chmod(0o755)
    address = sh.ok("web", env={"BROWSER": str(browser)}).strip()
    assert (tmp_path / "opened").read_text() == address


def test_sharing_needs_consent_and_prints_the_fingerprint_and_no_qr_code_into_a_pipe(sh: CliShell) -> None:
    refused = sh("web", "--share", "--listen", "127.0.0.1:0")
    assert (refused.status, "--yes" in refused.err) == (2, True)
    lines = sh.ok("web", "--share", "--yes", "--listen", "127.0.0.1:0", "--scope", "answer").splitlines()
    assert re.fullmatch(r"https://127\.0\.0\.1:\d+/#pair=[0-9A-Z]{4}-[0-9A-Z]{4}-[0-9A-Z]{4}", lines[0])
    assert re.search(r"SHA-256 ([0-9A-F]{2}:){31}[0-9A-F]{2}", lines[1])
    assert "scope answer" in lines[-1]
    assert not any("▀" in line for line in lines)
    again = sh.ok("web", "--share", "--yes", "--listen", "127.0.0.1:0").splitlines()
    assert again[1] == lines[1]
    assert urlsplit(again[0]).port == urlsplit(lines[0]).port
    sh.ok("web", "--stop")


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--listen", "192.0.2.1:80"), "add --share"),
        (("--listen", "nowhere"), "not an IP address and a port"),
        (("--share", "--certificate", "c.pem"), "belong together"),
        (("--certificate", "c.pem", "--key", "k.pem"), "with --share"),
        (("--share", "--yes", "--listen", "127.0.0.1:0", "--certificate", "c.pem", "--key", "k.pem"), "certificate"),
    ],
)
def test_wrong_options_are_explained(sh: CliShell, words: tuple[str, ...], told: str) -> None:
    done = sh("web", "--no-open", *words)
    assert done.status == 2
    assert told in done.err
