"""Names of callees that the system resolves very slowly. SLOW_NAMES is a library that makes it so for names that begin with "slow"."""
import os
import time
import unittest

from service import Callee, Service, wait_for

SLOW = {"LD_PRELOAD": os.environ["SLOW_NAMES"]}


def schedule(service, name, host):
    status, _ = service.ask("PUT", f"/v1/timers/{name}", {"in": "0s", "callback": f"http://{host}/{name}"})
    assert status == 201


class SlowNames(unittest.TestCase):
    def test_they_do_not_hold_up_the_names_of_others(self):
        with Callee() as callee, Service(environment=SLOW) as service:
            for i in range(8):
                schedule(service, f"slow-{i}", f"slow-{i}.example")
            wait_for(lambda: service.metric("timer_server_callbacks_running") == 8, "the slow names are not asked for")
            begin = time.monotonic()
            schedule(service, "good", f"localhost:{callee.address.split(':')[1]}")
            callee.wait_for("/good")
            self.assertLess(time.monotonic() - begin, 10)

    def test_drain_keeps_its_limit_while_a_name_is_resolved(self):
        with Service("--drain", "300ms", environment=SLOW) as service:
            schedule(service, "slow", "slow.example")
            wait_for(lambda: service.metric("timer_server_callbacks_running") == 1, "the slow name is not asked for")
            begin = time.monotonic()
            self.assertEqual(service.stop(), 0)
            self.assertLess(time.monotonic() - begin, 10)
            self.assertIn(" left_running=1\n", service.lines())


if __name__ == "__main__":
    unittest.main(verbosity=2)
