"""openapi.json and the program itself: each operation is asked for over HTTP until it has given each answer that the document has.

openapi_test.cpp does the same to the API without sockets, where each answer can be had. The few that are not worth their time here are
listed, with the reason.
"""
import json
import os
import re
import socket
import sqlite3
import threading
import unittest

from service import Callee, Service, wait_for

with open(os.environ["OPENAPI"]) as document:
    OPENAPI = json.load(document)

TIMER, REVIVE, LIST = "/v1/timers/{id}", "/v1/timers/{id}/revive", "/v1/timers"
OPERATIONS = {(method, path) for path, methods in OPENAPI["paths"].items() for method in methods}
OPEN = {("get", "/healthz"), ("get", "/readyz")}  # to everybody
GUARDED = OPERATIONS - OPEN

# postgres_test.py has the first two, and may have the others.
NOT_ASKED_FOR = {
    ("get", TIMER, 503): "a file can be read while others write to it",
    ("get", LIST, 503): "as well",
    ("put", TIMER, 504): "the store must go away between a commit and its answer",
    ("delete", TIMER, 504): "as well",
    ("post", REVIVE, 504): "as well",
}

TOKEN = "0123456789abcdef"
LATER = {"in": "1h", "callback": "http://127.0.0.1:9/", "method": "PUT", "headers": {"X": "y"}, "body": "z", "every": "P1D"}


def resolved(part):
    """The part of the document that is meant: itself, or what it refers to."""
    if "$ref" not in part:
        return part
    meant = OPENAPI
    for name in part["$ref"].split("/")[1:]:
        meant = meant[name]
    return meant


def mismatch(value, schema, where="document"):
    """What is wrong with a value; None: nothing. Knows the keywords that the document uses."""
    schema = resolved(schema)
    types = {"object": dict, "array": list, "string": str, "integer": int, "boolean": bool}
    if type(value) is not types[schema["type"]]:
        return f"{where} is no {schema['type']}: {value!r}"
    if value not in schema.get("enum", [value]):
        return f"{where} has no such value: {value!r}"
    if isinstance(value, list):
        return next(filter(None, (mismatch(item, schema["items"], where + "[]") for item in value)), None)
    if isinstance(value, dict):
        missing = set(schema.get("required", ())) - set(value)
        unknown = set(value) - set(schema["properties"])
        if missing or unknown:
            return f"{where}: missing {missing}, not described {unknown}"
        return next(filter(None, (mismatch(value[name], schema["properties"][name], f"{where}.{name}") for name in value)), None)
    return None


