"""asyncio works without ssl, and with it as soon as something uses TLS. So do the others."""

import subprocess
import sys
from pathlib import Path

from holdfast.cli.web_certificate import own_certificate

PROGRAM = """
import sys
from holdfast.late_modules import import_without

import_without("asyncio", "ssl", "asyncio.sslproto", "tokenize", "textwrap", "inspect", "locale")
import asyncio, socket


async def exchange(tls_of_server, tls_of_client):
    async def answer(reader, writer):
        writer.write((await reader.readline()).upper())
        writer.close()

    listening = socket.create_server(("127.0.0.1", 0))
    async with await asyncio.start_server(answer, sock=listening, ssl=tls_of_server) as server:
        address = server.sockets[0].getsockname()
        connected = socket.create_connection(address)
        connected.setblocking(False)
        name = "127.0.0.1" if tls_of_client else None
        reader, writer = await asyncio.open_connection(sock=connected, ssl=tls_of_client, server_hostname=name)
        writer.write(b"hello\\n")
        text = await reader.read()
        writer.close()
    return text.decode().strip()


def is_loaded():
    return [name for name in ("ssl", "_ssl", "asyncio.sslproto") if name in sys.modules]


print(asyncio.run(exchange(None, None)), is_loaded())
import ssl

context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
context.load_cert_chain(sys.argv[1], sys.argv[2])
print(asyncio.run(exchange(context, ssl.create_default_context(cafile=sys.argv[1]))), is_loaded())
import asyncio.sslproto
from asyncio import base_events
print(base_events.sslproto.SSLProtocol is asyncio.sslproto.SSLProtocol, base_events.ssl.SSLSocket is ssl.SSLSocket)
with socket.socket() as plain:
    wrapped = ssl.create_default_context().wrap_socket(plain, server_hostname="x", do_handshake_on_connect=False)
    try:
        asyncio.run(asyncio.start_server(print, sock=wrapped))
    except TypeError as error:
        print(error)
"""


def test_tls_is_loaded_when_it_is_used(tmp_path: Path) -> None:
    made = own_certificate(tmp_path, "127.0.0.1")
    command = [sys.executable, "-c", PROGRAM, made.certificate, made.key]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ran.stdout.splitlines() == [
        "HELLO []",
        "HELLO ['ssl', '_ssl', 'asyncio.sslproto']",
        "True True",
        "Socket cannot be of type SSLSocket",
    ], ran.stderr


def test_modules_that_are_already_imported_stay_as_they_are() -> None:
    program = (
        "import asyncio, sys\n"
        "from holdfast.late_modules import StandIn, import_without\n"
        "import_without('asyncio', 'ssl')\n"
        "print([name for name, module in sys.modules.items() if isinstance(module, StandIn)])\n"
        "print(isinstance(asyncio.base_events.ssl, StandIn))\n"
    )
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert ran.stdout == "[]\nFalse\n"


def test_a_traceback_shows_source_although_its_reader_was_left_out(tmp_path: Path) -> None:
    failing = tmp_path / "failing.py"
    failing.write_text(
        "from holdfast.late_modules import import_without\n"
        "import_without('asyncio', 'ssl', 'asyncio.sslproto', 'tokenize', 'textwrap', 'inspect', 'locale')\n"
        "import inspect, traceback\n"
        "def fail(): raise ValueError('wrong')\n"
        "try: fail()\n"
        "except ValueError: print(traceback.format_exc())\n"
        "print(inspect.getsource(fail))\n"
    )
    ran = subprocess.run([sys.executable, str(failing)], capture_output=True, text=True, check=True)
    assert ran.stdout.count("def fail(): raise ValueError('wrong')") == 2


def test_asyncio_handles_signals_without_inspect_and_refuses_coroutine_functions_for_them() -> None:
    program = (
        "from holdfast.late_modules import import_without\n"
        "import_without('asyncio', 'ssl', 'asyncio.sslproto', 'tokenize', 'textwrap', 'inspect', 'locale')\n"
        "import asyncio, functools, os, signal, sys\n"
        "class Handlers:\n"
        "    async def wait(self): pass\n"
        "    def note(self, event): event.set()\n"
        "handlers = Handlers()\n"
        "refused = (handlers.wait, functools.partial(handlers.wait), functools.partial(Handlers.wait, handlers))\n"
        "async def main():\n"
        "    loop = asyncio.get_running_loop()\n"
        "    for wrong in refused:\n"
        "        try: loop.add_signal_handler(signal.SIGINT, wrong)\n"
        "        except TypeError as error: print(error)\n"
        "    noted = asyncio.Event()\n"
        "    loop.add_signal_handler(signal.SIGINT, functools.partial(handlers.note, noted))\n"
        "    os.kill(os.getpid(), signal.SIGINT)\n"
        "    await noted.wait()\n"
        "    print('noted', 'inspect' in sys.modules)\n"
        "    import inspect\n"
        "    print([asyncio.iscoroutinefunction(one) for one in (*refused, handlers.note, print)])\n"
        "asyncio.run(main())\n"
    )
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert ran.stdout.splitlines() == [
        *["coroutines cannot be used with add_signal_handler()"] * 3,
        *("noted False", "[True, True, True, False, False]"),
    ]


def test_addresses_in_brackets_are_checked_although_their_module_was_left_out() -> None:
    program = (
        "from holdfast.late_modules import import_without\n"
        "import_without('urllib.parse', 'ipaddress')\n"
        "import pathlib, sys\n"
        "from urllib.parse import urlsplit\n"
        "print('ipaddress' in sys.modules, urlsplit('http://[::1]:80/').hostname)\n"
        "try: urlsplit('http://[no]/')\n"
        "except ValueError: print('refused')\n"
    )
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert ran.stdout == "False ::1\nrefused\n"


def test_the_left_out_modules_of_msgspec_work() -> None:
    program = (
        "import sys\n"
        "from holdfast.cli import _import_msgspec\n"
        "_import_msgspec()\n"
        "import msgspec\n"
        "print('msgspec.inspect' in sys.modules)\n"
        "print(msgspec.json.schema(int), msgspec.inspect.type_info(int).__class__.__name__)\n"
        "print(msgspec.msgpack.decode(msgspec.msgpack.encode([1])), msgspec.toml.decode('a = 1'))\n"
    )
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert ran.stdout.splitlines() == ["False", "{'type': 'integer'} IntType", "[1] {'a': 1}"]
