"""A language server that misbehaves as its mode says. A program, run with ``python hostile_server.py MODE [STATE]``.

In mode ``good`` it pushes diagnostics: an error for each line with ``bad``, a warning for each with ``odd``.
"""

import json
import os
import sys
import time
from typing import Any

MODE = sys.argv[1]
STATE = sys.argv[2] if len(sys.argv) > 2 else ""
stdin, stdout = sys.stdin.buffer, sys.stdout.buffer
texts: dict[str, str] = {}


def send(message: dict[str, Any]) -> None:
    body = json.dumps({"jsonrpc": "2.0", **message}).encode()
    stdout.write(b"Content-Length: %d\r\n\r\n" % len(body) + body)
    stdout.flush()


def receive() -> dict[str, Any]:
    length = 0
    while line := stdin.readline().strip():
        if line.lower().startswith(b"content-length:"):
            length = int(line.split(b":")[1])
    if not length:
        sys.exit(0)
    message: dict[str, Any] = json.loads(stdin.read(length))
    return message


def at(line: int, start: int, end: int) -> dict[str, Any]:
    return {"start": {"line": line, "character": start}, "end": {"line": line, "character": end}}


def diagnostics(text: str) -> list[dict[str, Any]]:
    found = []
    for number, line in enumerate(text.split("\n")):
        for word, severity in (("bad", 1), ("odd", 2)):
            if word in line:
                start = len(line[: line.index(word)].encode("utf-16-le")) // 2
                found.append({"range": at(number, start, start + 3), "severity": severity, "message": f"{word} word"})
    return found


def publish(uri: str, version: int) -> None:
    items: list[Any] = diagnostics(texts[uri])
    if MODE == "flood":
        items = [{"range": at(n, 0, 1), "severity": 1, "message": f"problem {n} " + "x" * 200} for n in range(5_000)]
    if MODE == "rubbish-items":
        items = [17, {"range": "no"}, {"range": at(-1, 0, 1), "message": "m"}, None, *items]
    send(
        {"method": "textDocument/publishDiagnostics", "params": {"uri": uri, "version": version, "diagnostics": items}}
    )


def rename_edits(message: dict[str, Any]) -> Any:
    params = message["params"]
    uri, name = params["textDocument"]["uri"], params["newName"]
    edit = {"range": at(0, 0, 3), "newText": name}
    match MODE:
        case "rename-outside":
            return {"changes": {"file:///etc/passwd": [edit]}}
        case "rename-link":
            return {"changes": {uri.rpartition("/")[0] + "/link.txt": [edit]}}
        case "rename-traversal":
            return {"changes": {uri.rpartition("/")[0] + "/../../outside.txt": [edit]}}
        case "rename-delete":
            return {"documentChanges": [{"kind": "delete", "uri": uri}]}
        case "rename-overlap":
            return {"changes": {uri: [edit, {"range": at(0, 1, 2), "newText": "x"}]}}
        case "rename-changes":
            count = 1
            if os.path.exists(STATE):
                with open(STATE) as file:
                    count = len(file.read()) + 1
            with open(STATE, "a") as file:
                file.write("x")
            return {"changes": {uri: [{**edit, "newText": f"{name}{count}"}]}}
    return {"changes": {uri: [edit]}}


def answer(message: dict[str, Any]) -> None:
    method, number = message["method"], message["id"]
    if method == "initialize":
        if MODE == "hang-start":
            time.sleep(1000)
        if MODE == "rubbish-start":
            stdout.write(b"Hello, I am not a language server.\n" * 500)
            stdout.flush()
            time.sleep(1000)
        names = ("definitionProvider", "referencesProvider", "documentSymbolProvider", "renameProvider")
        capabilities = dict.fromkeys(names, True)
        send({"id": number, "result": {"capabilities": capabilities}})
        if MODE == "crash":
            sys.stderr.write("fatal: out of ideas\n")
            sys.exit(3)
        if MODE == "asks":
            send({"id": 1, "method": "workspace/applyEdit", "params": {"edit": {}}})
            send({"id": 2, "method": "no/such/method", "params": {}})
            send({"id": 3, "method": "workspace/configuration", "params": {"items": [{"section": "a.b"}, {}]}})
        return
    if MODE == "hang":
        return
    if method == "textDocument/rename":
        send({"id": number, "result": rename_edits(message)})
    elif method == "textDocument/definition" and MODE == "rubbish-answer":
        send({"id": number, "result": [{"uri": 5}]})
    elif method == "textDocument/definition" and MODE == "wrong-length":
        stdout.write(b"Content-Length: 5\r\n\r\n{}{}{}\r\nContent-Length: nine\r\n\r\n")
        stdout.flush()
    elif method == "textDocument/definition" and MODE == "huge-length":
        stdout.write(b"Content-Length: 99999999999\r\n\r\n{}")
        stdout.flush()
    elif method == "textDocument/definition" and MODE == "not-json":
        stdout.write(b"Content-Length: 9\r\n\r\n<rubbish>")
        stdout.flush()
    elif method == "textDocument/definition" and MODE == "die":
        os.abort()
    elif method == "textDocument/definition" and MODE == "message-flood":
        while True:
            send({"method": "window/logMessage", "params": {"type": 3, "message": "x" * 50_000}})
    else:
        send({"id": number, "result": None})


def main() -> None:
    while True:
        message = receive()
        if MODE == "asks" and "method" not in message and STATE:
            with open(STATE, "a") as file:
                file.write(json.dumps(message) + "\n")
        elif "id" in message:
            answer(message)
        elif message["method"] in ("textDocument/didOpen", "textDocument/didChange"):
            document = message["params"]["textDocument"]
            changes = message["params"].get("contentChanges")
            texts[document["uri"]] = changes[-1]["text"] if changes else document["text"]
            if MODE != "silent":
                publish(document["uri"], document["version"])
        elif message["method"] == "$/cancelRequest" and STATE:
            with open(STATE, "a") as file:
                file.write("cancelled\n")


main()
