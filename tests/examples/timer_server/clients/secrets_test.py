"""What the log tells never has a secret: no key, token, password, header or body, and no URL with its query.

Each test has secrets of its own, and provokes the lines of the log that are nearest to them. The lines of both formats are searched.
"""
import json
import os
import signal
import subprocess
import tempfile
import unittest

from service import PROGRAM, Callee, Service, wait_for

KEY = "hmac-key-7c1e5a09d2b84f63"
TOKEN = "bearer-token-91f0c2d4e6a8"
WRONG_TOKEN = "wrong-token-0a1b2c3d4e5f"
AUTHORIZATION = "authorization-of-a-callback-5b7d"
BODY = "body-of-a-callback-8e2a"
QUERY = "query-of-a-url-3f9c"
PASSWORD = "password-of-postgresql-6d4b"
LOGS = ("text", "json")


def write_secret(folder, name, content):
    path = os.path.join(folder, name)
    with open(os.open(path, os.O_CREAT | os.O_WRONLY, 0o600), "w") as out:
        out.write(content + "\n")
    return path


class Secrets(unittest.TestCase):
    def assert_silent(self, log, *secrets):
        for secret in secrets:
            self.assertNotIn(secret, log)

    def assert_events(self, log, *names):
        for name in names:
            self.assertRegex(log, rf'("event":"{name}"|Z {name}\b)', f"there is no line {name}, so nothing was proved")

    def test_calls_that_fail_and_die_are_told_without_what_was_sent(self):
        # a callee that repeats what it was sent, in the places that a careless log would print
        def answer(path):
            return {"/gone": 410, "/moved": 302, "/broken": 500, "/late": 503}[path.split("?")[0]]

        for log in LOGS:
            with tempfile.TemporaryDirectory() as folder, Callee(answer, echoes=True) as callee:
                options = ["--log", log, "--secret", write_secret(folder, "key", KEY), "--tokens", write_secret(folder, "tokens", TOKEN),
                           "--max-attempts", "2", "--drain", "200ms"]
                bearer = {"Authorization": f"Bearer {TOKEN}"}
                with Service(*options) as service:
                    hosts = {"gone": callee.address, "moved": callee.address, "broken": callee.address, "late": callee.address,
                             "refused": "127.0.0.1:9", "disallowed": "0xa9fea9fe"}  # 169.254.169.254
                    for name, host in hosts.items():
                        document = {"in": "0s", "callback": f"http://{host}/{name}?{QUERY}", "body": BODY,
                                    "headers": {"Authorization": f"Bearer {AUTHORIZATION}"}}
                        self.assertEqual(service.ask("PUT", f"/v1/timers/{name}", document, bearer)[0], 201)
                        self.assertEqual(service.ask("PUT", f"/v1/timers/{name}", document, {"Authorization": f"Bearer {WRONG_TOKEN}"})[0], 401)
                        self.assertEqual(service.ask("GET", f"/v1/timers/{name}?{QUERY}", headers=bearer)[0], 400)
                    for mistake in ({"body": BODY}, {"callback": f"http://x@y/{QUERY}", "in": "1h"}, {"headers": {AUTHORIZATION: "\n"}}):
                        self.assertEqual(service.ask("PUT", "/v1/timers/x", mistake, bearer)[0], 422)

                    def state(name):
                        return json.loads(service.ask("GET", f"/v1/timers/{name}", headers=bearer)[1])["state"]

                    for name in hosts:
                        wait_for(lambda: state(name) == "dead", f"{name} is {state(name)}, not dead")
                    self.assertEqual(len(callee.calls), 6)  # two of them twice
                    _, headers, body = callee.wait_for(f"/gone?{QUERY}")
                    self.assertEqual((headers["Authorization"], body), (f"Bearer {AUTHORIZATION}", BODY))
                    self.assertIn("Timer-Signature", headers)
                    self.assertEqual(service.stop(), 0)
                    self.assert_events(service.lines(), "listening", "ready", "dead", "draining", "stopped")
                    self.assert_silent(service.lines(), KEY, TOKEN, WRONG_TOKEN, AUTHORIZATION, BODY, QUERY,
                                       headers["Timer-Signature"].split("v1=")[1])

    def test_drain_that_leaves_calls_behind_is_told_without_them(self):
        for log in LOGS:
            stopped = []
            with Callee(lambda path: wait_for(lambda: stopped, "it is not stopped") and 204) as callee:
                with Service("--log", log, "--drain", "200ms") as service:
                    document = {"in": "0s", "callback": f"http://{callee.address}/?{QUERY}", "body": BODY,
                                "headers": {"Authorization": AUTHORIZATION}}
                    self.assertEqual(service.ask("PUT", "/v1/timers/a", document)[0], 201)
                    wait_for(lambda: callee.calls, "it is not called")
                    self.assertEqual(service.stop(), 0)
                    stopped.append(True)
                    self.assertRegex(service.lines(), "left_running\"?[=:]\"?1\\b")
                    self.assert_silent(service.lines(), QUERY, BODY, AUTHORIZATION)

    def test_files_of_secrets_that_are_refused_are_not_repeated(self):
        with tempfile.TemporaryDirectory() as folder:
            for option, content in (("--secret", "short-key-4f"), ("--tokens", "short-token")):
                path = write_secret(folder, option[2:], content)
                done = subprocess.run([PROGRAM, "--listen", "127.0.0.1:0", option, path], cwd=folder, capture_output=True, text=True, timeout=20)
                self.assertEqual(done.returncode, 2)
                self.assertIn(path, done.stderr)
                self.assert_silent(done.stdout + done.stderr, content)

    def test_store_that_cannot_be_used_is_told_without_its_password(self):
        with tempfile.TemporaryDirectory() as folder:
            locations = [f"postgresql://demo:{PASSWORD}@/postgres?nonsense=1", f"postgresql://demo:{PASSWORD}@[::1/postgres",
                         f"postgresql://demo:{PASSWORD}%zz@/postgres",
                         f"postgresql://demo:{PASSWORD}@/postgres?host={folder}&password", f"postgresql://demo@/postgres?password={PASSWORD}&x",
                         f"postgresql://demo@/postgres?password={PASSWORD}%zz", f"postgres://demo:{PASSWORD}@/%00",
                         f"postgresql:/demo:{PASSWORD}@/postgres", f"mysql://demo:{PASSWORD}@/postgres", f"demo:{PASSWORD}@/postgres"]
            for log in LOGS:
                for location in locations:
                    done = subprocess.run([PROGRAM, "--listen", "127.0.0.1:0", "--log", log, "--store", location], cwd=folder,
                                          capture_output=True, text=True, timeout=20)
                    self.assertEqual(done.returncode, 2, location)
                    self.assert_silent(done.stdout + done.stderr, PASSWORD)
                    self.assertNotEqual(done.stdout + done.stderr, "")

    @unittest.skipIf("DATABASE" not in os.environ, "PostgreSQL is not built in")
    def test_server_that_is_away_is_told_without_its_password(self):
        with tempfile.TemporaryDirectory() as folder:
            for log in LOGS:
                for location in (f"postgresql://demo:{PASSWORD}@/postgres?host={folder}", f"postgresql://demo:{PASSWORD}@127.0.0.1:9/postgres"):
                    with Service("--log", log, "--store", location, is_ready=False) as service:
                        wait_for(lambda: "postgres_store: " in service.lines(), "nothing is told of the server")
                        service.signal(signal.SIGKILL)
                        service.wait()
                        self.assert_silent(service.lines(), PASSWORD)

    @unittest.skipIf("DATABASE" not in os.environ, "PostgreSQL is not built in")
    def test_server_that_is_lost_and_comes_back_is_told_without_its_password(self):
        from postgres_test import Database

        with Database() as database:
            options = ["--store", database.url.replace("demo@", f"demo:{PASSWORD}@")]
            with Service("--log", "text", *options) as first, Service("--log", "json", *options) as second:
                database.kill()
                for service in (first, second):
                    wait_for(lambda: "the connection is lost" in service.lines(), "nothing is told of the server")
                database.run()
                for service in (first, second):
                    wait_for(lambda: "postgres_store: connected" in service.lines(), "the server is not back")
                    self.assertEqual(service.stop(), 0)
                    self.assert_events(service.lines(), "listening", "ready", "draining", "stopped")
                    self.assert_silent(service.lines(), PASSWORD)

    @unittest.skipIf("DATABASE" not in os.environ, "PostgreSQL is not built in")
    def test_role_that_the_server_does_not_know_is_told_without_its_password(self):
        from postgres_test import Database

        with Database() as database:
            for log in LOGS:
                location = database.url.replace("demo@", f"nobody_at_all:{PASSWORD}@")
                done = subprocess.run([PROGRAM, "--listen", "127.0.0.1:0", "--log", log, "--store", location], capture_output=True, text=True,
                                      timeout=20)
                self.assertEqual(done.returncode, 2)
                self.assertIn("nobody_at_all", done.stdout)
                self.assert_events(done.stdout, "failed")
                self.assert_silent(done.stdout + done.stderr, PASSWORD)


if __name__ == "__main__":
    unittest.main(verbosity=2)