class Answers(unittest.TestCase):
    def setUp(self):
        self.seen = set()

    def ask(self, service, method, path, target=None, document=None, headers=None):
        """Asks, checks the answer against the document, and returns its status."""
        target = (target or path).replace("{id}", "x")
        status, header, text = service.ask_whole(method.upper(), target, document, headers)
        self.check(method, path, status, header, text)
        return status

    def check(self, method, path, status, header, text):
        where = f"{method} {path} {status}: {text}"
        responses = OPENAPI["paths"][path][method]["responses"]
        self.assertIn(str(status), responses, where)
        self.seen.add((method, path, status))
        described = resolved(responses[str(status)])
        for name in ("Retry-After", "WWW-Authenticate"):
            self.assertEqual(name in header, name in described.get("headers", {}), f"{where}: {name}")
        media = header.get("Content-Type", "").split(";")[0]
        self.assertEqual([media] if media else [], list(described.get("content", {})), where)
        if media.endswith("json"):
            self.assertIsNone(mismatch(json.loads(text), described["content"][media]["schema"]), where)

    def test_each_operation_gives_each_answer_of_the_document(self):
        self.ask_without_tokens()
        self.ask_a_locked_file()
        self.ask_with_tokens()
        self.ask_in_a_drain()
        documented = {(method, path, int(status)) for method, path in OPERATIONS
                      for status in OPENAPI["paths"][path][method]["responses"] if status != "default"}
        self.assertEqual(self.seen, documented - set(NOT_ASKED_FOR))

    def ask_without_tokens(self):
        running = threading.Event()

        def answer(path):
            return {"/dead": 410, "/finished": 204}.get(path) or (running.wait(20) and 204)

        with Callee(answer) as callee, Service() as service:
            def put(name, **fields):
                return self.ask(service, "put", TIMER, f"/v1/timers/{name}", {**LATER, **fields})

            def state(name):
                return json.loads(service.ask("GET", f"/v1/timers/{name}")[1])["state"]

            self.assertEqual([put("a"), put("a"), put("a", on_conflict="replace")], [201, 200, 200])
            for name in ("dead", "finished", "running"):
                document = {"in": "0s", "callback": f"http://{callee.address}/{name}"}
                self.assertEqual(self.ask(service, "put", TIMER, f"/v1/timers/{name}", document), 201)
                wait_for(lambda: state(name) == name, f"{name} is {state(name)}")
            self.assertEqual([put("finished"), put("running", on_conflict="replace")], [409, 409])
            self.assertEqual([put("%00"), put("b", every="1ms"), put("b", body="x" * 70000)], [400, 422, 413])
            past = {"due": "2020-01-01T00:00:00Z", "callback": LATER["callback"]}
            self.assertEqual(self.ask(service, "put", TIMER, "/v1/timers/b?strict", past), 422)
            self.assertEqual(self.ask(service, "put", TIMER, "/v1/timers/b", "{"), 400)
            self.assertEqual(self.ask(service, "put", TIMER, "/v1/timers/b", LATER, {"Content-Type": "text/plain"}), 415)
            for name, status in (("a", 200), ("dead", 200), ("running", 200), ("none", 404), ("%00", 400)):
                self.assertEqual(self.ask(service, "get", TIMER, f"/v1/timers/{name}"), status, name)
            for each, status in (("pending", 200), ("running", 200), ("dead", 200), ("finished", 200), ("cancelled", 200), ("none", 400)):
                self.assertEqual(self.ask(service, "get", LIST, f"/v1/timers?state={each}&limit=1"), status, each)
            for name, status in (("dead", 200), ("running", 409), ("none", 404), ("%00", 400)):
                self.assertEqual(self.ask(service, "post", REVIVE, f"/v1/timers/{name}/revive"), status, name)
            for name, status in (("a", 204), ("running", 202), ("finished", 409), ("none", 404), ("%00", 400)):
                self.assertEqual(self.ask(service, "delete", TIMER, f"/v1/timers/{name}"), status, name)
            for path in ("/metrics", "/healthz", "/readyz"):
                self.assertEqual(self.ask(service, "get", path), 200)
            for method, path in GUARDED:
                self.assertEqual(self.ask(service, method, path, None, None, {"Origin": "http://evil.example"}), 403)
                self.assertEqual(self.ask(service, method, path, None, None, {"Host": "evil.example"}), 421)
            running.set()

    def ask_a_locked_file(self):
        with Service() as service:
            other = sqlite3.connect(f"{service.folder}/timers.db", isolation_level=None)
            other.execute("BEGIN IMMEDIATE")
            for method, path in (("put", TIMER), ("delete", TIMER), ("post", REVIVE)):
                # on a busy machine one may take too long, and is then 504: hostile_test.py explains it
                wait_for(lambda: self.ask(service, method, path, None, LATER if method == "put" else None) == 503, "it is never answered 503")
            self.seen -= set(NOT_ASKED_FOR)
            other.execute("ROLLBACK")
            other.close()

    def ask_with_tokens(self):
        with Service() as service:
            file = os.path.join(service.folder, "tokens")
            with open(os.open(file, os.O_CREAT | os.O_WRONLY, 0o600), "w") as out:
                out.write(TOKEN + "\n")
            service.stop()
            with Service("--tokens", file, "--requests-per-second", "0.01", "--burst", "1", folder=service.folder) as guarded:
                bearer = {"Authorization": f"Bearer {TOKEN}"}
                guarded.ask("GET", "/metrics", headers=bearer)
                for method, path in GUARDED:
                    self.assertEqual(self.ask(guarded, method, path), 401)
                    self.assertEqual(self.ask(guarded, method, path, None, None, bearer), 429)
                for method, path in OPEN:
                    self.assertEqual(self.ask(guarded, method, path), 200)

    def ask_in_a_drain(self):
        """A request that had begun is answered."""
        with Service("--drain", "10s") as service, socket.create_connection(("127.0.0.1", service.port), timeout=20) as peer:
            peer.sendall(b"GET /readyz HTTP/1.1\r\n")
            wait_for(lambda: service.metric("timer_server_connections") == 2, "the connection is not accepted")
            service.signal(15)
            wait_for(lambda: re.search(r" draining\n", service.lines()), "it does not drain")
            peer.sendall(b"Host: 127.0.0.1\r\n\r\n")
            received = b""
            while piece := peer.recv(65536):
                received += piece
            head, _, text = received.decode().partition("\r\n\r\n")
            first, *lines = head.split("\r\n")
            self.check("get", "/readyz", int(first.split()[1]), dict(line.split(": ", 1) for line in lines), text)
            self.assertEqual(service.wait(), 0)


if __name__ == "__main__":
    unittest.main(verbosity=2)
