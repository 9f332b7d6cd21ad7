"""Node's fetch: fetch.mjs is a client in JavaScript."""
import os
import subprocess
import unittest

from service import Service, skip_without


class Fetch(unittest.TestCase):
    def test_client_in_javascript_schedules_and_is_called(self):
        with Service() as service:
            script = os.path.join(os.path.dirname(os.path.abspath(__file__)), "fetch.mjs")
            done = subprocess.run(["node", script, service.address], capture_output=True, text=True, timeout=20)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr + service.lines())
            self.assertEqual(service.stop(), 0)


if __name__ == "__main__":
    skip_without("node")
    unittest.main(verbosity=2)
