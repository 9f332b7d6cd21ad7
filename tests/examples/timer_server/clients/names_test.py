"""Names of callees that resolve slowly, or to other addresses than before. ODD_NAMES is a library that makes it so."""
import json
import os
import tempfile
import time
import unittest

from service import Callee, Service, wait_for

ODD = {"LD_PRELOAD": os.environ["ODD_NAMES"]}
METADATA = "169.254.169.254"  # of a cloud; no rule allows it


def schedule(service, name, host):
    status, _ = service.ask("PUT", f"/v1/timers/{name}", {"in": "0s", "callback": f"http://{host}/{name}"})
    assert status == 201


def timer(service, name):
    return json.loads(service.ask("GET", f"/v1/timers/{name}")[1])


class SlowNames(unittest.TestCase):
    def test_they_do_not_hold_up_the_names_of_others(self):
        with Callee() as callee, Service(environment=ODD) as service:
            for i in range(8):
                schedule(service, f"slow-{i}", f"slow-{i}.example")
            wait_for(lambda: service.metric("timer_server_callbacks_running") == 8, "the slow names are not asked for")
            begin = time.monotonic()
            schedule(service, "good", f"localhost:{callee.address.split(':')[1]}")
            callee.wait_for("/good")
            self.assertLess(time.monotonic() - begin, 10)

    def test_drain_keeps_its_limit_while_a_name_is_resolved(self):
        with Service("--drain", "300ms", environment=ODD) as service:
            schedule(service, "slow", "slow.example")
            wait_for(lambda: service.metric("timer_server_callbacks_running") == 1, "the slow name is not asked for")
            begin = time.monotonic()
            self.assertEqual(service.stop(), 0)
            self.assertLess(time.monotonic() - begin, 10)
            self.assertIn(" left_running=1\n", service.lines())


class NamesThatChange(unittest.TestCase):
    """An address is checked each time a name is resolved. No other address is connected to, not even tried."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.connections = os.path.join(folder.name, "connections")
        self.environment = {**ODD, "CONNECTIONS": self.connections}

    def connected_to(self):
        if not os.path.exists(self.connections):
            return []
        with open(self.connections) as lines:
            return lines.read().splitlines()

    def test_name_that_is_rebound_to_another_network_is_not_called_there(self):
        # 500: it is called again, and its name is resolved again
        with Callee(lambda path: 500, keeps_alive=False) as callee, Service("--log", "json", environment=self.environment) as service:
            port = callee.address.split(":")[1]
            schedule(service, "a", f"rebound.example:{port}")
            callee.wait_for("/a")
            wait_for(lambda: timer(service, "a")["state"] == "dead", "it is not dead")
            self.assertIn(METADATA, timer(service, "a")["last_error"])
            self.assertEqual(set(self.connected_to()), {f"127.0.0.1 {port}"})
            self.assertEqual(service.metric("timer_server_callbacks_disallowed_total"), 1)
            self.assertEqual(service.metric("timer_server_callback_connections_total"), len(callee.calls))
            dead = [json.loads(line) for line in service.lines().splitlines() if '"event":"dead"' in line]
            self.assertEqual([line["id"] for line in dead], ["a"])

    def test_of_several_addresses_only_those_allowed_are_called(self):
        with Callee() as callee, Service(environment=self.environment) as service:
            port = callee.address.split(":")[1]
            schedule(service, "a", f"mixed.example:{port}")
            callee.wait_for("/a")
            self.assertEqual(self.connected_to(), [f"127.0.0.1 {port}"])

    def test_refused_connection_does_not_lead_to_an_address_that_is_not_allowed(self):
        with Callee() as callee:
            port = callee.address.split(":")[1]
        with Service(environment=self.environment) as service:
            schedule(service, "a", f"mixed.example:{port}")
            wait_for(lambda: timer(service, "a").get("attempts", 0) >= 2, "it is not called again")
            self.assertEqual(set(self.connected_to()), {f"127.0.0.1 {port}"})
            self.assertIn("connection refused", timer(service, "a")["last_error"])


if __name__ == "__main__":
    unittest.main(verbosity=2)
