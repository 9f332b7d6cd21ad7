"""What the operator reads in the log: each dead timer, how many there are, and the problems of the store."""
import json
import re
import signal
import socket
import sqlite3
import subprocess
import tempfile
import unittest

from service import PROGRAM, Callee, Service, wait_for


def refused():
    """A URL that nothing listens at: port 1 of loopback."""
    return "http://127.0.0.1:1/"


class Dead(unittest.TestCase):
    def test_each_timer_that_dies_has_a_line(self):
        answers = {"/missing": 404, "/broken": 500}
        with Callee(lambda path: answers[path]) as callee, Service("--max-attempts", "1") as service:
            for path in answers:
                service.ask("PUT", f"/v1/timers{path}", {"in": "0s", "callback": f"http://{callee.address}{path}"})
            service.ask("PUT", "/v1/timers/refused", {"in": "0s", "callback": refused()})
            wait_for(lambda: service.lines().count(" dead ") == 3, "a line is missing")
            for name, status in (("missing", 404), ("broken", 500), ("refused", 0)):
                self.assertRegex(service.lines(), rf"(?m) dead id={name} due=\S+Z status={status} error=.+$")

    def test_timer_that_dies_by_crashes_is_in_the_number_of_dead_timers(self):
        with tempfile.TemporaryDirectory() as folder, socket.create_server(("127.0.0.1", 0)) as silent:
            silent.settimeout(20)
            document = {"in": "0s", "callback": f"http://127.0.0.1:{silent.getsockname()[1]}/"}
            for _ in range(3):
                with Service(folder=folder) as service:
                    self.assertIn(service.ask("PUT", "/v1/timers/a", document)[0], (200, 201))
                    with silent.accept()[0]:
                        service.signal(signal.SIGKILL)
                        service.wait()
            with Service(folder=folder) as service:
                wait_for(lambda: " dead_timers count=1\n" in service.lines(), "the number is not told")
                self.assertEqual(json.loads(service.ask("GET", "/v1/timers/a")[1])["state"], "dead")
                self.assertNotIn(" dead ", service.lines())

    def test_period_without_a_call_that_succeeds_has_a_line(self):
        with Service("--max-attempts", "1") as service:
            service.ask("PUT", "/v1/timers/a", {"in": "0s", "every": "1s", "callback": refused()})
            wait_for(lambda: service.lines().count(" period_failed id=a ") >= 2, "a line is missing")
            self.assertNotIn(" dead ", service.lines())


class Start(unittest.TestCase):
    def events_of_a_start(self, prepare):
        """The events of a service that ends by itself, and its code. `prepare` may write the file of its store."""
        with tempfile.TemporaryDirectory() as folder:
            prepare(f"{folder}/timers.db")
            done = subprocess.run([PROGRAM, "--listen", "127.0.0.1:0", "--store", f"sqlite:{folder}/timers.db", "--log", "json"],
                                  capture_output=True, text=True, timeout=20)
            return [json.loads(line)["event"] for line in done.stdout.splitlines()], done.returncode

    def test_store_that_cannot_be_used_fails_without_listening(self):
        def write_text(path):
            with open(path, "w") as out:
                out.write("this is no database\n" * 100)

        def make_database_of_another_program(path):
            with sqlite3.connect(path) as other:
                other.execute("PRAGMA user_version = 7")
                other.execute("CREATE TABLE tasks (a)")

        for prepare in (write_text, make_database_of_another_program):
            self.assertEqual(self.events_of_a_start(prepare), (["failed"], 2), prepare.__name__)

    def test_store_that_can_be_used_is_told_before_ready(self):
        with Service() as service:
            self.assertRegex(service.lines(), r"^\S+Z listening address=127.0.0.1:\d+\n\S+Z ready\n")


class Store(unittest.TestCase):
    def test_outage_has_a_line_and_each_line_is_json(self):
        with Service("--log", "json") as service:
            other = sqlite3.connect(f"{service.folder}/timers.db", isolation_level=None)
            other.execute("BEGIN IMMEDIATE")
            document = {"in": "1h", "callback": "http://127.0.0.1:9/"}
            self.assertIn(service.ask("PUT", "/v1/timers/a", document)[0], (503, 504))
            # on a busy machine a line that requests failed may come first
            wait_for(lambda: re.search('"event":"store","message":"[^"]*timers.db: .*locked', service.lines()), "the outage has no line")
            other.execute("ROLLBACK")
            other.close()

            def is_back():
                self.assertIn(service.ask("PUT", "/v1/timers/b", document | {"on_conflict": "replace"})[0], (200, 201, 503, 504))
                return '"event":"store","message":"the store is back"' in service.lines()

            wait_for(is_back, "the end of the outage has no line")
            service.stop()
            lines = [json.loads(line) for line in service.lines().splitlines()]
            self.assertEqual({line["event"] for line in lines}, {"listening", "ready", "store", "draining", "stopped"})
            counts = {name: value for name, value in lines[-1].items() if name not in ("time", "event")}
            self.assertEqual({type(value) for value in counts.values()}, {int}, counts)
            self.assertGreaterEqual(counts["scheduled"], 1)


if __name__ == "__main__":
    unittest.main(verbosity=2)
