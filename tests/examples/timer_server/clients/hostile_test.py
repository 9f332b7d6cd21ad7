"""Clients and callees that mean harm, or are broken."""
import json
import os
import re
import socket
import sqlite3
import subprocess
import threading
import time
import unittest

from service import Callee, Service, wait_for

HOST = "Host: 127.0.0.1\r\n"
DOCUMENT = '{"in":"1h","callback":"http://127.0.0.1:9/"}'


def exchange(service, data, half_close=False):
    """Sends bytes. Returns all that comes until the service closes, or is silent for a while."""
    with socket.create_connection(("127.0.0.1", service.port), timeout=1) as peer:
        peer.sendall(data.encode("latin-1") if isinstance(data, str) else data)
        if half_close:
            peer.shutdown(socket.SHUT_WR)
        received = b""
        try:
            while piece := peer.recv(65536):
                received += piece
        except (TimeoutError, ConnectionResetError):
            pass
        return received.decode("latin-1")


def statuses(answers):
    return re.findall(r"^HTTP/1\.1 (\d+)", answers, re.M)


def put(name, headers="", document=DOCUMENT):
    return f"PUT /v1/timers/{name} HTTP/1.1\r\n{HOST}{headers}Content-Length: {len(document)}\r\n\r\n{document}"


class RawCallee:
    """An endpoint that does with each connection what it is told, and then closes it."""

    def __init__(self, behave):
        self.connections = 0
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._serve, args=(behave,), daemon=True).start()

    def _serve(self, behave):
        while True:
            try:
                peer, _ = self._listener.accept()
            except OSError:
                return
            self.connections += 1
            with peer:
                try:
                    behave(peer)
                except OSError:  # the service has closed it
                    pass

    def close(self):
        self._listener.close()


def dead_timer(service, name):
    """The timer if it is dead, else None."""
    timer = json.loads(service.ask("GET", f"/v1/timers/{name}")[1])
    return timer if timer["state"] == "dead" else None


