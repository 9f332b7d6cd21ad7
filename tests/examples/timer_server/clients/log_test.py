"""What the operator reads in the log: each dead timer, and the problems of the store."""
import json
import sqlite3
import unittest

from service import Callee, Service, wait_for


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

    def test_period_without_a_call_that_succeeds_has_a_line(self):
        with Service("--max-attempts", "1") as service:
            service.ask("PUT", "/v1/timers/a", {"in": "0s", "every": "1s", "callback": refused()})
            wait_for(lambda: service.lines().count(" period_failed id=a ") >= 2, "a line is missing")
            self.assertNotIn(" dead ", service.lines())


class Store(unittest.TestCase):
    def test_outage_has_a_line_and_each_line_is_json(self):
        with Service("--log", "json") as service:
            other = sqlite3.connect(f"{service.folder}/timers.db", isolation_level=None)
            other.execute("BEGIN IMMEDIATE")
            document = {"in": "1h", "callback": "http://127.0.0.1:9/"}
            self.assertIn(service.ask("PUT", "/v1/timers/a", document)[0], (503, 504))
            wait_for(lambda: '"event":"store"' in service.lines(), "the outage has no line")
            other.execute("ROLLBACK")
            other.close()
            service.stop()
            lines = [json.loads(line) for line in service.lines().splitlines()]
            self.assertEqual({line["event"] for line in lines}, {"listening", "ready", "store", "draining", "stopped"})
            self.assertRegex(lines[2]["message"], "timers.db: .*locked")


if __name__ == "__main__":
    unittest.main(verbosity=2)