class Smuggling(unittest.TestCase):
    """A second request that hides in the body of the first is never carried out."""

    def test_request_whose_end_is_in_doubt_is_refused_with_all_that_follows(self):
        hidden = put("hidden")
        chunked = f"0\r\n\r\n{hidden}"
        with Service() as service:
            for headers, body in [
                    (f"Content-Length: {len(chunked)}\r\nTransfer-Encoding: chunked\r\n", chunked),
                    (f"Transfer-Encoding: chunked\r\nContent-Length: {len(chunked)}\r\n", chunked),
                    ("Content-Length: 0\r\nContent-Length: 10\r\n", hidden),
                    ("Content-Length: 0, 10\r\n", hidden),
                    ("Content-Length: +0\r\n", hidden),
                    ("Content-Length: -1\r\n", hidden),
                    ("Content-Length: 0x0\r\n", hidden),
                    ("Content-Length: 18446744073709551616\r\n", hidden),
                    ("Content-Length : 0\r\n", hidden),
                    ("Transfer-Encoding : chunked\r\n", chunked),
                    ("Transfer-Encoding: xchunked\r\n", chunked),
                    ("Transfer-Encoding: chunked, identity\r\n", chunked),
                    ("Transfer-Encoding: identity, chunked\r\n", chunked),
                    ("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n", chunked),
                    ("Transfer-Encoding: \x0bchunked\r\n", chunked),
                    ("Transfer-Encoding: chunked\r\n", "zz\r\n" + hidden),
                    ("Transfer-Encoding: chunked\r\n", "ffffffffffffffffff\r\n" + hidden),
                    ("Transfer-Encoding: chunked\r\n", "-1\r\n" + hidden),
                    ("X: y\nContent-Length: 0\r\n", hidden),
                    ("Host: other\r\nContent-Length: 0\r\n", hidden),
            ]:
                answers = exchange(service, f"PUT /v1/timers/a HTTP/1.1\r\n{HOST}{headers}\r\n{body}")
                self.assertEqual(len(statuses(answers)), 1, headers + answers)
                self.assertIn(statuses(answers)[0], ("400", "501", "413"), headers)
            self.assertEqual(service.ask("GET", "/v1/timers/hidden")[0], 404)
            self.assertEqual(service.ask("GET", "/v1/timers/a")[0], 404)

    def test_http_1_0_with_chunks_is_refused(self):
        with Service() as service:
            answers = exchange(service, "PUT /v1/timers/a HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + put("b"))
            self.assertEqual(statuses(answers), ["400"])


class Connections(unittest.TestCase):
    def test_requests_in_a_row_before_a_half_close_are_all_answered(self):
        with Service() as service:
            answers = exchange(service, "".join(put(f"t{i}") for i in range(50)), half_close=True)
            self.assertEqual(statuses(answers), ["201"] * 50)

    def test_connections_beyond_the_limit_leave_the_others_alone(self):
        with Service("--max-connections", "50", "--header-timeout", "500ms") as service:
            served = socket.create_connection(("127.0.0.1", service.port), timeout=5)
            served.sendall(put("a").encode())
            self.assertIn(b"201", served.recv(65536))
            crowd = [socket.create_connection(("127.0.0.1", service.port)) for _ in range(300)]
            served.sendall(put("b").encode())
            self.assertIn(b"201", served.recv(65536))
            for each in crowd:
                each.close()
            served.sendall(f"GET /metrics HTTP/1.1\r\n{HOST}\r\n".encode())
            wait_for(lambda: service.metric("timer_server_connections_turned_away_total") >= 200, "none was turned away")
            served.close()

    def test_refusals_are_those_of_the_openapi_document(self):
        with open(os.environ["OPENAPI"]) as document:
            described = json.load(document)["components"]["responses"]["refused"]["description"]
        head = f"PUT /v1/timers/a HTTP/1.1\r\n{HOST}"
        with Service("--header-timeout", "200ms") as service:
            answers = "".join(exchange(service, request) for request in (
                "nonsense\r\n\r\n", "GET / HTTP/1.1\r\n", f"{head}Content-Length: 70000\r\n\r\n", f"{head}X: {'x' * 9000}\r\n\r\n",
                f"{head}Transfer-Encoding: gzip\r\n\r\n", f"GET / HTTP/2.0\r\n{HOST}\r\n"))
            self.assertEqual(sorted(statuses(answers)), re.findall(r"(\d{3}):", described))
            self.assertEqual(answers.count("\r\nConnection: close\r\n"), len(statuses(answers)))
            self.assertEqual(answers.count("application/problem+json"), len(statuses(answers)))

    def test_headers_without_end_are_refused(self):
        with Service() as service:
            self.assertEqual(statuses(exchange(service, "GET / HTTP/1.1\r\n" + "A: b\r\n" * 20000)), ["431"])
            self.assertEqual(statuses(exchange(service, "GET /" + "x" * 100000)), ["431"])
            self.assertEqual(statuses(exchange(service, f"PUT /v1/timers/a HTTP/1.1\r\n{HOST}Content-Length: 70000\r\n\r\n")), ["413"])


class Ids(unittest.TestCase):
    def test_odd_ids_are_kept_byte_by_byte(self):
        odd = ["%20", "a%2Fb", "%2e%2e", "%F0%9F%92%A3", "%22%27%3B--", "%25", "a:b", "a+b", "%C3%BC", "u%CC%88", "%EF%BF%BF",
               "A", "a", "%3Cscript%3E", "x" * 255, "%C3%BC" * 127]
        with Callee() as callee, Service() as service:
            for name in odd:
                document = {"in": "0s", "callback": f"http://{callee.address}/"}
                self.assertEqual(service.ask("PUT", f"/v1/timers/{name}", document)[0], 201, name)
            wait_for(lambda: len(callee.calls) == len(odd), "not all were called")
            self.assertEqual(len({headers["Timer-Id"] for _, headers, _ in callee.calls}), len(odd))
            for headers in (headers for _, headers, _ in callee.calls):
                status, text = service.ask("GET", "/v1/timers/" + headers["Timer-Id"].replace("/", "%2F").replace("?", "%3F").replace("#", "%23"))
                self.assertEqual(status, 200, headers["Timer-Id"])

    def test_ids_that_are_no_text_are_refused(self):
        with Service() as service:
            for name in ("%00", "%0A", "%7F", "%FF", "%C3", "%C3%28", "%ED%A0%80", "%C0%AF", "%F4%90%80%80", "%C2%80", "%2", "%zz",
                         "x" * 256, ""):
                self.assertEqual(service.ask("GET", f"/v1/timers/{name}")[0], 400, name)


class Callbacks(unittest.TestCase):
    def test_header_cannot_split_the_request(self):
        with Service() as service:
            for name, value in (("X", "a\r\nY: b"), ("X", "a\nb"), ("X", "a\0b"), ("X\r\nY", "a"), ("X:", "a"), ("", "a"), ("X Y", "a"),
                                ("Host", "a"), ("content-length", "0"), ("Timer-Id", "a"), ("idempotency-key", "a"),
                                ("TRANSFER-ENCODING", "chunked")):
                document = {"in": "1h", "callback": "http://127.0.0.1:9/", "headers": {name: value}}
                self.assertEqual(service.ask("PUT", "/v1/timers/a", document)[0], 422, (name, value))
            for field, value in (("method", "GET / HTTP/1.1\r\nX: y\r\n\r\n"), ("method", ""), ("callback", "http://127.0.0.1/\r\nX: y"),
                                 ("callback", "http://127.0.0.1/ HTTP/1.1"), ("callback", "file:///etc/passwd"),
                                 ("callback", "https://127.0.0.1/"), ("callback", "http://user@127.0.0.1/"), ("callback", "//127.0.0.1/")):
                document = {"in": "1h", "callback": "http://127.0.0.1:9/", field: value}
                self.assertEqual(service.ask("PUT", "/v1/timers/a", document)[0], 422, (field, value))

    def test_callee_that_misbehaves_is_told_in_the_last_error(self):
        def stay_silent(peer):
            while peer.recv(65536):
                pass

        def answer_for_ever(peer):
            peer.recv(65536)
            peer.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
            while True:
                peer.sendall(b"1\r\nx\r\n")
                time.sleep(0.001)

        def answer(text):
            return lambda peer: peer.recv(65536) and peer.sendall(text)

        headers_for_ever = b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 20000
        redirect = b"HTTP/1.1 307 Temporary Redirect\r\nLocation: http://127.0.0.1:9/\r\nContent-Length: 0\r\n\r\n"
        callees = {
            "silent": (stay_silent, "timed out"),
            "endless": (answer_for_ever, "timed out"),
            "body": (answer(b"HTTP/1.1 200 OK\r\nContent-Length: 999999999\r\n\r\n"), "too large"),
            "headers": (answer(headers_for_ever), "too large"),
            "closed": (answer(b""), "without a response"),
            "cut": (answer(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc"), "in the middle"),
            "redirect": (answer(redirect), "redirects are not followed"),
            "mail": (answer(b"220 mail.example ESMTP\r\n"), "HTTP/1"),
        }
        with Service("--max-attempts", "1", "--callback-timeout", "500ms") as service:
            listeners = [RawCallee(behave) for behave, _ in callees.values()]
            for name, listener in zip(callees, listeners):
                document = {"in": "0s", "callback": f"http://{listener.address}/"}
                self.assertEqual(service.ask("PUT", f"/v1/timers/{name}", document)[0], 201)
            for name, (_, error) in callees.items():
                timer = wait_for(lambda: dead_timer(service, name), f"{name} is not dead")
                self.assertIn(error, timer["last_error"], name)
            self.assertEqual([listener.connections for listener in listeners], [1] * len(listeners), "a failed call is not sent again")
            for listener in listeners:
                listener.close()

    def test_addresses_in_disguise_are_not_called(self):
        literals = ["0.0.0.0", "[::]", "[::ffff:10.0.0.1]", "[::ffff:0.0.0.0]", "10.0.0.1", "169.254.169.254", "[fe80::1]",
                    "[64:ff9b::7f00:1]", "[::127.0.0.1]", "[::ffff:a9fe:a9fe]"]
        hosts = ["0x0a000001", "012.0.0.1", "167772161"]  # the system may take them for addresses when they are called
        with Service() as service:
            for host in literals:
                status, text = service.ask("PUT", "/v1/timers/x", {"in": "0s", "callback": f"http://{host}:{service.port}/healthz"})
                self.assertEqual((status, json.loads(text).get("field")), (422, "callback"), text)
            for i, host in enumerate(hosts):
                status, text = service.ask("PUT", f"/v1/timers/{i}", {"in": "0s", "callback": f"http://{host}:{service.port}/healthz"})
                self.assertIn(status, (201, 422), text)

            def states():
                texts = [service.ask("GET", f"/v1/timers/{i}") for i in range(len(hosts))]
                return [json.loads(text).get("state", "refused") if status == 200 else "refused" for status, text in texts]

            # a name that is no address of ours fails to resolve, and is tried again
            wait_for(lambda: "running" not in states() and service.metric("timer_server_callbacks_running") == 0, states())
            self.assertLessEqual(set(states()), {"dead", "refused", "pending"})
            self.assertEqual(service.metric("timer_server_callback_connections_total"), 0)

    def test_mapped_loopback_address_is_loopback(self):
        with Callee() as callee, Service() as service:
            port = callee.address.split(":")[1]
            service.ask("PUT", "/v1/timers/a", {"in": "0s", "callback": f"http://[::ffff:127.0.0.1]:{port}/mapped"})
            callee.wait_for("/mapped")

    def test_silent_callee_does_not_hold_up_the_timers_of_others(self):
        options = ["--max-running", "20", "--connections-per-host", "4", "--callback-wait", "300ms"]
        with socket.socket() as silent, Callee() as callee, Service(*options) as service:
            silent.bind(("127.0.0.1", 0))
            silent.listen()
            for i in range(100):
                service.ask("PUT", f"/v1/timers/silent-{i}", {"in": "0s", "callback": f"http://127.0.0.1:{silent.getsockname()[1]}/"})
            for i in range(20):
                service.ask("PUT", f"/v1/timers/good-{i}", {"in": "0s", "callback": f"http://{callee.address}/{i}"})
            wait_for(lambda: len(callee.calls) == 20, "timers of another callee wait for the silent one")
            dead = json.loads(service.ask("GET", "/v1/timers?state=dead")[1])
            self.assertEqual(dead["timers"], [])

    def test_backlog_of_a_silent_callee_does_not_hold_up_the_timers_of_others(self):
        # 50 times the places: each time that they all wait takes two seconds
        options = ["--max-running", "20", "--connections-per-host", "4"]
        with socket.socket() as silent, Callee() as callee, Service(*options) as service:
            silent.bind(("127.0.0.1", 0))
            silent.listen()
            for i in range(1000):
                service.ask("PUT", f"/v1/timers/silent-{i}", {"in": "0s", "callback": f"http://127.0.0.1:{silent.getsockname()[1]}/"})
            service.ask("PUT", "/v1/timers/good", {"in": "0s", "callback": f"http://{callee.address}/good"})
            callee.wait_for("/good")
            states = [json.loads(service.ask("GET", f"/v1/timers/silent-{i}")[1]) for i in range(0, 1000, 50)]
            self.assertEqual({timer["state"] for timer in states} - {"pending", "running"}, set())
            self.assertLessEqual(max(timer["attempts"] for timer in states), 1, "those that were not called have all their attempts")


class Tokens(unittest.TestCase):
    def test_only_the_exact_token_is_taken(self):
        token = "0123456789abcdef+/="
        with Service() as service:
            file = os.path.join(service.folder, "tokens")
            with open(os.open(file, os.O_CREAT | os.O_WRONLY, 0o600), "w") as out:
                out.write(f"# a comment\n{token} \t\r\n")
            service.stop()
            # readiness needs no token
            with Service("--tokens", file, folder=service.folder) as guarded:
                for value, expected in ((f"Bearer {token}", 404), (f"bearer  {token}", 404), (f"Bearer {token} ", 404),
                                        (f"Bearer {token}x", 401), (f"Bearer {token[:-1]}", 401), (f"Bearer {token.upper()}", 401),
                                        (token, 401), ("Bearer", 401), ("Bearer ", 401), ("Bearer # a comment", 401), ("Basic Og==", 401),
                                        (f"Bearer {token},Bearer {token}", 401), (f"Bearer\t{token}", 401)):
                    self.assertEqual(guarded.ask("GET", "/v1/timers/a", headers={"Authorization": value})[0], expected, value)
                self.assertEqual(guarded.ask("GET", "/metrics")[0], 401)
                self.assertNotIn(token, guarded.lines())


class Store(unittest.TestCase):
    def test_other_users_may_not_read_the_timers(self):
        with Service() as service:
            service.ask("PUT", "/v1/timers/a", {"in": "1h", "callback": "http://127.0.0.1:9/", "headers": {"Authorization": "secret"}})
            modes = {name: os.stat(os.path.join(service.folder, name)).st_mode & 0o777
                     for name in os.listdir(service.folder) if name.startswith("timers.db")}
            self.assertGreaterEqual(len(modes), 2)
            self.assertEqual(set(modes.values()), {0o600}, modes)

    def test_file_that_others_hold_is_unavailable_and_nothing_is_half_done(self):
        with Service() as service:
            other = sqlite3.connect(f"{service.folder}/timers.db", isolation_level=None)
            other.execute("BEGIN IMMEDIATE")
            answers = {}

            # The service waits a second for the lock, and then says that nothing was changed. 504 comes only if that takes longer than
            # its five seconds for a request, because the machine is busy. So one request may be answered 504, but not each.
            def is_refused():
                name = f"a{len(answers)}"
                answers[name] = service.ask_whole("PUT", f"/v1/timers/{name}", json.loads(DOCUMENT))
                return answers[name][0] == 503

            wait_for(is_refused, "it is never answered 503")
            self.assertEqual(service.ask("GET", "/healthz")[0], 200)
            other.execute("ROLLBACK")
            other.close()
            for name, (status, header, _) in answers.items():
                self.assertIn(status, (503, 504))
                if status == 503:
                    self.assertGreaterEqual(int(header.get("Retry-After", 0)), 1)
                    wait_for(lambda: service.ask("GET", f"/v1/timers/{name}")[0] != 503, "it stays unavailable")
                    self.assertEqual(service.ask("GET", f"/v1/timers/{name}")[0], 404, "503 says that nothing was changed")
                # the same request again
                wait_for(lambda: service.ask("PUT", f"/v1/timers/{name}", json.loads(DOCUMENT))[0] in (200, 201), "it stays unavailable")


if __name__ == "__main__":
    unittest.main(verbosity=2)
